// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=cross_batch --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x3xf32>, %z: tensor<8x3xf32>):
    // expected-error @below {{cross_batch: the batch of 6 samples does not divide into 4 parts}}
    %0 = "msc.reduce_max"(%x) {cross_batch = true, dims = [0]} : (tensor<6x3xf32>) -> tensor<3xf32> loc("six")
    %1 = "msc.reduce_max"(%x) {cross_batch = true, dims = [0], in_strategy = [[2, 1]]} : (tensor<6x3xf32>) -> tensor<3xf32> loc("two parts")
    %2 = "msc.reduce_sum"(%z) {cross_batch = true, dims = [0], keep_dims = true} : (tensor<8x3xf32>) -> tensor<1x3xf32> loc("sum")
    // expected-error @below {{einsum: computes with what every part of the batch has of its own, and it cannot be computed by parts yet}}
    %3 = "msc.einsum"(%2, %2) {equation = "ab,cb->ac"} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32> loc("square")
    "msc.return"(%0, %1, %3) : (tensor<3xf32>, tensor<3xf32>, tensor<1x1xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
