// RUN: msc opt --set device_num=12 --set parallel_mode=semi_auto_parallel --passes=redistribute --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=12">} {
  "msc.func"() ({
  ^bb0(%x: tensor<24xf32, #msc.layout<"[{d:(4)3,d:(2)2,d:(1)2}]">>):
    %0 = "msc.neg"(%x) {in_layout = ["[{d}]"]} : (tensor<24xf32, #msc.layout<"[{d:(4)3,d:(2)2,d:(1)2}]">>) -> tensor<24xf32, #msc.layout<"[{d}]">>
    "msc.return"(%0) {in_layout = ["[{}]"]} : (tensor<24xf32, #msc.layout<"[{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=12">} {
  "msc.func"() ({
  ^bb0(%x: tensor<24xf32, #msc.layout<"[{d:(4)3,d:(2)2,d:(1)2}]">>):
    %0 = "msc.permute"(%x) : (tensor<24xf32, #msc.layout<"[{d:(4)3,d:(2)2,d:(1)2}]">>) -> tensor<24xf32, #msc.layout<"[{d}]">>
    %1 = "msc.neg"(%0) : (tensor<24xf32, #msc.layout<"[{d}]">>) -> tensor<24xf32, #msc.layout<"[{d}]">>
    %2 = "msc.all_gather"(%1) : (tensor<24xf32, #msc.layout<"[{d}]">>) -> tensor<24xf32, #msc.layout<"[{}]">>
    "msc.return"(%2) {in_layout = ["[{}]"]} : (tensor<24xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      partitioned = true,
      sym_name = "forward"} : () -> ()
}
