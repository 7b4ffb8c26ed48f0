// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>):
    // expected-error @below {{out_strategy: result 0 of matmul is [{d:(1)2},{}] partial={d:(2)4}; its dimensions stay cut so and may be cut further only by what its sums are spread over, {d:(2)4}}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [4, 1]], out_strategy = [[4, 4]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("scattered")
    %1 = "msc.matmul"(%x, %w) {in_strategy = [[2, 1], [1, 4]], out_strategy = [[2, 4]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("as it is")
    // expected-error @below {{out_strategy: dimension 1 of result 0 cannot be cut into 2 parts on 8 devices}}
    %2 = "msc.relu"(%0) {out_strategy = [[8, 2]]} : (tensor<32x512xf32>) -> tensor<32x512xf32> loc("alone")
    // expected-error @below {{out_strategy must have one entry for each of the 1 results of relu}}
    %3 = "msc.relu"(%1) {in_strategy = [[8, 1]], out_strategy = [[8, 1], [1]]} : (tensor<32x512xf32>) -> tensor<32x512xf32> loc("entries")
    // expected-error @below {{out_layout: result 0 of relu is [{d},{}], which follows from its operands; only a result with pending sums leaves a choice}}
    %4 = "msc.relu"(%1) {in_layout = ["[{d},{}]"], out_layout = ["[{},{d}]"]} : (tensor<32x512xf32>) -> tensor<32x512xf32> loc("moved")
    %5 = "msc.relu"(%2) {in_layout = ["[{d},{}]"], out_layout = ["[{d},{}]"]} : (tensor<32x512xf32>) -> tensor<32x512xf32> loc("also as it is")
    "msc.return"(%3, %4, %5) : (tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
