// RUN: msc opt --passes=tile --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>, %w: tensor<16x32xf32>, %w.m: tensor<16x32xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("dense")
    %1 = "msc.gemm"(%x, %0) {transpose_a = true} : (tensor<32x16xf32>, tensor<32x32xf32>) -> tensor<16x32xf32> loc("dense.grad")
    %2 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<32x32xf32>) -> tensor<f32> loc("loss")
    %3:2 = "msc.momentum"(%w, %w.m, %1) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) loc("w.update")
    "msc.return"(%2, %3#0, %3#1) : (tensor<f32>, tensor<16x32xf32>, tensor<16x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "w.m", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x16xf32>, %w: tensor<16x32xf32>, %w.m: tensor<16x32xf32>):
    %0 = "msc.gemm"(%x, %w) : (tensor<32x16xf32>, tensor<16x32xf32>) -> tensor<32x32xf32> loc("dense")
    %1 = "msc.reduce_sum"(%0) {dims = [0, 1]} : (tensor<32x32xf32>) -> tensor<f32> loc("loss")
    %2 = "msc.gemm"(%x, %0) {tile = 4 : i64, transpose_a = true} : (tensor<32x16xf32>, tensor<32x32xf32>) -> tensor<16x32xf32> loc("dense.grad")
    %3:2 = "msc.momentum"(%w, %w.m, %2) {lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64} : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) loc("w.update")
    "msc.return"(%1, %3#0, %3#1) : (tensor<f32>, tensor<16x32xf32>, tensor<16x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "w.m", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "w.m"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
