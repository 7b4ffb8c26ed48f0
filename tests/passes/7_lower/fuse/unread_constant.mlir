// RUN: msc opt --passes=fuse --check-numerics %s
// Constants that nobody reads, and a splat that one op reads twice: no plan holds them.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.constant"() {value = dense<[1.0e+00, 2.0e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %2 = "msc.constant"() {value = dense<2.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %3 = "msc.mul"(%2, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "msc.add"(%x, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%4) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<4x8xf32>):
      %2 = "msc.constant"() {value = dense<2.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
      %3 = "msc.mul"(%2, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %4 = "msc.add"(%1, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%4) : (tensor<4x8xf32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
