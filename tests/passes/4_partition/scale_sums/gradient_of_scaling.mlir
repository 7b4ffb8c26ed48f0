// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=scale_sums --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{},{d}]">>, %w: tensor<8x12xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.constant"() {value = dense<3.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.matmul"(%x, %w) : (tensor<4x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %2 = "msc.mul"(%1, %0) : (tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %3 = "msc.reduce_scatter"(%2) : (tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    %4 = "msc.exp"(%3) : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.mul"(%4, %0) {forward = "%2", letters = "AB"} : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%5) {in_layout = ["[{d},{}]"]} : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      results = ["g"],
      sym_name = "train",
      ties = [-1]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{},{d}]">>, %w: tensor<8x12xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.constant"() {value = dense<3.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %1 = "msc.matmul"(%x, %w) : (tensor<4x8xf32, #msc.layout<"[{},{d}]">>, tensor<8x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %2 = "msc.reduce_scatter"(%1) : (tensor<4x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    %3 = "msc.mul"(%2, %0) : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    %4 = "msc.exp"(%3) : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    %5 = "msc.mul"(%4, %0) : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x12xf32, #msc.layout<"[{d},{}]">>
    "msc.return"(%5) {in_layout = ["[{d},{}]"]} : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      results = ["g"],
      sym_name = "train",
      ties = [-1]} : () -> ()
}
