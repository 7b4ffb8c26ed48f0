// RUN: msc opt --set device_num=6 --set parallel_mode=hybrid_parallel --passes=hybrid --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"d=6">} {
  // expected-error @below {{random ops beside collectives over digits of an axis that have no common refinement are not supported yet}}
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>):
    %0 = "msc.all_reduce"(%x) {axes = "{d:(1)2}"} : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %1 = "msc.all_reduce"(%0) {axes = "{d:(1)3}"} : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %2 = "msc.dropout"(%1) {rate = 0.5 : f64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
    "msc.return"(%2) : (tensor<2x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], sym_name = "forward"} : () -> ()
}
