// RUN: msc opt --set device_num=8 --set parallel_mode=data_parallel --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    // expected-warning @below {{the strategy of dense1 is ignored: parallel_mode is data_parallel}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [4, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("dense1")
    // expected-warning @below {{the strategy of relu is ignored: parallel_mode is data_parallel}}
    %1 = "msc.relu"(%0) {in_layout = ["[{d},{}]"]} : (tensor<32x512xf32>) -> tensor<32x512xf32>
    %2 = "msc.relu"(%1) : (tensor<32x512xf32>) -> tensor<32x512xf32>
    "msc.return"(%2) : (tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
