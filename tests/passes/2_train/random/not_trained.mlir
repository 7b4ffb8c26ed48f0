// RUN: msc opt --passes=random %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.dropout"(%x) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%1) : (tensor<4xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
