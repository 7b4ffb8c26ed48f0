// RUN: msc opt --passes=cse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x2xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc("one")
    %1 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc("two")
    %2 = "msc.matmul"(%1, %w) {forward = "two", letters = "mnk", transpose_b = true} : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
    "msc.return"(%0, %2) : (tensor<4x2xf32>, tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x2xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32> loc("one")
    %1 = "msc.matmul"(%0, %w) {forward = "one", letters = "mnk", transpose_b = true} : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<4x3xf32>
    "msc.return"(%0, %1) : (tensor<4x2xf32>, tensor<4x3xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
