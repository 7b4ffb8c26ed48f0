// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=strategies,propagate,search,layouts --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %u: tensor<16x16xf32>):
    // expected-note @below {{the other use is here; set strict_parameter_layout to false to redistribute instead}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[1, 4], [4, 1]]} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("dense1")
    // expected-note @below {{the other use is here; set strict_parameter_layout to false to redistribute instead}}
    %1 = "msc.matmul"(%0, %u) {in_strategy = [[4, 1], [1, 1]]} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("dense2")
    // expected-error @below {{parameter w is used in two layouts: dense1 wants [{d},{}], dense3 wants [{},{d}]}}
    %2 = "msc.matmul"(%1, %w) {in_strategy = [[1, 1], [1, 4]]} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("dense3")
    // expected-error @below {{parameter u is used in two layouts: dense2 wants [{},{}], dense4 wants [{},{d:(1)2}]}}
    %3 = "msc.matmul"(%2, %u) {in_strategy = [[2, 1], [1, 2]]} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("dense4")
    "msc.return"(%3) : (tensor<8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
