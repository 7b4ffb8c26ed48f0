// RUN: msc opt --passes=cross_batch --split-input-file --verify-diagnostics --set parallel_mode=data_parallel --set device_num=7 %s
module {
  // expected-error @+2 {{input 'x': its batch of 6 samples in dimension 0 is fewer than the 7 replicas of parallel_mode data_parallel}}
  // expected-error @+1 {{input 'y': its batch of 6 samples in dimension 0 is fewer than the 7 replicas}}
  "msc.func"() ({
  ^bb0(%x: tensor<6x3xf32>, %y: tensor<6xi32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<6x3xf32>, tensor<3xf32>) -> tensor<6x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<6x3xf32>, tensor<6xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @+2 {{input 'x': its micro-batch of 6 samples in dimension 0 is fewer than the 7 replicas of parallel_mode data_parallel}}
  // expected-error @+1 {{input 'y': its micro-batch of 6 samples in dimension 0 is fewer than the 7 replicas}}
  "msc.func"() ({
  ^bb0(%x: tensor<6x3xf32>, %y: tensor<6xi32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<6x3xf32>, tensor<3xf32>) -> tensor<6x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<6x3xf32>, tensor<6xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, micro = 2 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module { // of one sample there is nothing that mixes samples
  // expected-error @+2 {{input 'x': its micro-batch of 1 samples in dimension 0 is fewer than the 7 replicas of parallel_mode data_parallel}}
  // expected-error @+1 {{input 'y': its micro-batch of 1 samples in dimension 0 is fewer than the 7 replicas}}
  "msc.func"() ({
  ^bb0(%x: tensor<1x3xf32>, %y: tensor<1x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
    %1 = "msc.add"(%0, %y) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<1x3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, micro = 2 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
