// RUN: msc opt --passes=cross_batch --set device_num=2 --set parallel_mode=data_parallel --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    // expected-error @below {{matmul: mixes samples of the batch; every replica of parallel_mode data_parallel mixes those of its part, but it pairs every sample with every other one; auto_parallel and semi_auto_parallel mix the whole batch}}
    %1 = "msc.matmul"(%0, %0) {transpose_b = true} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x8xf32>
    %2 = "msc.reduce_max"(%1) {dims = [0, 1]} : (tensor<8x8xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// EXPECT
