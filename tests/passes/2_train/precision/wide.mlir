// RUN: msc opt --set compute_type=bf16 --passes=precision --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %t: tensor<9x6xf32>, %i: tensor<4xi32>, %w: tensor<6x6xf32>):
    %0 = "msc.gather"(%t, %i) : (tensor<9x6xf32>, tensor<4xi32>) -> tensor<4x6xf32> loc("rows")
    %1 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("dense")
    %2 = "msc.add"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("residual")
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32> loc("mean")
    %4 = "msc.sub"(%2, %3) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32> loc("centred")
    %5 = "msc.matmul"(%4, %w) {compute_type = "f32"} : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("exact")
    %6 = "msc.matmul"(%5, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("prediction")
    %7 = "msc.sub"(%6, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("error")
    "msc.return"(%7) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %t: tensor<9x6xf32>, %i: tensor<4xi32>, %w: tensor<6x6xf32>):
    %0 = "msc.gather"(%t, %i) : (tensor<9x6xf32>, tensor<4xi32>) -> tensor<4x6xf32> loc("rows")
    %1 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %2 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x6xf32>) -> tensor<6x6xbf16> loc("w")
    %3 = "msc.matmul"(%1, %2) : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("dense")
    %4 = "msc.cast"(%0) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %5 = "msc.add"(%4, %3) : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16> loc("residual")
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %7 = "msc.reduce_mean"(%6) {dims = [1], keep_dims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32> loc("mean")
    %8 = "msc.sub"(%6, %7) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32> loc("centred")
    %9 = "msc.matmul"(%8, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("exact")
    %10 = "msc.cast"(%9) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %11 = "msc.matmul"(%10, %2) : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("prediction")
    %12 = "msc.cast"(%11) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %13 = "msc.sub"(%12, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("error")
    "msc.return"(%13) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
