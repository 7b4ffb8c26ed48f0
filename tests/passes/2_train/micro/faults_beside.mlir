// RUN: msc opt --passes=micro --set micro_batch_interleaved=4 --split-input-file --verify-diagnostics %s
module {
  // expected-error @+1 {{input 'x': its batch of 6 samples in dimension 0 does not divide among the 4 micro-batches of micro_batch_interleaved}}
  "msc.func"() ({
  ^bb0(%x: tensor<6x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<6x3xf32>, tensor<3xf32>) -> tensor<6x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<6x3xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    // expected-error @below {{reduce_max: mixes samples of the batch, which micro-batches (micro_batch_interleaved) do not see together; mark it cross_batch}}
    %1 = "msc.reduce_max"(%0) {dims = [0]} : (tensor<8x3xf32>) -> tensor<3xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
