// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=random,strategies %s
// A user counts one operand of a dropout; the seed and the step come with pass random, and stay whole.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>):
    %0 = "msc.dropout"(%x) {in_strategy = [[2, 4]], rate = 2.5e-01 : f64} : (tensor<32x16xf32>) -> tensor<32x16xf32> loc("parts")
    %1 = "msc.dropout"(%0) {in_layout = ["[{d:(1)2},{}]"], rate = 2.5e-01 : f64} : (tensor<32x16xf32>) -> tensor<32x16xf32> loc("layout")
    %2 = "msc.reduce_sum"(%1) {dims = [0, 1]} : (tensor<32x16xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.dropout"(%x, %random.seed, %random.step) {by = "user", in_strategy = [[2, 4]], rate = 2.5e-01 : f64, salt = 1 : i64, sharding = {A = "{d:(1)2}", B = "{d:(2)4}"}} : (tensor<32x16xf32>, tensor<i64>, tensor<i64>) -> tensor<32x16xf32> loc("parts")
    %1 = "msc.dropout"(%0, %random.seed, %random.step) {by = "user", rate = 2.5e-01 : f64, salt = 2 : i64, sharding = {A = "{d:(1)2}", B = "{}"}} : (tensor<32x16xf32>, tensor<i64>, tensor<i64>) -> tensor<32x16xf32> loc("layout")
    %2 = "msc.reduce_sum"(%1) {by = "default", dims = [0, 1], sharding = {A = "{d}", B = "{}"}} : (tensor<32x16xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      random_step = 2 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
