// The largest of sums in bf16: the kernel that makes the mask of its gradient finds elements as large as it.
// RUN: build/tests/random/programs case %s
// seed: 1
// all vectors: 32
// set: parallel_mode=data_parallel
// set: device_num=2
// set: compute_type=bf16
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6x3xf32>, %w: tensor<3x16xf32>, %b: tensor<16xf32>, %v: tensor<16x4xf32>, %y: tensor<8x4xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<8x6x3xf32>, tensor<3x16xf32>) -> tensor<8x6x16xf32>
    %1 = "msc.add"(%0, %b) : (tensor<8x6x16xf32>, tensor<16xf32>) -> tensor<8x6x16xf32>
    %2 = "msc.relu"(%1) : (tensor<8x6x16xf32>) -> tensor<8x6x16xf32>
    %3 = "msc.reduce_max"(%2) {dims = [1]} : (tensor<8x6x16xf32>) -> tensor<8x16xf32>
    %4 = "msc.matmul"(%3, %v) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.sub"(%4, %y) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%5, %5) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reduce_mean"(%6) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%7) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 0 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.batch_dim = 0 : i64, msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-02 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
