// RUN: msc opt --passes=micro --set micro_size=2 --split-input-file --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.softmax_cross_entropy"(%x, %y) {ignore_index = 0 : i64} : (tensor<4x4xf32>, tensor<4xi32>) -> tensor<f32>
    %3 = "msc.sub"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %4 = "msc.reduce_sum"(%w) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %5 = "msc.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    // expected-warning @below {{softmax_cross_entropy: beside a mean over all samples micro-batches have no label that is ignored: -100 is an index out of range}}
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    // expected-error @below {{softmax_cross_entropy: one term of the loss is divided by a number that the whole batch has}}
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %6 = "msc.softmax_cross_entropy"(%x, %y) {ignore_index = 0 : i64, reduction = "sum"} : (tensor<2x4xf32>, tensor<2xi32>) -> tensor<f32>
    %7 = "msc.reduce_sum"(%w) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %8 = "msc.sub"(%1, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.mul"(%7, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.div"(%10, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%11) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_quotient = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
