// RUN: msc opt --passes=attention --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<2x1x1x6xi1>, %dy: tensor<2x4x5x8xf32>):
    %0:2 = "msc.flash_attention"(%q, %k, %v, %m) {masked = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x1x1x6xi1>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5xf32>)
    %1:3 = "msc.flash_attention_grad"(%q, %k, %v, %0#0, %0#1, %dy, %m) {masked = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x1x1x6xi1>) -> (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)
    "msc.return"(%0#0, %1#0, %1#1, %1#2) : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<2x1x1x6xi1>, %dy: tensor<2x4x5x8xf32>):
    %0 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.select"(%m, %0, %1) : (tensor<2x1x1x6xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x6xf32>
    %3:2 = "msc.flash_attention"(%q, %k, %v, %2) {library = true, masked = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x1x1x6xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5xf32>)
    %4:3 = "msc.flash_attention_grad"(%q, %k, %v, %3#0, %3#1, %dy, %2) {library = true, masked = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x1x1x6xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)
    "msc.return"(%3#0, %4#0, %4#1, %4#2) : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
