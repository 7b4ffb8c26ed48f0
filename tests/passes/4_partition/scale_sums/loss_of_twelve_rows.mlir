// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=scale_sums --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<12x6xf32, #msc.layout<"[{d},{}]">>, %y: tensor<12xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.softmax_cross_entropy"(%x, %y) : (tensor<12x6xf32, #msc.layout<"[{d},{}]">>, tensor<12xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %1 = "msc.constant"() {value = dense<3.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %2 = "msc.mul"(%1, %0) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %3 = "msc.neg"(%2) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %4 = "msc.all_reduce"(%3) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%4) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<12x6xf32, #msc.layout<"[{d},{}]">>, %y: tensor<12xi32, #msc.layout<"[{d}]">>):
    %0 = "msc.softmax_cross_entropy"(%x, %y) {reduction = "sum"} : (tensor<12x6xf32, #msc.layout<"[{d},{}]">>, tensor<12xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %1 = "msc.constant"() {value = dense<1.2e+01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("loss")
    %2 = "msc.constant"() {value = dense<3.0e-01> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %3 = "msc.all_reduce"(%0) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.div"(%3, %1) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("loss")
    %5 = "msc.mul"(%2, %4) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %6 = "msc.neg"(%5) : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%6) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
