// RUN: msc opt --passes=micro --set micro_size=4 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4x3xf32>, %w: tensor<12x3xf32>, %b: tensor<3xf32>, %y: tensor<8xi32>):
    %0 = "msc.reshape"(%x) {shape = [8, 12]} : (tensor<8x4x3xf32>) -> tensor<8x12xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %2 = "msc.broadcast_to"(%b) {shape = [8, 3]} : (tensor<3xf32>) -> tensor<8x3xf32>
    %3 = "msc.add"(%1, %2) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.constant"() {value = dense<5.0e-01> : tensor<8x3xf32>} : () -> tensor<8x3xf32>
    %5 = "msc.mul"(%3, %4) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %6 = "msc.slice"(%5) {limit = [8, 3], start = [0, 1]} : (tensor<8x3xf32>) -> tensor<8x2xf32>
    %7 = "msc.softmax_cross_entropy"(%6, %y) : (tensor<8x2xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%7, %6) : (tensor<f32>, tensor<8x2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x3xf32>, %w: tensor<12x3xf32>, %b: tensor<3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.reshape"(%x) {shape = [2, 12]} : (tensor<2x4x3xf32>) -> tensor<2x12xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<2x12xf32>, tensor<12x3xf32>) -> tensor<2x3xf32>
    %2 = "msc.broadcast_to"(%b) {shape = [8, 3]} : (tensor<3xf32>) -> tensor<8x3xf32>
    %3 = "msc.broadcast_to"(%b) {shape = [2, 3]} : (tensor<3xf32>) -> tensor<2x3xf32>
    %4 = "msc.add"(%1, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = "msc.constant"() {value = dense<5.0e-01> : tensor<8x3xf32>} : () -> tensor<8x3xf32>
    %6 = "msc.constant"() {value = dense<5.0e-01> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    %7 = "msc.mul"(%4, %6) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = "msc.slice"(%7) {limit = [2, 3], start = [0, 1]} : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %9 = "msc.softmax_cross_entropy"(%8, %y) : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<f32>
    "msc.return"(%9, %8) : (tensor<f32>, tensor<2x2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 2.5e-01 : f64,
      micro = 4 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
}
