// A product that is read as another shape of as many elements: a view, not a kernel that could take its tiles.
// RUN: build/tests/random/programs case %s
// seed: 105979
module {
  "msc.func"() ({
  ^bb0(%x0: tensor<12x3xf32>, %w2: tensor<12x6xf32>, %of_op0: tensor<3x6xf32>):
    %0 = "msc.matmul"(%x0, %of_op0) : (tensor<12x3xf32>, tensor<3x6xf32>) -> tensor<12x6xf32> loc("op1"("random":1:0))
    %1 = "msc.reshape"(%0) {in_strategy = [[2, 2]], shape = [12, 6]} : (tensor<12x6xf32>) -> tensor<12x6xf32> loc("op5"("random":1:0))
    %2 = "msc.matmul"(%1, %w2) {transpose_b = true} : (tensor<12x6xf32>, tensor<12x6xf32>) -> tensor<12x12xf32> loc("op6"("random":1:0))
    %3 = "msc.reduce_sum"(%2) {dims = [0, 1]} : (tensor<12x12xf32>) -> tensor<f32> loc("loss"("random":1:0))
    "msc.return"(%3) : (tensor<f32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x0", msc.role = "data"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.batch_dim = -1 : i64, msc.name = "of_op0", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
