// RUN: msc opt --set device_num=2 --set parallel_mode=auto_parallel --passes=columns --check-numerics %s
// What the user says of the product holds for what is made of it.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x12xf32>, %b: tensor<12xf32>):
    %0 = "msc.batch_matmul"(%x, %w) {compute_type = "f32", pipeline_stage = 0 : i64, priority = 1 : i64} : (tensor<2x4x8xf32>, tensor<8x12xf32>) -> tensor<2x4x12xf32>
    %1 = "msc.add"(%0, %b) {pipeline_stage = 0 : i64} : (tensor<2x4x12xf32>, tensor<12xf32>) -> tensor<2x4x12xf32>
    %2:3 = "msc.split"(%1) {dim = 2 : i64, sizes = [4, 4, 4]} : (tensor<2x4x12xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>)
    "msc.return"(%2#0, %2#1, %2#2) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      results = ["q", "k", "v"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x8xf32>, %w: tensor<8x3x4xf32>, %b: tensor<3x4xf32>):
    %0 = "msc.einsum"(%x, %w) {compute_type = "f32", equation = "abk,kyz->abyz", pipeline_stage = 0 : i64, priority = 1 : i64} : (tensor<2x4x8xf32>, tensor<8x3x4xf32>) -> tensor<2x4x3x4xf32>
    %1 = "msc.add"(%0, %b) {pipeline_stage = 0 : i64} : (tensor<2x4x3x4xf32>, tensor<3x4xf32>) -> tensor<2x4x3x4xf32>
    %2:3 = "msc.split"(%1) {dim = 2 : i64, sizes = [1, 1, 1]} : (tensor<2x4x3x4xf32>) -> (tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>)
    %3 = "msc.reshape"(%2#0) {shape = [2, 4, 4]} : (tensor<2x4x1x4xf32>) -> tensor<2x4x4xf32>
    %4 = "msc.reshape"(%2#1) {shape = [2, 4, 4]} : (tensor<2x4x1x4xf32>) -> tensor<2x4x4xf32>
    %5 = "msc.reshape"(%2#2) {shape = [2, 4, 4]} : (tensor<2x4x1x4xf32>) -> tensor<2x4x4xf32>
    "msc.return"(%3, %4, %5) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.model_shape = [8, 12], msc.name = "w", msc.role = "parameter"},
                   {msc.model_shape = [12], msc.name = "b", msc.role = "parameter"}],
      results = ["q", "k", "v"],
      sym_name = "forward"} : () -> ()
}
