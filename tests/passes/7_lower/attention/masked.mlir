// RUN: msc opt --passes=attention --set deterministic=true --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x2x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>, %m: tensor<2x1x1x6xi1>, %a: tensor<5x6xbf16>, %dy: tensor<2x2x5x8xbf16>):
    %0:2 = "msc.flash_attention"(%q, %k, %v, %m) {masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x1x1x6xi1>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    %1:3 = "msc.flash_attention_grad"(%q, %k, %v, %0#0, %0#1, %dy, %m) {masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>, tensor<2x2x5x8xbf16>, tensor<2x1x1x6xi1>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>)
    %2:2 = "msc.flash_attention"(%q, %k, %v, %a) {causal = true, masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<5x6xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    "msc.return"(%1#0, %1#1, %1#2, %2#0) : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x2x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>, %m: tensor<2x1x1x6xi1>, %a: tensor<5x6xbf16>, %dy: tensor<2x2x5x8xbf16>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16>
    %1 = "msc.constant"() {value = dense<-3.39e+38> : tensor<bf16>} : () -> tensor<bf16>
    %2 = "msc.select"(%m, %0, %1) : (tensor<2x1x1x6xi1>, tensor<bf16>, tensor<bf16>) -> tensor<2x1x1x6xbf16>
    %3:2 = "msc.flash_attention"(%q, %k, %v, %2) {library = true, masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x1x1x6xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    %4:3 = "msc.flash_attention_grad"(%q, %k, %v, %3#0, %3#1, %dy, %2) {library = true, masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>, tensor<2x2x5x8xbf16>, tensor<2x1x1x6xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>)
    %5 = "msc.reshape"(%a) {shape = [1, 1, 5, 6]} : (tensor<5x6xbf16>) -> tensor<1x1x5x6xbf16>
    %6:2 = "msc.flash_attention"(%q, %k, %v, %5) {causal = true, library = true, masked = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<1x1x5x6xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    "msc.return"(%4#0, %4#1, %4#2, %6#0) : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
