// RUN: msc opt --passes=precision,autodiff,optimizer,tidy,evaluate,localize,prepare,fuse --set compute_type=bf16 %s
// On a GPU copies stay from step to step: updates store them. What is put together of several is made in each step.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %u: tensor<6x4xf32>, %v: tensor<8x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.concat"(%w, %u) {dim = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
    %1 = "msc.matmul"(%x, %0) : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.relu"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "msc.matmul"(%2, %v) : (tensor<8x8xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %u: tensor<6x4xf32>, %v: tensor<8x3xf32>, %y: tensor<8xi32>, %train.copy0: tensor<8x3xbf16>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8x6xf32>) -> tensor<8x6xbf16> loc("x")
    %1 = "msc.fused"(%w, %u) ({
    ^bb0(%2: tensor<6x4xf32>, %3: tensor<6x4xf32>):
      %4 = "msc.concat"(%2, %3) {dim = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
      %5 = "msc.cast"(%4) {dtype = "bf16"} : (tensor<6x8xf32>) -> tensor<6x8xbf16>
      "msc.yield"(%5) : (tensor<6x8xbf16>) -> ()
    }) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xbf16>
    %6 = "msc.fused"(%0, %1) ({
    ^bb0(%7: tensor<8x6xbf16>, %8: tensor<6x8xbf16>):
      %9 = "msc.matmul"(%7, %8) : (tensor<8x6xbf16>, tensor<6x8xbf16>) -> tensor<8x8xbf16>
      %10 = "msc.relu"(%9) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
      "msc.yield"(%10) : (tensor<8x8xbf16>) -> ()
    }) : (tensor<8x6xbf16>, tensor<6x8xbf16>) -> tensor<8x8xbf16>
    %11 = "msc.fused"(%6, %train.copy0) ({
    ^bb0(%12: tensor<8x8xbf16>, %13: tensor<8x3xbf16>):
      %14 = "msc.matmul"(%12, %13) : (tensor<8x8xbf16>, tensor<8x3xbf16>) -> tensor<8x3xbf16>
      %15 = "msc.cast"(%14) {dtype = "f32"} : (tensor<8x3xbf16>) -> tensor<8x3xf32>
      "msc.yield"(%15) : (tensor<8x3xf32>) -> ()
    }) : (tensor<8x8xbf16>, tensor<8x3xbf16>) -> tensor<8x3xf32>
    %16 = "msc.softmax_cross_entropy"(%11, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %17 = "msc.fused"(%11, %y) ({
    ^bb0(%18: tensor<8x3xf32>, %19: tensor<8xi32>):
      %20 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
      %21 = "msc.softmax_cross_entropy_grad"(%18, %19, %20) : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
      %22 = "msc.cast"(%21) {dtype = "bf16"} : (tensor<8x3xf32>) -> tensor<8x3xbf16>
      "msc.yield"(%22) : (tensor<8x3xbf16>) -> ()
    }) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<8x3xbf16>
    %23 = "msc.fused"(%17, %train.copy0, %6) ({
    ^bb0(%24: tensor<8x3xbf16>, %25: tensor<8x3xbf16>, %26: tensor<8x8xbf16>):
      %27 = "msc.matmul"(%24, %25) {transpose_b = true} : (tensor<8x3xbf16>, tensor<8x3xbf16>) -> tensor<8x8xbf16>
      %28 = "msc.constant"() {value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16>
      %29 = "msc.compare"(%26, %28) {predicate = "gt"} : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xi1>
      %30 = "msc.constant"() {value = dense<0.0e+00> : tensor<bf16>} : () -> tensor<bf16>
      %31 = "msc.select"(%29, %27, %30) : (tensor<8x8xi1>, tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xbf16>
      "msc.yield"(%31) : (tensor<8x8xbf16>) -> ()
    }) : (tensor<8x3xbf16>, tensor<8x3xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %32 = "msc.fused"(%0, %23) ({
    ^bb0(%33: tensor<8x6xbf16>, %34: tensor<8x8xbf16>):
      %35 = "msc.matmul"(%33, %34) {transpose_a = true} : (tensor<8x6xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
      %36 = "msc.cast"(%35) {dtype = "f32"} : (tensor<6x8xbf16>) -> tensor<6x8xf32>
      "msc.yield"(%36) : (tensor<6x8xf32>) -> ()
    }) : (tensor<8x6xbf16>, tensor<8x8xbf16>) -> tensor<6x8xf32>
    %37:2 = "msc.split"(%32) {dim = 1 : i64, sizes = [4, 4]} : (tensor<6x8xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>)
    %38:2 = "msc.fused"(%w, %37#0, %u, %37#1) ({
    ^bb0(%39: tensor<6x4xf32>, %40: tensor<6x4xf32>, %41: tensor<6x4xf32>, %42: tensor<6x4xf32>):
      %43 = "msc.sgd"(%39, %40) {lr = 1.0e-01 : f32} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("w.update")
      %44 = "msc.sgd"(%41, %42) {lr = 1.0e-01 : f32} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32> loc("u.update")
      "msc.yield"(%43, %44) : (tensor<6x4xf32>, tensor<6x4xf32>) -> ()
    }) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) loc("u.update")
    %45:2 = "msc.fused"(%6, %17, %v) ({
    ^bb0(%46: tensor<8x8xbf16>, %47: tensor<8x3xbf16>, %48: tensor<8x3xf32>):
      %49 = "msc.matmul"(%46, %47) {transpose_a = true} : (tensor<8x8xbf16>, tensor<8x3xbf16>) -> tensor<8x3xbf16>
      %50 = "msc.cast"(%49) {dtype = "f32"} : (tensor<8x3xbf16>) -> tensor<8x3xf32> loc("v.grad")
      %51 = "msc.sgd"(%48, %50) {lr = 1.0e-01 : f32} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32> loc("v.update")
      %52 = "msc.cast"(%51) {dtype = "bf16"} : (tensor<8x3xf32>) -> tensor<8x3xbf16> loc("v")
      "msc.yield"(%51, %52) : (tensor<8x3xf32>, tensor<8x3xbf16>) -> ()
    }) : (tensor<8x8xbf16>, tensor<8x3xbf16>, tensor<8x3xf32>) -> (tensor<8x3xf32>, tensor<8x3xbf16>) loc("v")
    "msc.return"(%16, %38#0, %38#1, %45#0, %45#1) : (tensor<f32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<8x3xf32>, tensor<8x3xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "train.copy0", msc.role = "copy"}],
      loss = 0 : i64,
      result_layouts = ["[]", "[{},{}]", "[{},{}]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [6, 4], [6, 4], [8, 3], [8, 3]],
      results = ["loss", "w", "u", "v", "train.copy0"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 5]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %u: tensor<6x4xf32>, %v: tensor<8x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8x6xf32>) -> tensor<8x6xbf16> loc("x")
    %1 = "msc.fused"(%w, %u) ({
    ^bb0(%2: tensor<6x4xf32>, %3: tensor<6x4xf32>):
      %4 = "msc.concat"(%2, %3) {dim = 1 : i64} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
      %5 = "msc.cast"(%4) {dtype = "bf16"} : (tensor<6x8xf32>) -> tensor<6x8xbf16>
      "msc.yield"(%5) : (tensor<6x8xbf16>) -> ()
    }) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xbf16>
    %6 = "msc.fused"(%0, %1) ({
    ^bb0(%7: tensor<8x6xbf16>, %8: tensor<6x8xbf16>):
      %9 = "msc.matmul"(%7, %8) : (tensor<8x6xbf16>, tensor<6x8xbf16>) -> tensor<8x8xbf16>
      %10 = "msc.relu"(%9) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
      "msc.yield"(%10) : (tensor<8x8xbf16>) -> ()
    }) : (tensor<8x6xbf16>, tensor<6x8xbf16>) -> tensor<8x8xbf16>
    %11 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<8x3xf32>) -> tensor<8x3xbf16> loc("v")
    %12 = "msc.fused"(%6, %11) ({
    ^bb0(%13: tensor<8x8xbf16>, %14: tensor<8x3xbf16>):
      %15 = "msc.matmul"(%13, %14) : (tensor<8x8xbf16>, tensor<8x3xbf16>) -> tensor<8x3xbf16>
      %16 = "msc.cast"(%15) {dtype = "f32"} : (tensor<8x3xbf16>) -> tensor<8x3xf32>
      "msc.yield"(%16) : (tensor<8x3xf32>) -> ()
    }) : (tensor<8x8xbf16>, tensor<8x3xbf16>) -> tensor<8x3xf32>
    %17 = "msc.softmax_cross_entropy"(%12, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%17) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      result_layouts = ["[]"],
      result_shapes = [[]],
      results = ["loss"],
      sym_name = "forward"} : () -> ()
  "msc.func"() ({
  ^bb0(%v: tensor<8x3xf32>, %train.copy0: tensor<8x3xbf16>):
    %0 = "msc.cast"(%v) {dtype = "bf16"} : (tensor<8x3xf32>) -> tensor<8x3xbf16> loc("v")
    "msc.return"(%0) : (tensor<8x3xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "v", msc.role = "parameter"},
                   {msc.name = "train.copy0", msc.role = "copy"}],
      result_layouts = ["[{},{}]"],
      result_shapes = [[8, 3]],
      results = ["train.copy0"],
      sym_name = "prepare",
      ties = [1]} : () -> ()
}
