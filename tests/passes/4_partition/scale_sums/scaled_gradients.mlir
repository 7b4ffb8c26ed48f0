// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=scale_sums --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{d},{}]">>, %y: tensor<4x12xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<4x8xf32, #msc.layout<"[{d},{}]">>, tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.constant"() {value = dense<3.0e-01> : tensor<8x12xf32>} : () -> tensor<8x12xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.mul"(%0, %1) : (tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<8x12xf32, #msc.layout<"[{},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %3 = "msc.transpose"(%2) {perm = [1, 0]} : (tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>
    %4 = "msc.constant"() {value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.div"(%3, %4) : (tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>
    %6 = "msc.reduce_scatter"(%5) {dim = 0 : i64} : (tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x8xf32, #msc.layout<"[{d},{}]">>
    %7 = "msc.matmul"(%y, %y) {transpose_a = true} : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>, tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %8 = "msc.div"(%7, %4) : (tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %9 = "msc.all_reduce"(%8) : (tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x12xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%6, %9) {in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<12x8xf32, #msc.layout<"[{d},{}]">>, tensor<12x12xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "data"}],
      partitioned = true,
      results = ["g", "h"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32, #msc.layout<"[{d},{}]">>, %y: tensor<4x12xf32, #msc.layout<"[{d},{}]">>):
    %0 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<4x8xf32, #msc.layout<"[{d},{}]">>, tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %1 = "msc.constant"() {value = dense<3.0e-01> : tensor<8x12xf32>} : () -> tensor<8x12xf32, #msc.layout<"[{},{}]">>
    %2 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<8x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>
    %3 = "msc.constant"() {value = dense<3.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.constant"() {value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %5 = "msc.reduce_scatter"(%2) {dim = 0 : i64} : (tensor<12x8xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x8xf32, #msc.layout<"[{d},{}]">>
    %6 = "msc.mul"(%5, %3) : (tensor<12x8xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<12x8xf32, #msc.layout<"[{d},{}]">>
    %7 = "msc.div"(%6, %4) : (tensor<12x8xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<12x8xf32, #msc.layout<"[{d},{}]">>
    %8 = "msc.matmul"(%y, %y) {transpose_a = true} : (tensor<4x12xf32, #msc.layout<"[{d},{}]">>, tensor<4x12xf32, #msc.layout<"[{d},{}]">>) -> tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %9 = "msc.div"(%8, %4) : (tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>
    %10 = "msc.all_reduce"(%9) : (tensor<12x12xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<12x12xf32, #msc.layout<"[{},{}]">>
    "msc.return"(%7, %10) {in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<12x8xf32, #msc.layout<"[{d},{}]">>, tensor<12x12xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "data"}],
      partitioned = true,
      results = ["g", "h"],
      sym_name = "forward"} : () -> ()
}
