// RUN: msc opt --set device_num=8 --set 'mesh={"tp":4,"dp":2}' --set parallel_mode=semi_auto_parallel --passes=strategies %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>):
    %0 = "msc.matmul"(%a, %b) {in_layout = ["[{dp},{tp}]", "[{tp},{}]"]} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{dp},{tp}]", msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"tp=4,dp=2">} {
  "msc.func"() ({
  ^bb0(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>):
    %0 = "msc.matmul"(%a, %b) {by = "user", sharding = {k = "{tp}", m = "{dp}", n = "{}"}} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{dp},{tp}]", msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
