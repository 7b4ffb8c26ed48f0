// RUN: msc opt --set device_num=6 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<12x12xf32>, %w: tensor<12x12xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[3, 2], [2, 1]]} : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32>
    "msc.return"(%0) : (tensor<12x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=6">} {
  "msc.func"() ({
  ^bb0(%x: tensor<12x12xf32>, %w: tensor<12x12xf32>):
    %0 = "msc.matmul"(%x, %w) {by = "user", in_strategy = [[3, 2], [2, 1]], sharding = {k = "{d:(3)2}", m = "{d:(1)3}", n = "{}"}} : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32>
    "msc.return"(%0) : (tensor<12x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
