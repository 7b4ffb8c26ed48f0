// RUN: msc opt --set compute_type=bf16 --passes=precision --check-numerics %s
// Norms are computed in f32, but what is added to their results is added in bf16.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %t: tensor<9x6xf32>, %i: tensor<4xi32>, %w: tensor<6x6xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>):
    %0 = "msc.gather"(%t, %i) : (tensor<9x6xf32>, tensor<4xi32>) -> tensor<4x6xf32> loc("rows")
    %1 = "msc.layer_norm"(%0, %g, %b) : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32> loc("first")
    %2 = "msc.matmul"(%1, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("dense")
    %3 = "msc.add"(%1, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("residual")
    %4 = "msc.rms_norm"(%3, %g) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32> loc("second")
    %5 = "msc.add"(%4, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32> loc("again")
    "msc.return"(%5) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %t: tensor<9x6xf32>, %i: tensor<4xi32>, %w: tensor<6x6xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>):
    %0 = "msc.gather"(%t, %i) : (tensor<9x6xf32>, tensor<4xi32>) -> tensor<4x6xf32> loc("rows")
    %1 = "msc.layer_norm"(%0, %g, %b) : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32> loc("first")
    %2 = "msc.cast"(%1) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %3 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x6xf32>) -> tensor<6x6xbf16> loc("w")
    %4 = "msc.matmul"(%2, %3) : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("dense")
    %5 = "msc.add"(%2, %4) : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16> loc("residual")
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %7 = "msc.rms_norm"(%6, %g) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32> loc("second")
    %8 = "msc.cast"(%7) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %9 = "msc.add"(%8, %4) : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16> loc("again")
    %10 = "msc.cast"(%9) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    "msc.return"(%10) : (tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
