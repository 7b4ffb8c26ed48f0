// A kernel of as many operands and results as one may have, which keeps partial sums besides.
// RUN: build/tests/random/programs case %s
// seed: 51880
// set: loss_scale=8
module {
  "msc.func"() ({
  ^bb0(%x0: tensor<24x5x12xf32>, %w1: tensor<1xf32>, %w2: tensor<1xf32>, %w3: tensor<1xf32>, %w4: tensor<1xf32>, %w11: tensor<1xf32>, %w12: tensor<1xf32>, %w13: tensor<1xf32>, %w14: tensor<1xf32>):
    %0 = "msc.reshape"(%x0) {shape = [24, 1, 10, 6]} : (tensor<24x5x12xf32>) -> tensor<24x1x10x6xf32> loc("op1"("random":1:0))
    %1:3 = "msc.batch_norm"(%0, %w1, %w2, %w3, %w4) {eps = 1.0e-05 : f64, training = false} : (tensor<24x1x10x6xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<24x1x10x6xf32>, tensor<1xf32>, tensor<1xf32>) loc("op2"("random":1:0))
    %2:3 = "msc.batch_norm"(%1#0, %w11, %w12, %w13, %w14) {eps = 1.0e-05 : f64, training = false} : (tensor<24x1x10x6xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<24x1x10x6xf32>, tensor<1xf32>, tensor<1xf32>) loc("op21"("random":1:0))
    %3 = "msc.avg_pool"(%2#0) {count_include_pad = false, kernel = [2, 2], padding = [0, 0, 0, 0], stride = [2, 2]} : (tensor<24x1x10x6xf32>) -> tensor<24x1x5x3xf32> loc("op23"("random":1:0))
    %4 = "msc.mul"(%3, %3) : (tensor<24x1x5x3xf32>, tensor<24x1x5x3xf32>) -> tensor<24x1x5x3xf32> loc("loss"("random":1:0))
    %5 = "msc.reduce_sum"(%4) {dims = [0, 1, 2, 3]} : (tensor<24x1x5x3xf32>) -> tensor<f32> loc("loss"("random":1:0))
    "msc.return"(%5) : (tensor<f32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x0", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "w4", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "w11", msc.role = "parameter"},
                   {msc.name = "w12", msc.role = "parameter"},
                   {msc.name = "w13", msc.role = "parameter", msc.trainable = false},
                   {msc.name = "w14", msc.role = "parameter", msc.trainable = false}],
      loss = 0 : i64,
      optimizer = {eps = 9.765625e-04 : f64, kind = "lamb", lr = 6.25e-02 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
