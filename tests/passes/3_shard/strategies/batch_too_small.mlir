// RUN: msc opt --set device_num=5 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<3x8xf32>, %w: tensor<8x8xf32>):
    // expected-warning @below {{dense1: its batch of 3 cannot be cut among 5 ranks, every one computes all of it; so it is with 1 more}}
    %0 = "msc.matmul"(%x, %w) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32> loc("dense1")
    %1 = "msc.matmul"(%0, %w) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32> loc("dense2")
    "msc.return"(%1) : (tensor<3x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}], sym_name = "forward"} : () -> ()
}
