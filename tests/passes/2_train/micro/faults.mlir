// RUN: msc opt --passes=micro --set micro_size=4 --split-input-file --verify-diagnostics %s
module {
  // expected-error @+1 {{input 'x': its batch of 6 samples in dimension 0 does not divide among the 4 micro-batches of micro_size}}
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
    // expected-error @below {{reduce_max: mixes samples of the batch, which micro-batches (micro_size) do not see together; mark it cross_batch}}
    %1 = "msc.reduce_max"(%0) {dims = [0]} : (tensor<8x3xf32>) -> tensor<3xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
// Numbers that name rows of the batch count all of it, wherever the rows go.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %i: tensor<4xi32>, %w: tensor<4x3xf32>):
    // expected-error @below {{scatter_update: mixes samples of the batch, which micro-batches (micro_size) do not see together; mark it cross_batch}}
    %0 = "msc.scatter_update"(%x, %i, %w) : (tensor<8x3xf32>, tensor<4xi32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.batch_dim = -1 : i64, msc.name = "i", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %i: tensor<5x1xi32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    // expected-error @below {{gather_nd: mixes samples of the batch, which micro-batches (micro_size) do not see together; mark it cross_batch}}
    %1 = "msc.gather_nd"(%0, %i) : (tensor<8x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<5x3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.batch_dim = -1 : i64, msc.name = "i", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
// The number of rows with a label that counts is that of the whole batch, also for a result beside the loss.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %y: tensor<8xi32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    // expected-error @below {{softmax_cross_entropy: mixes samples of the batch, which micro-batches (micro_size) do not see together; mark it cross_batch}}
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %twice = "msc.add"(%1, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%twice, %1) : (tensor<f32>, tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module { // 8 samples as 2 groups
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    // expected-error @below {{reshape: it divides the samples of the batch into groups of which one dimension has 2, which micro-batches (micro_size) do not divide}}
    %0 = "msc.reshape"(%x) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
    %1 = "msc.mul"(%0, %w) : (tensor<2x4x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1, 2]} : (tensor<2x4x3xf32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module { // a constant that differs from sample to sample of each run
  "msc.func"() ({
  ^bb0(%x: tensor<4x2xf32>, %w: tensor<2xf32>):
    %0 = "msc.constant"() {value = dense<[1.0e+00, 1.0e+00, 2.0e+00, 2.0e+00, 1.0e+00, 1.0e+00, 2.0e+00, 2.0e+00]> : tensor<8xf32>} : () -> tensor<8xf32>
    %1 = "msc.mul"(%x, %w) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %2 = "msc.transpose"(%1) {perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %3 = "msc.reshape"(%2) {shape = [8]} : (tensor<2x4xf32>) -> tensor<8xf32>
    // expected-error @below {{mul: mixes samples of the batch}}
    %4 = "msc.mul"(%3, %0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<8xf32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
