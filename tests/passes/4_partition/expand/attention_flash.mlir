// RUN: msc opt --passes=expand --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x2x5x8xbf16>, %v: tensor<2x2x5x8xbf16>, %dy: tensor<2x4x5x8xbf16>):
    %0 = "msc.attention"(%q, %k, %v) {causal = true} : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>) -> tensor<2x4x5x8xbf16>
    %1:2 = "msc.vjp"(%q, %k, %v, %dy) {causal = true, of = [0], op = "attention", wrt = [0, 2]} : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x4x5x8xbf16>) -> (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>)
    "msc.return"(%0, %1#0, %1#1) : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x2x5x8xbf16>, %v: tensor<2x2x5x8xbf16>, %dy: tensor<2x4x5x8xbf16>):
    %0:2 = "msc.flash_attention"(%q, %k, %v) {causal = true, scale = 0.0e+00 : f64} : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>) -> (tensor<2x4x5x8xbf16>, tensor<2x4x5xf32>)
    %1:3 = "msc.flash_attention_grad"(%q, %k, %v, %0#0, %0#1, %dy) {causal = true, scale = 0.0e+00 : f64} : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5xf32>, tensor<2x4x5x8xbf16>) -> (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x8xbf16>)
    "msc.return"(%0#0, %1#0, %1#2) : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
