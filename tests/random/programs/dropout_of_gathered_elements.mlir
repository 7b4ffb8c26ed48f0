// Dropout draws for elements that each have an index of their own: the place of a random number differs by lane.
// RUN: build/tests/random/programs case %s
// seed: 401665
module {
  "msc.func"() ({
  ^bb0(%x0: tensor<4x100xf32>, %i4: tensor<2x100xi64>, %w5: tensor<36x50xf32>):
    %0 = "msc.dropout"(%x0) {rate = 9.0e-01 : f64} : (tensor<4x100xf32>) -> tensor<4x100xf32> loc("op0"("random":1:0))
    %1 = "msc.take_along"(%0, %i4) {axis = 0 : i64} : (tensor<4x100xf32>, tensor<2x100xi64>) -> tensor<2x100xf32> loc("op9"("random":1:0))
    %2 = "msc.reshape"(%1) {shape = [2, 2, 50]} : (tensor<2x100xf32>) -> tensor<2x2x50xf32> loc("op15"("random":1:0))
    %3 = "msc.batch_matmul"(%2, %w5) {transpose_b = true} : (tensor<2x2x50xf32>, tensor<36x50xf32>) -> tensor<2x2x36xf32> loc("op16"("random":1:0))
    %4 = "msc.reduce_sum"(%3) {dims = [0, 1, 2]} : (tensor<2x2x36xf32>) -> tensor<f32> loc("loss"("random":1:0))
    "msc.return"(%4) : (tensor<f32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x0", msc.role = "data"},
                   {msc.batch_dim = -1 : i64, msc.name = "i4", msc.role = "data"},
                   {msc.name = "w5", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e+00 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
