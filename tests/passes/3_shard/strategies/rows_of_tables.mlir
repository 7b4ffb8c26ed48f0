// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=expand,autodiff,optimizer,strategies %s
module {
  "msc.func"() ({
  ^bb0(%i: tensor<8xi32>, %t: tensor<16x4xf32>, %u: tensor<32x4xf32>, %y: tensor<8x4xf32>):
    %0 = "msc.gather"(%t, %i) {in_strategy = [[4, 1], [1]]} : (tensor<16x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    %1 = "msc.gather"(%u, %i) {in_layout = ["[{d},{}]", "[{}]"]} : (tensor<32x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    %2 = "msc.add"(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.mean_absolute_error"(%2, %y) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%i: tensor<8xi32>, %t: tensor<16x4xf32>, %u: tensor<32x4xf32>, %y: tensor<8x4xf32>):
    %0 = "msc.gather"(%t, %i) {by = "user", in_strategy = [[4, 1], [1]], sharding = {A = "{}", d = "{}", v = "{d}"}} : (tensor<16x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    %1 = "msc.gather"(%u, %i) {by = "user", sharding = {A = "{}", d = "{}", v = "{d}"}} : (tensor<32x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    %2 = "msc.add"(%0, %1) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.sub"(%2, %y) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.abs"(%3) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.reduce_mean"(%4) {by = "default", dims = [0, 1], sharding = {A = "{d}", B = "{}"}} : (tensor<8x4xf32>) -> tensor<f32>
    %6 = "msc.constant"() {by = "default", sharding = {}, value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %7 = "msc.constant"() {by = "default", sharding = {}, value = dense<3.2e+01> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.div"(%6, %7) {forward = "%5", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.broadcast_to"(%8) {forward = "%5", letters = "AB", shape = [8, 4]} : (tensor<f32>) -> tensor<8x4xf32>
    %10 = "msc.sign"(%3) {forward = "%4", letters = "AB"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %11 = "msc.mul"(%9, %10) {forward = "%4", letters = "AB"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %12 = "msc.scatter_add"(%i, %11) {forward = "%1", letters = "Adv", rows = 32 : i64} : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    %13 = "msc.scatter_add"(%i, %11) {forward = "%0", letters = "Adv", rows = 16 : i64} : (tensor<8xi32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %14 = "msc.sgd"(%t, %13) {lr = 1.0e-01 : f64} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32> loc("t.update")
    %15 = "msc.sgd"(%u, %12) {lr = 1.0e-01 : f64} : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<32x4xf32> loc("u.update")
    "msc.return"(%5, %14, %15) : (tensor<f32>, tensor<16x4xf32>, tensor<32x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      results = ["loss", "t", "u"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
