// RUN: msc opt --passes=lanes --verify-diagnostics --split-input-file %s
// What one section sends another one receives.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-error @+1 {{stage_send: message 0 is received by nobody}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 1 is sent by nobody}}
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%z) {message = 0 : i64, stage = 1 : i64} : (tensor<8xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 0 is of another type than what is sent}}
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> () loc("a")
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 1 : i64, stage = 1 : i64} : (tensor<4xf32>) -> () loc("b")
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 1 is of another value than what is sent}}
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32> loc("a")
    // expected-error @+1 {{stage_recv: message 0 is of another value than what is sent}}
    %1 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32> loc("b")
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-error @+1 {{stage_send: message 0 goes to another stage than receives it}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 2 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-note @+1 {{the other end is here}}
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 0 is received more or less often than it is sent, once for each micro-batch or once in a step}}
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "U", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], copies = 2 : i64, micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 0 is of another micro-batch than what is sent}}
    %0 = "msc.stage_recv"() {copy = 1 : i64, message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], copies = 2 : i64, micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 0 has more ends than two: one that sends it, and one that receives it}}
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module attributes {msc.lanes = {slots = [0, 0, 0, 0, 0, 0], train = [[0, 0, 0, -1, -1, -1, 0, 0, 1, -1, -1, -1], [0, 0, 1, -1, -1, -1, 0, 0, 0, -1, -1, -1]]}} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-note @+1 {{the other end is here}}
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @+1 {{stage_recv: message 0 is received for the micro-batches in another order than it is sent}}
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module attributes {msc.lanes = {slots = [0, 0, 0, 0, 0, 0], train = [[0, 0, 0, -1, -1, -1, 0, 0, 1, -1, -1, -1], [0, 0, 0, -1, -1, -1, 0, 0, 1, -1, -1, -1]]}} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    // expected-error @+1 {{stage_recv: stage 0 waits for ever for message 1, in entry 0 of msc.lanes}}
    %0 = "msc.stage_recv"() {message = 1 : i64, stage = 1 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.stage_send"(%y) {message = 1 : i64, stage = 0 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module attributes {msc.lanes = {slots = [0, 0, 0, 0, 0, 0], train = [[0, 0, 0, -1, -1, -1], [0, 0, 0, -1, -1, -1, 0, 0, 1, -1, -1, -1]]}} {
  // expected-error @+1 {{msc.lanes: train.0.F does not run once for each of its 2 micro-batches, 1 at a time}}
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %z: tensor<8xf32>):
    "msc.stage_send"(%x) {message = 0 : i64, stage = 1 : i64} : (tensor<4xf32>) -> ()
    "msc.return"(%x) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "z", msc.role = "data"}], micro = 2 : i64, program = "train", section = "F", stage = 0 : i64, sym_name = "train.0.F"} : () -> ()
  // expected-error @+1 {{train.1.F: nobody sets y, which it reads}}
  "msc.func"() ({
  ^bb0(%y: tensor<4xf32>):
    %0 = "msc.stage_recv"() {message = 0 : i64, stage = 0 : i64, type = tensor<4xf32>} : () -> tensor<4xf32>
    "msc.return"(%y) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "y", msc.role = "carried"}], micro = 2 : i64, program = "train", section = "F", stage = 1 : i64, sym_name = "train.1.F"} : () -> ()
}
