// RUN: msc opt %s
// Everything that can be written, as it is written.
module attributes {msc.author = "me", msc.mesh = #msc.mesh<"dp=2,tp=4">, msc.z = {a = [], b = {}}} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %y: tensor<32xi32>, %w: tensor<784x10xf32>, %b: tensor<10xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [4, 1]]} : (tensor<32x784xf32>, tensor<784x10xf32>) -> tensor<32x10xf32> loc("dense1"("model.py":31:5))
    %1 = "msc.add"(%0, %b) : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<32x10xf32>, tensor<32xi32>) -> tensor<f32>
    %3:2 = "msc.split"(%1) {dim = 0 : i64, sizes = [16, 16]} : (tensor<32x10xf32>) -> (tensor<16x10xf32>, tensor<16x10xf32>) loc("net/a"("sp"))
    %4 = "msc.neg"(%3#1) {forward = "dense1", letters = "mn"} : (tensor<16x10xf32>) -> tensor<16x10xf32> loc("net"(""(callsite("f":1:2 at callsite("s"("g":2:3) at unknown)))))
    %5 = "msc.neg"(%3#0) {forward = "%2", letters = "mn"} : (tensor<16x10xf32>) -> tensor<16x10xf32> loc(callsite(unknown at "h":1:1))
    %6 = "msc.constant"() {value = dense<[[1.0e+00, 0x7F800000], [-0.0e+00, 1.4e-45]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    %7 = "msc.constant"() {value = dense<"0x0001020304050607080910111213141516"> : tensor<17xui8>} : () -> tensor<17xui8>
    %8 = "msc.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
    %9 = "msc.constant"() {value = dense<> : tensor<0x3xf64>} : () -> tensor<0x3xf64>
    %10 = "msc.constant"() {value = dense<18446744073709551615> : tensor<4xui64>} : () -> tensor<4xui64>
    "msc.return"(%2, %1) {h = 0x7FF8000000000000 : f64, i = -7 : i8, l = [1.5e+00, 2.0e+00 : f32, 3 : i32, "s\"\\\n\t\07é"], t = tensor<4x?xf32>} : (tensor<f32>, tensor<32x10xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "momentum", lr = 5.0e-02 : f32, momentum = 9.0e-01 : f32},
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%0: tensor<4x8xf32, #msc.layout<"[{dp},{tp}]">>):
    "msc.return"(%0) : (tensor<4x8xf32, #msc.layout<"[{dp},{tp}]">>) -> ()
  }) {sym_name = "lay"} : () -> ()
  "msc.func"() ({
  ^bb0(%0: tensor<4x8xf32>):
    %1 = "msc.fused"(%0) ({
    ^bb0(%2: tensor<4x8xf32>):
      %3 = "msc.neg"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%3) : (tensor<4x8xf32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%1) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "m"} : () -> () loc("mod"(""("":0:0)))
}
// EXPECT
module attributes {msc.author = "me", msc.mesh = #msc.mesh<"dp=2,tp=4">, msc.z = {a = [], b = {}}} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %y: tensor<32xi32>, %w: tensor<784x10xf32>, %b: tensor<10xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [4, 1]]} : (tensor<32x784xf32>, tensor<784x10xf32>) -> tensor<32x10xf32> loc("dense1"("model.py":31:5))
    %1 = "msc.add"(%0, %b) : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<32x10xf32>, tensor<32xi32>) -> tensor<f32>
    %3:2 = "msc.split"(%1) {dim = 0 : i64, sizes = [16, 16]} : (tensor<32x10xf32>) -> (tensor<16x10xf32>, tensor<16x10xf32>) loc("net/a"("sp"))
    %4 = "msc.neg"(%3#1) {forward = "dense1", letters = "mn"} : (tensor<16x10xf32>) -> tensor<16x10xf32> loc("net"(""(callsite("f":1:2 at callsite("s"("g":2:3) at unknown)))))
    %5 = "msc.neg"(%3#0) {forward = "%2", letters = "mn"} : (tensor<16x10xf32>) -> tensor<16x10xf32> loc(callsite(unknown at "h":1:1))
    %6 = "msc.constant"() {value = dense<[[1.0e+00, 0x7F800000], [-0.0e+00, 1.4e-45]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    %7 = "msc.constant"() {value = dense<"0x0001020304050607080910111213141516"> : tensor<17xui8>} : () -> tensor<17xui8>
    %8 = "msc.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
    %9 = "msc.constant"() {value = dense<> : tensor<0x3xf64>} : () -> tensor<0x3xf64>
    %10 = "msc.constant"() {value = dense<18446744073709551615> : tensor<4xui64>} : () -> tensor<4xui64>
    "msc.return"(%2, %1) {h = 0x7FF8000000000000 : f64, i = -7 : i8, l = [1.5e+00, 2.0e+00 : f32, 3 : i32, "s\"\\\n\t\07é"], t = tensor<4x?xf32>} : (tensor<f32>, tensor<32x10xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "momentum", lr = 5.0e-02 : f32, momentum = 9.0e-01 : f32},
      results = ["loss", "logits"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%0: tensor<4x8xf32, #msc.layout<"[{dp},{tp}]">>):
    "msc.return"(%0) : (tensor<4x8xf32, #msc.layout<"[{dp},{tp}]">>) -> ()
  }) {sym_name = "lay"} : () -> ()
  "msc.func"() ({
  ^bb0(%0: tensor<4x8xf32>):
    %1 = "msc.fused"(%0) ({
    ^bb0(%2: tensor<4x8xf32>):
      %3 = "msc.neg"(%2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%3) : (tensor<4x8xf32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%1) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "m"} : () -> () loc("mod"(""("":0:0)))
}
