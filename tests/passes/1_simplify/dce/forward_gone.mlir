// RUN: msc opt --passes=dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %dy: tensor<4xf32>):
    %0 = "msc.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("t")
    %1 = "msc.mul"(%dy, %x) {forward = "t", letters = "A"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%1) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %dy: tensor<4xf32>):
    %0 = "msc.mul"(%dy, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
