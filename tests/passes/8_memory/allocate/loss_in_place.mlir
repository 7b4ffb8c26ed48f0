// RUN: msc opt --passes=allocate --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32>, %w: tensor<8x64xf32>, %labels: tensor<16xi32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %1:2 = "msc.fused"(%0, %labels) ({
    ^bb0(%2: tensor<16x64xf32>, %3: tensor<16xi32>):
      %4 = "msc.softmax_cross_entropy"(%2, %3) : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<f32>
      %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
      %6 = "msc.softmax_cross_entropy_grad"(%2, %3, %5) : (tensor<16x64xf32>, tensor<16xi32>, tensor<f32>) -> tensor<16x64xf32>
      "msc.yield"(%4, %6) : (tensor<f32>, tensor<16x64xf32>) -> ()
    }) : (tensor<16x64xf32>, tensor<16xi32>) -> (tensor<f32>, tensor<16x64xf32>)
    "msc.return"(%1#0, %1#1) : (tensor<f32>, tensor<16x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"}],
      sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<16x8xf32>, %w: tensor<8x64xf32>, %labels: tensor<16xi32>):
    %0 = "msc.gemm"(%x, %w) {place = [0]} : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %1:2 = "msc.fused"(%0, %labels) ({
    ^bb0(%2: tensor<16x64xf32>, %3: tensor<16xi32>):
      %4 = "msc.softmax_cross_entropy"(%2, %3) : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<f32>
      %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
      %6 = "msc.softmax_cross_entropy_grad"(%2, %3, %5) : (tensor<16x64xf32>, tensor<16xi32>, tensor<f32>) -> tensor<16x64xf32>
      "msc.yield"(%4, %6) : (tensor<f32>, tensor<16x64xf32>) -> ()
    }) {place = [4160, 0], work = 4096 : i64} : (tensor<16x64xf32>, tensor<16xi32>) -> (tensor<f32>, tensor<16x64xf32>)
    "msc.return"(%1#0, %1#1) : (tensor<f32>, tensor<16x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "labels", msc.role = "label"}],
      scratch = 4224 : i64,
      sym_name = "main"} : () -> ()
}
