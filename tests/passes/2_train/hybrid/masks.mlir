// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --passes=random,autodiff,hybrid %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %w: tensor<6x4xf32>, %v: tensor<6x4xf32>, %b: tensor<4xf32>):
    %0 = "msc.dropout"(%x) {rate = 5.0e-01 : f64} : (tensor<2x6xf32>) -> tensor<2x6xf32> loc("samples")
    %1 = "msc.matmul"(%0, %w) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.transpose"(%1) {perm = [1, 0]} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %3 = "msc.dropout"(%2) {rate = 5.0e-01 : f64} : (tensor<4x2xf32>) -> tensor<4x2xf32> loc("turned")
    %4 = "msc.transpose"(%3) {perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%x, %v) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.dropout"(%5) {rate = 5.0e-01 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("own")
    %7 = "msc.all_reduce"(%6) {axes = "{tp}"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %8 = "msc.dropout"(%7) {rate = 5.0e-01 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("pairs")
    %9 = "msc.dropout"(%b) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32> loc("alike")
    %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x4xf32>} : () -> tensor<2x4xf32>
    %11 = "msc.dropout"(%10) {rate = 5.0e-01 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("mask")
    %12 = "msc.constant"() {value = dense<1.0e+00> : tensor<4xf32>} : () -> tensor<4xf32>
    %13 = "msc.dropout"(%12) {rate = 5.0e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32> loc("mask_of_all")
    %14 = "msc.add"(%4, %8) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %15 = "msc.add"(%14, %9) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %16 = "msc.mul"(%15, %11) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %17 = "msc.mul"(%16, %13) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %18 = "msc.reduce_scatter"(%17) {axes = "{tp}", dim = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %19 = "msc.dropout"(%18) {rate = 5.0e-01 : f64} : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("columns")
    %20 = "msc.reduce_sum"(%19) {dims = [0]} : (tensor<2x2xf32>) -> tensor<2xf32>
    %21 = "msc.dropout"(%20) {rate = 5.0e-01 : f64} : (tensor<2xf32>) -> tensor<2xf32> loc("sums")
    %22 = "msc.reduce_sum"(%21) {dims = [0]} : (tensor<2xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%22) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.layerwise_parallel = true, msc.name = "v", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %w: tensor<6x4xf32>, %v: tensor<6x4xf32>, %b: tensor<4xf32>, %random.seed: tensor<i64>, %random.step: tensor<i64>):
    %0 = "msc.dropout"(%x, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 1 : i64, whole_layout = "[{dp,tp},{}]"} : (tensor<2x6xf32>, tensor<i64>, tensor<i64>) -> tensor<2x6xf32> loc("samples")
    %1 = "msc.matmul"(%0, %w) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
    %2 = "msc.transpose"(%1) {perm = [1, 0]} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %3 = "msc.dropout"(%2, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 2 : i64, whole_layout = "[{},{dp,tp}]"} : (tensor<4x2xf32>, tensor<i64>, tensor<i64>) -> tensor<4x2xf32> loc("turned")
    %4 = "msc.transpose"(%3) {perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %5 = "msc.matmul"(%x, %v) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
    %6 = "msc.dropout"(%5, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 3 : i64, whole_layout = "[{dp,tp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32> loc("own")
    %7 = "msc.all_reduce"(%6) {axes = "{tp}"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %8 = "msc.dropout"(%7, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 4 : i64, whole_layout = "[{dp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32> loc("pairs")
    %9 = "msc.dropout"(%b, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 5 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32> loc("alike")
    %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<2x4xf32>} : () -> tensor<2x4xf32>
    %11 = "msc.dropout"(%10, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 6 : i64, whole_layout = "[{dp,tp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32> loc("mask")
    %12 = "msc.constant"() {value = dense<1.0e+00> : tensor<4xf32>} : () -> tensor<4xf32>
    %13 = "msc.dropout"(%12, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 7 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32> loc("mask_of_all")
    %14 = "msc.add"(%4, %8) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %15 = "msc.add"(%14, %9) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %16 = "msc.mul"(%15, %11) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %17 = "msc.mul"(%16, %13) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %18 = "msc.reduce_scatter"(%17) {axes = "{tp}", dim = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %19 = "msc.dropout"(%18, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 8 : i64, whole_layout = "[{dp},{tp}]"} : (tensor<2x2xf32>, tensor<i64>, tensor<i64>) -> tensor<2x2xf32> loc("columns")
    %20 = "msc.reduce_sum"(%19) {dims = [0]} : (tensor<2x2xf32>) -> tensor<2xf32>
    %21 = "msc.dropout"(%20, %random.seed, %random.step) {rate = 5.0e-01 : f64, salt = 9 : i64, whole_layout = "[{dp,tp}]"} : (tensor<2xf32>, tensor<i64>, tensor<i64>) -> tensor<2xf32> loc("sums")
    %22 = "msc.reduce_sum"(%21) {dims = [0]} : (tensor<2xf32>) -> tensor<f32> loc("loss")
    %23 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %24 = "msc.broadcast_to"(%23) {forward = "loss", letters = "A", shape = [2]} : (tensor<f32>) -> tensor<2xf32> loc("loss.grad")
    %25 = "msc.dropout"(%24, %random.seed, %random.step) {forward = "sums", letters = "A", rate = 5.0e-01 : f64, salt = 9 : i64, whole_layout = "[{dp,tp}]"} : (tensor<2xf32>, tensor<i64>, tensor<i64>) -> tensor<2xf32> loc("sums.grad")
    %26 = "msc.broadcast_to"(%25) {forward = "%20", letters = "BA", shape = [2, 2]} : (tensor<2xf32>) -> tensor<2x2xf32>
    %27 = "msc.dropout"(%26, %random.seed, %random.step) {forward = "columns", letters = "AB", rate = 5.0e-01 : f64, salt = 8 : i64, whole_layout = "[{dp},{tp}]"} : (tensor<2x2xf32>, tensor<i64>, tensor<i64>) -> tensor<2x2xf32> loc("columns.grad")
    %28 = "msc.all_gather"(%27) {axes = "{tp}", dim = 1 : i64, forward = "%18", letters = "A."} : (tensor<2x2xf32>) -> tensor<2x4xf32>
    %29 = "msc.mul"(%28, %13) {forward = "%17", letters = "AB"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %30 = "msc.mul"(%29, %11) {forward = "%16", letters = "AB"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %31 = "msc.reduce_sum"(%30) {dims = [0], forward = "%15", letters = "AB"} : (tensor<2x4xf32>) -> tensor<4xf32>
    %32 = "msc.dropout"(%31, %random.seed, %random.step) {forward = "alike", letters = "A", rate = 5.0e-01 : f64, salt = 5 : i64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32> loc("alike.grad")
    %33 = "msc.dropout"(%30, %random.seed, %random.step) {forward = "pairs", letters = "AB", rate = 5.0e-01 : f64, salt = 4 : i64, whole_layout = "[{dp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32> loc("pairs.grad")
    %34 = "msc.all_reduce"(%33) {axes = "{tp}", forward = "%7", letters = "AB"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %35 = "msc.dropout"(%34, %random.seed, %random.step) {forward = "own", letters = "AB", rate = 5.0e-01 : f64, salt = 3 : i64, whole_layout = "[{dp,tp},{}]"} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32> loc("own.grad")
    %36 = "msc.matmul"(%x, %35) {forward = "%5", letters = "mkn", transpose_a = true} : (tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
    %37 = "msc.transpose"(%30) {forward = "%4", letters = "BA", perm = [1, 0]} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %38 = "msc.dropout"(%37, %random.seed, %random.step) {forward = "turned", letters = "AB", rate = 5.0e-01 : f64, salt = 2 : i64, whole_layout = "[{},{dp,tp}]"} : (tensor<4x2xf32>, tensor<i64>, tensor<i64>) -> tensor<4x2xf32> loc("turned.grad")
    %39 = "msc.transpose"(%38) {forward = "%2", letters = "BA", perm = [1, 0]} : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %40 = "msc.matmul"(%0, %39) {forward = "%1", letters = "mkn", transpose_a = true} : (tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
    %41 = "msc.all_reduce"(%22) {axes = "{dp,tp}"} : (tensor<f32>) -> tensor<f32> loc("loss")
    %42 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("loss")
    %43 = "msc.mul"(%41, %42) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss")
    %44 = "msc.all_reduce"(%40) {axes = "{dp,tp}"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %45 = "msc.all_reduce"(%32) {axes = "{dp,tp}"} : (tensor<4xf32>) -> tensor<4xf32> loc("alike.grad")
    "msc.return"(%43, %44, %36, %45) : (tensor<f32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.layerwise_parallel = true, msc.name = "v", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.init = "seed", msc.name = "random.seed", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "random.step", msc.role = "state"}],
      gradients = [1, 2, 3],
      loss = 0 : i64,
      manual = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      random_step = 5 : i64,
      results = ["loss", "w.grad", "v.grad", "b.grad"],
      sym_name = "forward"} : () -> ()
}
