// RUN: msc opt --passes=expand --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %k: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %v: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %dy: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>):
    %0 = "msc.attention"(%q, %k, %v) {causal = true, in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]"]} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>
    %1 = "msc.vjp"(%q, %k, %v, %dy) {causal = true, in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]"], of = [0], op = "attention", wrt = [1]} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>
    "msc.return"(%0, %1) {in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]"]} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">, msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %k: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %v: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, %dy: tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>):
    %0:2 = "msc.flash_attention"(%q, %k, %v) {causal = true, in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]"], scale = 0.0e+00 : f64} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5xf32, #msc.layout<"[{dp},{tp},{}]">>)
    %1:3 = "msc.flash_attention_grad"(%q, %k, %v, %0#0, %0#1, %dy) {causal = true, in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]", "[{dp},{tp},{}]", "[{dp},{tp},{},{}]"], scale = 0.0e+00 : f64} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5xf32, #msc.layout<"[{dp},{tp},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>)
    "msc.return"(%0#0, %1#1) {in_layout = ["[{dp},{tp},{},{}]", "[{dp},{tp},{},{}]"]} : (tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>, tensor<2x4x5x8xbf16, #msc.layout<"[{dp},{tp},{},{}]">>) -> ()
  }) {sym_name = "main"} : () -> ()
}
