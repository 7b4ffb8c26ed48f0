// RUN: msc opt --passes=autodiff --split-input-file --verify-diagnostics %s
module {
  // expected-error @below {{unknown kind 'adan'; did you mean 'adam'?}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "adan", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{unknown kind 'lion'; it is one of sgd, momentum, adagrad, rmsprop, rmsprop_momentum, adam, adamw, lamb}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "lion", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{'kind' is missing}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{optimizer momentum: 'lr' is missing}}
  // expected-error @below {{optimizer momentum: 'momentum' is missing}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "momentum"},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{optimizer lamb: 'lr' is missing}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "lamb"},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{optimizer sgd: lr is -0.1; it must be 0 or more}}
  // expected-error @below {{optimizer sgd: weight_decay is -1; it must be 0 or more}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = -0.1 : f32, weight_decay = -1 : i64},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{optimizer sgd: lr is nan; it must be 0 or more}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0x7FC00000 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{beta1 is 1; it must be at least 0 and below 1}}
  // expected-error @below {{eps must be a number}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "adam", lr = 0.1 : f32, beta1 = 1.0 : f32, eps = "small"},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{optimizer adam: unknown hyper-parameter 'beta'; did you mean 'beta1'?}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "adam", lr = 0.1 : f32, beta = 0.9 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{nesterov must be true or false}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "momentum", lr = 0.1 : f32, momentum = 0.9 : f32, nesterov = 1 : i64},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{nesterov needs a momentum above 0 and no dampening}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "momentum", lr = 0.1 : f32, momentum = 0.0 : f32, nesterov = true},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{there is no parameter 'wieght'; did you mean 'weight'?}}
  // expected-error @below {{parameter 'bias' is named twice}}
  // expected-error @below {{'table' is not a trainable floating-point parameter}}
  // expected-error @below {{'x' is not a trainable floating-point parameter}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32, parameters = ["wieght", "bias", "bias", "table", "x"]},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{with several groups each needs 'parameters', the list of their names}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = [{kind = "sgd", lr = 0.1 : f32}, {kind = "sgd", lr = 0.2 : f32, parameters = ["bias"]}],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{'parameters' must be a list of names}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32, parameters = "bias"},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{the function has no trainable parameter}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = [],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{must be a dictionary, or a list of them}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = "sgd",
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
