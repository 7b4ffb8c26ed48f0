// RUN: msc opt --passes=attention --check-numerics %s
// As a function that is not trained says it: dropout of ones is gone, the ones are left.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x2x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x2x5x6xf32>} : () -> tensor<2x2x5x6xf32>
    %1 = "msc.cast"(%0) {dtype = "bf16"} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xbf16>
    %2:2 = "msc.flash_attention"(%q, %k, %v, %1) : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x5x6xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    "msc.return"(%2#0) : (tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x2x5x8xbf16>, %k: tensor<2x2x6x8xbf16>, %v: tensor<2x2x6x8xbf16>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x2x5x6xf32>} : () -> tensor<2x2x5x6xf32>
    %1 = "msc.cast"(%0) {dtype = "bf16"} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xbf16>
    %2:2 = "msc.flash_attention"(%q, %k, %v) {any_order = true, library = true} : (tensor<2x2x5x8xbf16>, tensor<2x2x6x8xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x2x5x8xbf16>, tensor<2x2x5xf32>)
    "msc.return"(%2#0) : (tensor<2x2x5x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
