// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --set gradients_mean=true --set zero=1 --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --passes=autodiff,hybrid,optimizer %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %y: tensor<2x8xf32>, %w: tensor<6x8xf32>, %b: tensor<8xf32>, %s: tensor<2xf32>, %u: tensor<8xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x6xf32>, tensor<6x8xf32>) -> tensor<2x8xf32> loc("dense")
    %1 = "msc.add"(%0, %b) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("bias")
    %2 = "msc.reduce_sum"(%s) {dims = [0]} : (tensor<2xf32>) -> tensor<f32> loc("scale")
    %3 = "msc.mul"(%1, %2) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("scaled")
    %4 = "msc.mul"(%3, %u) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("wide")
    %5 = "msc.mean_absolute_error"(%4, %y) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "ones", msc.name = "s", msc.role = "parameter"},
                   {msc.init = "ones", msc.name = "u", msc.parallel_optimizer = false, msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {clip_norm = 1.0e-01 : f64, kind = "momentum", lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>, %y: tensor<2x8xf32>, %w: tensor<6x2xf32>, %b: tensor<2xf32>, %s: tensor<2xf32>, %u: tensor<8xf32>, %w.m: tensor<6x2xf32>, %b.m: tensor<2xf32>, %s.m: tensor<2xf32>, %u.m: tensor<8xf32>):
    %0 = "msc.all_gather"(%b) {axes = "{d}", dim = 0 : i64} : (tensor<2xf32>) -> tensor<8xf32> loc("b")
    %1 = "msc.all_gather"(%w) {axes = "{d}", dim = 1 : i64} : (tensor<6x2xf32>) -> tensor<6x8xf32> loc("w")
    %2 = "msc.matmul"(%x, %1) : (tensor<2x6xf32>, tensor<6x8xf32>) -> tensor<2x8xf32> loc("dense")
    %3 = "msc.add"(%2, %0) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("bias")
    %4 = "msc.reduce_sum"(%s) {dims = [0]} : (tensor<2xf32>) -> tensor<f32> loc("scale")
    %5 = "msc.mul"(%3, %4) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("scaled")
    %6 = "msc.mul"(%5, %u) : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("wide")
    %7 = "msc.mean_absolute_error"(%6, %y) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<f32> loc("loss")
    %8 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %9 = "msc.vjp"(%6, %y, %8) {forward = "loss", letters = "AB", of = [0], op = "mean_absolute_error", wrt = [0]} : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("loss.grad")
    %10 = "msc.mul"(%9, %u) {forward = "wide", letters = "AB"} : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> loc("wide.grad")
    %11 = "msc.mul"(%9, %5) {forward = "wide", letters = "AB"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> loc("wide.grad")
    %12 = "msc.reduce_sum"(%11) {dims = [0], forward = "wide", letters = "AB"} : (tensor<2x8xf32>) -> tensor<8xf32> loc("wide.grad")
    %13 = "msc.mul"(%10, %4) {forward = "scaled", letters = "AB"} : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("scaled.grad")
    %14 = "msc.mul"(%10, %3) {forward = "scaled", letters = "AB"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> loc("scaled.grad")
    %15 = "msc.reduce_sum"(%14) {dims = [0, 1], forward = "scaled", letters = "AB"} : (tensor<2x8xf32>) -> tensor<f32> loc("scaled.grad")
    %16 = "msc.broadcast_to"(%15) {forward = "scale", letters = "A", shape = [2]} : (tensor<f32>) -> tensor<2xf32> loc("scale.grad")
    %17 = "msc.reduce_sum"(%13) {dims = [0], forward = "bias", letters = "AB"} : (tensor<2x8xf32>) -> tensor<8xf32> loc("bias.grad")
    %18 = "msc.matmul"(%x, %13) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<2x6xf32>, tensor<2x8xf32>) -> tensor<6x8xf32> loc("dense.grad")
    %19 = "msc.all_reduce"(%7) {axes = "{d}"} : (tensor<f32>) -> tensor<f32> loc("loss")
    %20 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("loss")
    %21 = "msc.mul"(%19, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("loss")
    %22 = "msc.reduce_scatter"(%18) {axes = "{d}", dim = 1 : i64} : (tensor<6x8xf32>) -> tensor<6x2xf32> loc("dense.grad")
    %23 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("dense.grad")
    %24 = "msc.mul"(%22, %23) : (tensor<6x2xf32>, tensor<f32>) -> tensor<6x2xf32> loc("dense.grad")
    %25 = "msc.reduce_scatter"(%17) {axes = "{d}", dim = 0 : i64} : (tensor<8xf32>) -> tensor<2xf32> loc("bias.grad")
    %26 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("bias.grad")
    %27 = "msc.mul"(%25, %26) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32> loc("bias.grad")
    %28 = "msc.all_reduce"(%16) {axes = "{d}"} : (tensor<2xf32>) -> tensor<2xf32> loc("scale.grad")
    %29 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("scale.grad")
    %30 = "msc.mul"(%28, %29) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32> loc("scale.grad")
    %31 = "msc.all_reduce"(%12) {axes = "{d}"} : (tensor<8xf32>) -> tensor<8xf32> loc("wide.grad")
    %32 = "msc.constant"() {value = dense<2.5e-01> : tensor<f32>} : () -> tensor<f32> loc("wide.grad")
    %33 = "msc.mul"(%31, %32) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> loc("wide.grad")
    %34 = "msc.cast"(%24) {dtype = "f64"} : (tensor<6x2xf32>) -> tensor<6x2xf64> loc("clip_norm")
    %35 = "msc.mul"(%34, %34) : (tensor<6x2xf64>, tensor<6x2xf64>) -> tensor<6x2xf64> loc("clip_norm")
    %36 = "msc.reduce_sum"(%35) {dims = [0, 1]} : (tensor<6x2xf64>) -> tensor<f64> loc("clip_norm")
    %37 = "msc.cast"(%27) {dtype = "f64"} : (tensor<2xf32>) -> tensor<2xf64> loc("clip_norm")
    %38 = "msc.mul"(%37, %37) : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64> loc("clip_norm")
    %39 = "msc.reduce_sum"(%38) {dims = [0]} : (tensor<2xf64>) -> tensor<f64> loc("clip_norm")
    %40 = "msc.add"(%36, %39) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %41 = "msc.cast"(%30) {dtype = "f64"} : (tensor<2xf32>) -> tensor<2xf64> loc("clip_norm")
    %42 = "msc.mul"(%41, %41) : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64> loc("clip_norm")
    %43 = "msc.reduce_sum"(%42) {dims = [0]} : (tensor<2xf64>) -> tensor<f64> loc("clip_norm")
    %44 = "msc.cast"(%33) {dtype = "f64"} : (tensor<8xf32>) -> tensor<8xf64> loc("clip_norm")
    %45 = "msc.mul"(%44, %44) : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64> loc("clip_norm")
    %46 = "msc.reduce_sum"(%45) {dims = [0]} : (tensor<8xf64>) -> tensor<f64> loc("clip_norm")
    %47 = "msc.add"(%43, %46) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %48 = "msc.all_reduce"(%40) {axes = "{d}"} : (tensor<f64>) -> tensor<f64> loc("clip_norm")
    %49 = "msc.add"(%47, %48) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %50 = "msc.sqrt"(%49) : (tensor<f64>) -> tensor<f64> loc("clip_norm")
    %51 = "msc.constant"() {value = dense<1.0e-06> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %52 = "msc.add"(%50, %51) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %53 = "msc.constant"() {value = dense<1.0e-01> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %54 = "msc.div"(%53, %52) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %55 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64> loc("clip_norm")
    %56 = "msc.min"(%54, %55) : (tensor<f64>, tensor<f64>) -> tensor<f64> loc("clip_norm")
    %57 = "msc.cast"(%56) {dtype = "f32"} : (tensor<f64>) -> tensor<f32> loc("clip_norm")
    %58 = "msc.mul"(%24, %57) : (tensor<6x2xf32>, tensor<f32>) -> tensor<6x2xf32> loc("clip_norm")
    %59 = "msc.mul"(%27, %57) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32> loc("clip_norm")
    %60 = "msc.mul"(%30, %57) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32> loc("clip_norm")
    %61 = "msc.mul"(%33, %57) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> loc("clip_norm")
    %62:2 = "msc.momentum"(%w, %w.m, %58) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<6x2xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<6x2xf32>) loc("w.update")
    %63:2 = "msc.momentum"(%b, %b.m, %59) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) loc("b.update")
    %64:2 = "msc.momentum"(%s, %s.m, %60) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) loc("s.update")
    %65:2 = "msc.momentum"(%u, %u.m, %61) {lr = 1.0e-01 : f64, momentum = 9.0e-01 : f64} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) loc("u.update")
    "msc.return"(%21, %62#0, %63#0, %64#0, %65#0, %62#1, %63#1, %64#1, %65#1) : (tensor<f32>, tensor<6x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8xf32>, tensor<6x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.cut_dim = 1 : i64, msc.init = "normal:0.5", msc.name = "w", msc.role = "parameter", msc.zero = "parameter, update and state: dimension 1 over 4 ranks, 48 of 192 bytes"},
                   {msc.cut_dim = 0 : i64, msc.init = "zeros", msc.name = "b", msc.role = "parameter", msc.zero = "parameter, update and state: dimension 0 over 4 ranks, 8 of 32 bytes"},
                   {msc.init = "ones", msc.name = "s", msc.role = "parameter", msc.zero = "whole: no dimension can be cut into as many equal parts as there are ranks"},
                   {msc.init = "ones", msc.name = "u", msc.parallel_optimizer = false, msc.role = "parameter", msc.zero = "whole: its parallel_optimizer is false"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "s.m", msc.owner = "s", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "u.m", msc.owner = "u", msc.role = "state"}],
      loss = 0 : i64,
      manual = true,
      results = ["loss", "w", "b", "s", "u", "w.m", "b.m", "s.m", "u.m"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5, 6, 7, 8, 9]} : () -> ()
}
