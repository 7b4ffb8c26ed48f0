// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --passes=hybrid --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  // expected-error @below {{parameter 's': layerwise_parallel of a single number is not supported yet; give it shape [1]}}
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %w: tensor<6x3xf32>, %s: tensor<f32>):
    // expected-warning @below {{the strategy of dense is ignored: parallel_mode is hybrid_parallel}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[4, 1], [1, 1]]} : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32> loc("dense")
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("sum")
    %2 = "msc.mul"(%1, %s) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32> loc("scaled")
    "msc.return"(%2) : (tensor<2x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.layerwise_parallel = true, msc.name = "s", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
