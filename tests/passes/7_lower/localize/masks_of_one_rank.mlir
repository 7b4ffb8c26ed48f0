// RUN: msc opt --passes=localize %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 1 : i64, whole_layout = "[{dp},{tp}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    %1 = "msc.dropout"(%0, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 2 : i64, whole_layout = "[{dp,tp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    %2 = "msc.dropout"(%1, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 3 : i64} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    "msc.return"(%2) : (tensor<2x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "random.seed", msc.role = "state"},
                   {msc.name = "random.step", msc.role = "state"}],
      manual = true,
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 1 : i64, starts = [0, 1], whole_shape = [4, 8]} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    %1 = "msc.dropout"(%0, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 2 : i64, starts = [2, -1], whole_shape = [8, 4]} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    %2 = "msc.dropout"(%1, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 3 : i64} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
    "msc.return"(%2) : (tensor<2x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{dp,tp},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 4]},
                   {msc.layout = "[]", msc.name = "random.seed", msc.role = "state", msc.shape = []},
                   {msc.layout = "[]", msc.name = "random.step", msc.role = "state", msc.shape = []}],
      manual = true,
      result_layouts = ["[{},{}]"],
      result_shapes = [[2, 4]],
      starts = [{dim = 0 : i64, layout = "[{dp},{tp}]", shape = [4, 8]}, {dim = 1 : i64, layout = "[{dp},{tp}]", shape = [4, 8]}, {dim = 0 : i64, layout = "[{dp,tp},{}]", shape = [8, 4]}],
      sym_name = "forward"} : () -> ()
}
