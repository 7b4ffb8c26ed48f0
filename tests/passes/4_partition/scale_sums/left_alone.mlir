// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=scale_sums --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32, #msc.layout<"[{},{d}]">>, %h: tensor<12x4xbf16, #msc.layout<"[{d},{}]">>):
    %0 = "msc.reduce_mean"(%x) {dims = [1]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %1 = "msc.reduce_mean"(%x) {dims = [0]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<12xf32, #msc.layout<"[{d}]">>
    %2 = "msc.reduce_sum"(%x) {dims = [1]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %3 = "msc.add"(%0, %2) : (tensor<8xf32, #msc.layout<"[{}] partial={d}">>, tensor<8xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<8xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %5 = "msc.reduce_mean"(%h) {dims = [0]} : (tensor<12x4xbf16, #msc.layout<"[{d},{}]">>) -> tensor<4xbf16, #msc.layout<"[{}] partial={d}">>
    %6 = "msc.all_reduce"(%5) : (tensor<4xbf16, #msc.layout<"[{}] partial={d}">>) -> tensor<4xbf16, #msc.layout<"[{}]">>
    "msc.return"(%4, %1, %6) {in_layout = ["[{}]", "[{d}]", "[{}]"]} : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<12xf32, #msc.layout<"[{d}]">>, tensor<4xbf16, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "h", msc.role = "data"}],
      partitioned = true,
      results = ["y", "m", "h"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32, #msc.layout<"[{},{d}]">>, %h: tensor<12x4xbf16, #msc.layout<"[{d},{}]">>):
    %0 = "msc.reduce_mean"(%x) {dims = [1]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %1 = "msc.reduce_mean"(%x) {dims = [0]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<12xf32, #msc.layout<"[{d}]">>
    %2 = "msc.reduce_sum"(%x) {dims = [1]} : (tensor<8x12xf32, #msc.layout<"[{},{d}]">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %3 = "msc.add"(%0, %2) : (tensor<8xf32, #msc.layout<"[{}] partial={d}">>, tensor<8xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<8xf32, #msc.layout<"[{}] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<8xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<8xf32, #msc.layout<"[{}]">>
    %5 = "msc.reduce_mean"(%h) {dims = [0]} : (tensor<12x4xbf16, #msc.layout<"[{d},{}]">>) -> tensor<4xbf16, #msc.layout<"[{}] partial={d}">>
    %6 = "msc.all_reduce"(%5) : (tensor<4xbf16, #msc.layout<"[{}] partial={d}">>) -> tensor<4xbf16, #msc.layout<"[{}]">>
    "msc.return"(%4, %1, %6) {in_layout = ["[{}]", "[{d}]", "[{}]"]} : (tensor<8xf32, #msc.layout<"[{}]">>, tensor<12xf32, #msc.layout<"[{d}]">>, tensor<4xbf16, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "h", msc.role = "data"}],
      partitioned = true,
      results = ["y", "m", "h"],
      sym_name = "forward"} : () -> ()
}
