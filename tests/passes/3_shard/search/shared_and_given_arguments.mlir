// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=propagate,search %s
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<128x96xf32>, %g: tensor<96x96xf32>, %y: tensor<128x96xf32>, %u: tensor<64x64xf32>):
    %0 = "msc.matmul"(%x, %g) : (tensor<128x96xf32>, tensor<96x96xf32>) -> tensor<128x96xf32> loc("first")
    %1 = "msc.matmul"(%y, %g) : (tensor<128x96xf32>, tensor<96x96xf32>) -> tensor<128x96xf32> loc("second")
    %2 = "msc.relu"(%u) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("as_given")
    "msc.return"(%0, %1, %2) : (tensor<128x96xf32>, tensor<128x96xf32>, tensor<64x64xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d:(1)4},{d:(4)2}]", msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.layout = "[{d:(1)2},{d:(2)4}]", msc.name = "y", msc.role = "data"},
                   {msc.layout = "[{d:(2)2},{}]", msc.name = "u", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<128x96xf32>, %g: tensor<96x96xf32>, %y: tensor<128x96xf32>, %u: tensor<64x64xf32>):
    %0 = "msc.matmul"(%x, %g) {by = "propagation", inherited = [{by = "argument x", digits = "{d}"}], sharding = {k = "{d:(4)2}", m = "{d:(1)4}", n = "{}"}} : (tensor<128x96xf32>, tensor<96x96xf32>) -> tensor<128x96xf32> loc("first")
    %1 = "msc.matmul"(%y, %g) {by = "propagation", conflicts = [{by = "first", dim = 0 : i64, here = "{d:(2)4}", there = "{d:(4)2}", value = "g"}], inherited = [{by = "argument y", digits = "{d}"}], sharding = {k = "{d:(2)4}", m = "{d:(1)2}", n = "{}"}} : (tensor<128x96xf32>, tensor<96x96xf32>) -> tensor<128x96xf32> loc("second")
    %2 = "msc.relu"(%u) {by = "propagation", inherited = [{by = "argument u", digits = "{d:(2)2}"}], sharding = {A = "{d:(2)2}", B = "{}"}} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("as_given")
    "msc.return"(%0, %1, %2) : (tensor<128x96xf32>, tensor<128x96xf32>, tensor<64x64xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d:(1)4},{d:(4)2}]", msc.name = "x", msc.role = "data"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.layout = "[{d:(1)2},{d:(2)4}]", msc.name = "y", msc.role = "data"},
                   {msc.layout = "[{d:(2)2},{}]", msc.name = "u", msc.role = "data"}],
      least_plan_ns = 9830 : i64,
      least_step_ns = 0 : i64,
      searched = true,
      step_ns = 167638 : i64,
      sym_name = "forward"} : () -> ()
}
