// RUN: msc opt --set compute_type=bf16 --passes=precision --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %w: tensor<6x6xf32>, %b: tensor<6xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("first")
    %1 = "msc.add"(%0, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32> loc("bias")
    %2 = "msc.relu"(%1) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %3 = "msc.matmul"(%2, %w) : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32> loc("second")
    %4 = "msc.softmax_cross_entropy"(%3, %y) : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%4, %3) : (tensor<f32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4xi32>, %w: tensor<6x6xf32>, %b: tensor<6xf32>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<4x6xf32>) -> tensor<4x6xbf16> loc("x")
    %1 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x6xf32>) -> tensor<6x6xbf16> loc("w")
    %2 = "msc.matmul"(%0, %1) : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("first")
    %3 = "msc.cast"(%b) {dtype = "bf16"} : (tensor<6xf32>) -> tensor<6xbf16> loc("b")
    %4 = "msc.add"(%2, %3) : (tensor<4x6xbf16>, tensor<6xbf16>) -> tensor<4x6xbf16> loc("bias")
    %5 = "msc.relu"(%4) : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
    %6 = "msc.matmul"(%5, %1) : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xbf16> loc("second")
    %7 = "msc.cast"(%6) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %8 = "msc.softmax_cross_entropy"(%7, %y) : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%8, %7) : (tensor<f32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
