// RUN: msc opt --passes=dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.log"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%3) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
