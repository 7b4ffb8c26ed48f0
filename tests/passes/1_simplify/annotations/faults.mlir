// RUN: msc opt --passes=annotations --split-input-file --verify-diagnostics %s
module {
  // expected-error @below {{argument 'w': annotation msc.cache_rows = -5 : i64 must be a whole number, from 0 on}}
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xi32>, %w: tensor<8x4xf32>):
    // expected-error @below {{gather: annotation primitive_target = "GPU" is not supported yet}}
    %0 = "msc.gather"(%w, %x) {primitive_target = "GPU"} : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [1]} : (tensor<4x6x4xf32>) -> tensor<4x4xf32>
    // expected-error @below {{exp: annotation recompute = 2 : i64 is not supported yet}}
    %2 = "msc.exp"(%1) {pipeline_stage = 0 : i64, recompute = 2 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @below {{tanh: annotation compute_type = "bf16" is not supported yet}}
    // expected-error @below {{tanh: annotation max_bytes = -1 : i64 must be a number of bytes}}
    // expected-error @below {{tanh: annotation comm_fusion = -2 : i64 must be a whole number: 0 for never, or what a group has in common}}
    // expected-error @below {{tanh: annotation priority = 256 : i64 must be a whole number from 0, first, to 255}}
    // expected-error @below {{tanh: annotation deny_replicate = 1 : i64 must be true or false}}
    %3 = "msc.tanh"(%2) {compute_type = "bf16", max_bytes = -1 : i64, comm_fusion = -2 : i64, priority = 256 : i64, deny_replicate = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%3) : (tensor<4x4xf32>) -> ()
  }) {sym_name = "forward",
      arg_attrs = [{msc.name = "x"}, {msc.name = "w", msc.role = "parameter", msc.cache_rows = -5 : i64}]} : () -> ()
}
// -----
module attributes {msc.tarket = "cpu"} {
  // expected-error @below {{module: there is no annotation 'msc.tarket'; did you mean 'msc.target'?}}
  // expected-error @below {{argument 'x': there is no annotation 'msc.rolle'; did you mean 'msc.role'?}}
  // expected-error @below {{forward: there is no annotation 'los'; did you mean 'loss'?}}
  // expected-error @below {{forward: attribute micro must be an integer}}
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x4xf32>):
    // expected-error @below {{reduce_sum: there is no attribute or annotation 'in_stratgy'; did you mean 'in_strategy'?}}
    // expected-error @below {{reduce_sum: there is no attribute or annotation 'keep_dim'; did you mean 'keep_dims'?}}
    %1 = "msc.reduce_sum"(%x) {dims = [1], in_stratgy = [[2, 1, 1]], keep_dim = true} : (tensor<4x6x4xf32>) -> tensor<4x4xf32>
    // expected-error @below {{reduce_mean: there is no attribute or annotation 'cuont'; did you mean 'count'?}}
    // expected-error @below {{reduce_mean: attribute stage must be an integer}}
    %2 = "msc.reduce_mean"(%1) {dims = [1], cuont = 64 : i64, stage = "one"} : (tensor<4x4xf32>) -> tensor<4xf32>
    "msc.return"(%2) : (tensor<4xf32>) -> ()
  }) {sym_name = "forward", los = 0 : i64, micro = 1.0, arg_attrs = [{msc.name = "x", msc.rolle = "data"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>):
    // expected-error @below {{tanh: there is no attribute or annotation 'stage'}}
    %1 = "msc.tanh"(%x) {stage = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%1) : (tensor<4x6xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// -----
module {
  // expected-error @below {{input 'z' has a batch of 5 samples in dimension 0, and 'y' one of 4; what has no batch is given batch_dim = -1}}
  "msc.func"() ({
  ^bb0(%x: tensor<4x5xf32>, %y: tensor<5x4xf32>, %z: tensor<5xf32>):
    %0 = "msc.add"(%x, %z) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
    "msc.return"(%0) : (tensor<4x5xf32>) -> ()
  }) {sym_name = "forward",
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.batch_dim = 1 : i64, msc.name = "y", msc.role = "data"}, {msc.batch_dim = 0 : i64, msc.name = "z", msc.role = "data"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{model: it has the attribute optimizer, but what is trained is the function "forward"}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "model", loss = 0 : i64, optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      arg_attrs = [{msc.name = "x"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
  // expected-error @below {{batch: it has the attribute micro_size, but what is trained is the function "forward"}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "batch", micro_size = 2 : i64} : () -> ()
}
// -----
module {
  // expected-error @below {{forward: an optimizer without a loss; say which of its results that is, as loss = 0}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      arg_attrs = [{msc.name = "x"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.reduce_sum"(%0) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      arg_attrs = [{msc.name = "x"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
  // expected-error @below {{train: training makes a function of this name; give this one another}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "train"} : () -> ()
}
// -----
module attributes {msc.name = 3 : i64} {
  // expected-error @below {{module: attribute msc.name must be a string}}
  // expected-error @below {{forward: attribute results must be a list of strings}}
  // expected-error @below {{w: attribute msc.name must be a string}}
  // expected-error @below {{w: attribute msc.init must be a string}}
  // expected-error @below {{x: attribute msc.shape must be a list of integers}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %w: tensor<4xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "forward", results = [0],
      arg_attrs = [{msc.name = "x", msc.shape = 4 : i64},
                   {msc.name = false, msc.role = "parameter", msc.init = 1.0e+00 : f64}]} : () -> ()
}
// -----
module {
  // expected-error @below {{forward: ties: result 0 becomes argument 'x', which is a tensor of another type}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.reduce_sum"(%x) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {sym_name = "forward", ties = [0], arg_attrs = [{msc.name = "x"}]} : () -> ()
  // expected-error @below {{other: ties: result 0 becomes argument 3, of 1 results and 1 arguments}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "other", ties = [3], arg_attrs = [{msc.name = "x"}]} : () -> ()
}
