// A step whose gradients are too large for f16 is skipped; kernels that keep more digits may not skip it.
// RUN: build/tests/random/programs case %s
// seed: 507434
// set: compute_type=f16
// set: loss_scale=dynamic
module {
  "msc.func"() ({
  ^bb0(%w5: tensor<3xf32>, %w6: tensor<3xf32>, %w7: tensor<3xf32>, %w8: tensor<3xf32>, %w9: tensor<6x16xf32>, %w10: tensor<16xf32>, %w11: tensor<8x1xf32>, %of_op15: tensor<8x3x8x6xf32>, %of_op19: tensor<8x3x8x8xf32>):
    %0:3 = "msc.batch_norm"(%of_op15, %w5, %w6, %w7, %w8) {eps = 1.0e-05 : f64, training = false} : (tensor<8x3x8x6xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x8x6xf32>, tensor<3xf32>, tensor<3xf32>) loc("op16"("random":1:0))
    %1 = "msc.batch_matmul"(%0#0, %w9) {transpose_b = false} : (tensor<8x3x8x6xf32>, tensor<6x16xf32>) -> tensor<8x3x8x16xf32> loc("op17"("random":1:0))
    %2 = "msc.add"(%1, %w10) : (tensor<8x3x8x16xf32>, tensor<16xf32>) -> tensor<8x3x8x16xf32> loc("op18"("random":1:0))
    %3 = "msc.slice"(%2) {limit = [8, 3, 8, 16], start = [0, 0, 0, 8]} : (tensor<8x3x8x16xf32>) -> tensor<8x3x8x8xf32> loc("op20"("random":1:0))
    %4 = "msc.mul"(%of_op19, %3) : (tensor<8x3x8x8xf32>, tensor<8x3x8x8xf32>) -> tensor<8x3x8x8xf32> loc("op22"("random":1:0))
    %5 = "msc.batch_matmul"(%4, %w11) {transpose_b = false} : (tensor<8x3x8x8xf32>, tensor<8x1xf32>) -> tensor<8x3x8x1xf32> loc("op23"("random":1:0))
    %6 = "msc.mul"(%5, %5) : (tensor<8x3x8x1xf32>, tensor<8x3x8x1xf32>) -> tensor<8x3x8x1xf32> loc("loss"("random":1:0))
    %7 = "msc.reduce_sum"(%6) {dims = [0, 1, 2, 3]} : (tensor<8x3x8x1xf32>) -> tensor<f32> loc("loss"("random":1:0))
    "msc.return"(%7) : (tensor<f32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.name = "w5", msc.role = "parameter"},
                   {msc.name = "w6", msc.role = "parameter"},
                   {msc.name = "w7", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "w8", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "w9", msc.role = "parameter"},
                   {msc.name = "w10", msc.role = "parameter"},
                   {msc.name = "w11", msc.role = "parameter"},
                   {msc.batch_dim = -1 : i64, msc.name = "of_op15", msc.role = "data"},
                   {msc.batch_dim = -1 : i64, msc.name = "of_op19", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
