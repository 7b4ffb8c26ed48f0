// RUN: msc opt --passes=attention --set deterministic=true --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>, %w: tensor<2x2x5x8xbf16>, %dy: tensor<2x2x5x8xbf16>):
    %0:2 = "msc.flash_attention"(%q, %k, %v) {causal = true} : (tensor<2x4x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x4x5x8xbf16>, tensor<2x4x5xf32>)
    %1:2 = "msc.flash_attention"(%w, %k, %v) : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    %2:3 = "msc.flash_attention_grad"(%w, %k, %v, %1#0, %1#1, %dy) : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>, tensor<2x2x5x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>)
    "msc.return"(%0#0, %2#0, %2#1, %2#2) : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>, %w: tensor<2x2x5x8xbf16>, %dy: tensor<2x2x5x8xbf16>):
    %0:2 = "msc.flash_attention"(%q, %k, %v) {causal = true, library = true} : (tensor<2x4x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x4x5x8xbf16>, tensor<2x4x5xf32>)
    %1:2 = "msc.flash_attention"(%w, %k, %v) {library = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    %2:3 = "msc.flash_attention_grad"(%w, %k, %v, %1#0, %1#1, %dy) {library = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>, tensor<2x2x5x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>)
    "msc.return"(%0#0, %2#0, %2#1, %2#2) : (tensor<2x4x5x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
