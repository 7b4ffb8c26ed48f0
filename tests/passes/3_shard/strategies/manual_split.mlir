// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=strategies,propagate,search,layouts %s
module {
  "msc.func"() ({
  ^bb0(%t: tensor<64x4xf32>, %i: tensor<8xi32>):
    %0 = "msc.gather"(%t, %i) {in_strategy = [[4, 1], [1]], manual_split = [10, 20, 30, 4]} : (tensor<64x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%t: tensor<64x4xf32, #msc.layout<"[{d}/(10,20,30,4),{}]">>, %i: tensor<8xi32, #msc.layout<"[{}]">>):
    %0 = "msc.gather"(%t, %i) {by = "user", in_layout = ["[{d}/(10,20,30,4),{}]", "[{}]"]} : (tensor<64x4xf32, #msc.layout<"[{d}/(10,20,30,4),{}]">>, tensor<8xi32, #msc.layout<"[{}]">>) -> tensor<8x4xf32, #msc.layout<"[{},{}] partial={d}">>
    "msc.return"(%0) {in_layout = ["[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> ()
  }) {arg_attrs = [{msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
