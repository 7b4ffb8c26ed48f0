// RUN: msc opt --passes=bucket --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %dy: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %a: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %c: tensor<4x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %dy) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("a.grad")
    %1 = "msc.all_reduce"(%0) : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("a.sum")
    %2 = "msc.sgd"(%a, %1) {lr = 5.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("a.update")
    %3 = "msc.reduce_sum"(%dy) {dims = [0]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("b.grad")
    %4 = "msc.all_reduce"(%3) : (tensor<6xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.sum")
    %5 = "msc.sgd"(%b, %4) {lr = 5.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.update")
    %6 = "msc.matmul"(%x, %x) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">> loc("c.grad")
    %7 = "msc.all_reduce"(%6) : (tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">> loc("c.sum")
    %8 = "msc.sgd"(%c, %7) {lr = 5.0e-01 : f64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">> loc("c.update")
    "msc.return"(%2, %5, %8) : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.comm_fusion = 3 : i64, msc.name = "a", msc.role = "parameter"},
                   {msc.comm_fusion = 0 : i64, msc.name = "b", msc.role = "parameter"},
                   {msc.comm_fusion = 3 : i64, msc.name = "c", msc.role = "parameter"}],
      sym_name = "train",
      ties = [2, 3, 4]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %dy: tensor<8x6xf32, #msc.layout<"[{d},{}]">>, %a: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %c: tensor<4x4xf32, #msc.layout<"[{},{}]">>):
    %0 = "msc.matmul"(%x, %dy) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("a.grad")
    %1 = "msc.reduce_sum"(%dy) {dims = [0]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("b.grad")
    %2 = "msc.all_reduce"(%1) : (tensor<6xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.sum")
    %3 = "msc.sgd"(%b, %2) {lr = 5.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.update")
    %4 = "msc.matmul"(%x, %x) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x4xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">> loc("c.grad")
    %5:2 = "msc.all_reduce"(%0, %4) {bucket = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) loc("a.sum")
    %6 = "msc.sgd"(%a, %5#0) {lr = 5.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("a.update")
    %7 = "msc.sgd"(%c, %5#1) {lr = 5.0e-01 : f64} : (tensor<4x4xf32, #msc.layout<"[{},{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> tensor<4x4xf32, #msc.layout<"[{},{}]">> loc("c.update")
    "msc.return"(%6, %3, %7) : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<4x4xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.comm_fusion = 3 : i64, msc.name = "a", msc.role = "parameter"},
                   {msc.comm_fusion = 0 : i64, msc.name = "b", msc.role = "parameter"},
                   {msc.comm_fusion = 3 : i64, msc.name = "c", msc.role = "parameter"}],
      sym_name = "train",
      ties = [2, 3, 4]} : () -> ()
}
