// RUN: msc opt --passes=replica_objective --split-input-file --verify-diagnostics --set parallel_mode=data_parallel --set device_num=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %m = "msc.reduce_mean"(%a) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    // expected-error @below {{sub: mixes samples of the batch}}
    %b = "msc.sub"(%a, %m) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %l = "msc.reduce_mean"(%b) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    // expected-error @below {{reduce_max: mixes samples of the batch}}
    %m = "msc.reduce_max"(%a) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %l = "msc.reduce_mean"(%m) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    // expected-error @below {{softmax: mixes samples of the batch}}
    %m = "msc.softmax"(%a) {axis = 0} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %l = "msc.reduce_mean"(%m) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<8x4xf32>):
    // expected-error @below {{mul: mixes samples of the batch}}
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %l = "msc.reduce_mean"(%a) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %s = "msc.reduce_sum"(%a) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    // expected-error @below {{mul: mixes samples of the batch}}
    %l = "msc.mul"(%s, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %s = "msc.reduce_mean"(%a) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    // expected-error @below {{exp: mixes samples of the batch}}
    %l = "msc.exp"(%s) : (tensor<f32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4xf32>):
    %a = "msc.mul"(%x, %w) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    // expected-error @below {{slice: mixes samples of the batch}}
    %b = "msc.slice"(%a) {start = [0, 0], limit = [4, 4]} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %l = "msc.reduce_mean"(%b) {dims = [0, 1]} : (tensor<4x4xf32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}, arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"}]} : () -> ()
}
