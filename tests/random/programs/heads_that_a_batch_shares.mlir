// Products of which only some share an operand: it is repeated, in the forward and in both gradients.
// RUN: build/tests/random/programs case %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x16x8xf32>, %w: tensor<1x3x8x32xf32>, %v: tensor<4x1x5x16xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<4x3x16x8xf32>, tensor<1x3x8x32xf32>) -> tensor<4x3x16x32xf32> loc("op0"("random":1:0))
    %1 = "msc.batch_matmul"(%v, %0) : (tensor<4x1x5x16xf32>, tensor<4x3x16x32xf32>) -> tensor<4x3x5x32xf32> loc("op1"("random":1:0))
    %2 = "msc.tanh"(%1) : (tensor<4x3x5x32xf32>) -> tensor<4x3x5x32xf32> loc("op2"("random":1:0))
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1, 2, 3]} : (tensor<4x3x5x32xf32>) -> tensor<f32> loc("loss"("random":1:0))
    "msc.return"(%3) : (tensor<f32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.batch_dim = 0 : i64, msc.name = "v", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
