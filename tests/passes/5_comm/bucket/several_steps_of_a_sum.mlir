// RUN: msc opt --set comm_fusion={} --passes=bucket --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>, %dy: tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>, %u: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %w: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %dy) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>, tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={a,b}">> loc("u.grad")
    %1 = "msc.reduce_scatter"(%0) : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={a,b}">>) -> tensor<4x6xf32, #msc.layout<"[{b},{}] partial={a}">> loc("u.inner")
    %2 = "msc.all_reduce"(%1) : (tensor<4x6xf32, #msc.layout<"[{b},{}] partial={a}">>) -> tensor<4x6xf32, #msc.layout<"[{b},{}]">> loc("u.outer")
    %3 = "msc.all_gather"(%2) : (tensor<4x6xf32, #msc.layout<"[{b},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("u.whole")
    %4 = "msc.sgd"(%u, %3) {lr = 5.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("u.update")
    %5 = "msc.matmul"(%dy, %x) {transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>, tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={a,b}">> loc("v.grad")
    %6 = "msc.reduce_scatter"(%5) : (tensor<6x4xf32, #msc.layout<"[{},{}] partial={a,b}">>) -> tensor<6x4xf32, #msc.layout<"[{},{b}] partial={a}">> loc("v.inner")
    %7 = "msc.all_reduce"(%6) : (tensor<6x4xf32, #msc.layout<"[{},{b}] partial={a}">>) -> tensor<6x4xf32, #msc.layout<"[{},{b}]">> loc("v.outer")
    %8 = "msc.all_gather"(%7) : (tensor<6x4xf32, #msc.layout<"[{},{b}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("v.whole")
    %9 = "msc.sgd"(%v, %8) {lr = 5.0e-01 : f64} : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("v.update")
    %10 = "msc.reduce_sum"(%dy) {dims = [0]} : (tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={a,b}">> loc("w.grad")
    %11 = "msc.all_reduce"(%10) : (tensor<6xf32, #msc.layout<"[{}] partial={a,b}">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("w.sum")
    %12 = "msc.sgd"(%w, %11) {lr = 5.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("w.update")
    "msc.return"(%4, %9, %12) : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train",
      ties = [2, 3, 4]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>, %dy: tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>, %u: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %v: tensor<6x4xf32, #msc.layout<"[{},{}]">>, %w: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %dy) {transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>, tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={a,b}">> loc("u.grad")
    %1 = "msc.matmul"(%dy, %x) {transpose_a = true} : (tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>, tensor<8x4xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}] partial={a,b}">> loc("v.grad")
    %2:2 = "msc.reduce_scatter"(%0, %1) {bucket = 0 : i64} : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={a,b}">>, tensor<6x4xf32, #msc.layout<"[{},{}] partial={a,b}">>) -> (tensor<4x6xf32, #msc.layout<"[{b},{}] partial={a}">>, tensor<6x4xf32, #msc.layout<"[{},{b}] partial={a}">>) loc("u.inner")
    %3:2 = "msc.all_reduce"(%2#0, %2#1) {bucket = 1 : i64} : (tensor<4x6xf32, #msc.layout<"[{b},{}] partial={a}">>, tensor<6x4xf32, #msc.layout<"[{},{b}] partial={a}">>) -> (tensor<4x6xf32, #msc.layout<"[{b},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{b}]">>) loc("u.outer")
    %4:2 = "msc.all_gather"(%3#0, %3#1) {bucket = 2 : i64} : (tensor<4x6xf32, #msc.layout<"[{b},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{b}]">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) loc("u.whole")
    %5 = "msc.sgd"(%u, %4#0) {lr = 5.0e-01 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("u.update")
    %6 = "msc.sgd"(%v, %4#1) {lr = 5.0e-01 : f64} : (tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>) -> tensor<6x4xf32, #msc.layout<"[{},{}]">> loc("v.update")
    %7 = "msc.reduce_sum"(%dy) {dims = [0]} : (tensor<8x6xf32, #msc.layout<"[{a,b},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={a,b}">> loc("w.grad")
    %8 = "msc.all_reduce"(%7) {bucket = 3 : i64} : (tensor<6xf32, #msc.layout<"[{}] partial={a,b}">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("w.sum")
    %9 = "msc.sgd"(%w, %8) {lr = 5.0e-01 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("w.update")
    "msc.return"(%5, %6, %9) : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6x4xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "dy", msc.role = "data"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train",
      ties = [2, 3, 4]} : () -> ()
}
