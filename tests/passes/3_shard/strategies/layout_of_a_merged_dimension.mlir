// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<24x4xf32>):
    %0 = "msc.reshape"(%x) {in_layout = ["[{d},{}]"], shape = [4, 6, 4]} : (tensor<24x4xf32>) -> tensor<4x6x4xf32> loc("parts")
    "msc.return"(%0) : (tensor<4x6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<24x4xf32>):
    %0 = "msc.reshape"(%x) {by = "user", shape = [4, 6, 4], sharding = {A = "{d:(1)4}", B = "{d:(4)2}", C = "{}"}} : (tensor<24x4xf32>) -> tensor<4x6x4xf32> loc("parts")
    "msc.return"(%0) : (tensor<4x6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
