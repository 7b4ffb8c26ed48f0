// RUN: msc opt --set device_num=6 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<12x12xf32>):
    %0 = "msc.relu"(%x) {in_layout = ["[{d:(1)2},{d:(2)3}]"]} : (tensor<12x12xf32>) -> tensor<12x12xf32> loc("first")
    %1 = "msc.relu"(%0) {in_layout = ["[{d:(1)2},{}]"]} : (tensor<12x12xf32>) -> tensor<12x12xf32> loc("second")
    // expected-error @below {{layout [{d:(1)3},{}] cuts an axis at a place that has no common refinement with the layouts given before it}}
    %2 = "msc.relu"(%1) {in_layout = ["[{d:(1)3},{}]"]} : (tensor<12x12xf32>) -> tensor<12x12xf32> loc("third")
    "msc.return"(%2) : (tensor<12x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
