// RUN: msc opt --passes=autodiff,optimizer,tidy,recompute %s
// Both blocks would keep 864 bytes for the backward: two results of 384, one of 96.  480 are enough of block a if what is cheap is computed
// again; of block b only what it hands on is kept.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x3xf32>, %w3: tensor<3x12xf32>, %w4: tensor<12x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w1) {memory_limit = {bytes = 480 : i64, name = "a"}} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %1 = "msc.silu"(%0) {memory_limit = {bytes = 480 : i64, name = "a"}} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %2 = "msc.matmul"(%1, %w2) {memory_limit = {bytes = 480 : i64, name = "a"}} : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.matmul"(%2, %w3) {memory_limit = {bytes = 479 : i64, name = "b"}} : (tensor<8x3xf32>, tensor<3x12xf32>) -> tensor<8x12xf32>
    %4 = "msc.silu"(%3) {memory_limit = {bytes = 479 : i64, name = "b"}} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %5 = "msc.matmul"(%4, %w4) {memory_limit = {bytes = 479 : i64, name = "b"}} : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "w4", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x3xf32>, %w3: tensor<3x12xf32>, %w4: tensor<12x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w1) : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %1 = "msc.silu"(%0) : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %2 = "msc.matmul"(%1, %w2) : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %3 = "msc.matmul"(%2, %w3) : (tensor<8x3xf32>, tensor<3x12xf32>) -> tensor<8x12xf32>
    %4 = "msc.silu"(%3) : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %5 = "msc.matmul"(%4, %w4) : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.softmax_cross_entropy_grad"(%5, %y, %7) {forward = "%6", letters = "Ac"} : (tensor<8x3xf32>, tensor<8xi32>, tensor<f32>) -> tensor<8x3xf32>
    %9 = "msc.matmul"(%8, %w4) {forward = "%5", letters = "mnk", transpose_b = true} : (tensor<8x3xf32>, tensor<12x3xf32>) -> tensor<8x12xf32>
    %10 = "msc.matmul"(%2, %w3) {recompute = true} : (tensor<8x3xf32>, tensor<3x12xf32>) -> tensor<8x12xf32>
    %11 = "msc.silu"(%10) {recompute = true} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %12 = "msc.matmul"(%11, %8) {forward = "%5", letters = "mkn", transpose_a = true} : (tensor<8x12xf32>, tensor<8x3xf32>) -> tensor<12x3xf32>
    %13 = "msc.sigmoid"(%10) {forward = "%4", letters = "AB"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %14 = "msc.sub"(%7, %13) {forward = "%4", letters = "AB"} : (tensor<f32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %15 = "msc.mul"(%10, %14) {forward = "%4", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %16 = "msc.add"(%15, %7) {forward = "%4", letters = "AB"} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %17 = "msc.mul"(%13, %16) {forward = "%4", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %18 = "msc.mul"(%9, %17) {forward = "%4", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %19 = "msc.matmul"(%18, %w3) {forward = "%3", letters = "mnk", transpose_b = true} : (tensor<8x12xf32>, tensor<3x12xf32>) -> tensor<8x3xf32>
    %20 = "msc.matmul"(%2, %18) {forward = "%3", letters = "mkn", transpose_a = true} : (tensor<8x3xf32>, tensor<8x12xf32>) -> tensor<3x12xf32>
    %21 = "msc.matmul"(%19, %w2) {forward = "%2", letters = "mnk", transpose_b = true} : (tensor<8x3xf32>, tensor<12x3xf32>) -> tensor<8x12xf32>
    %22 = "msc.silu"(%0) {recompute = true} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %23 = "msc.matmul"(%22, %19) {forward = "%2", letters = "mkn", transpose_a = true} : (tensor<8x12xf32>, tensor<8x3xf32>) -> tensor<12x3xf32>
    %24 = "msc.sigmoid"(%0) {forward = "%1", letters = "AB"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %25 = "msc.sub"(%7, %24) {forward = "%1", letters = "AB"} : (tensor<f32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %26 = "msc.mul"(%0, %25) {forward = "%1", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %27 = "msc.add"(%26, %7) {forward = "%1", letters = "AB"} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %28 = "msc.mul"(%24, %27) {forward = "%1", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %29 = "msc.mul"(%21, %28) {forward = "%1", letters = "AB"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %30 = "msc.matmul"(%x, %29) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<8x6xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
    %31 = "msc.sgd"(%w1, %30) {lr = 1.0e-01 : f32} : (tensor<6x12xf32>, tensor<6x12xf32>) -> tensor<6x12xf32> loc("w1.update")
    %32 = "msc.sgd"(%w2, %23) {lr = 1.0e-01 : f32} : (tensor<12x3xf32>, tensor<12x3xf32>) -> tensor<12x3xf32> loc("w2.update")
    %33 = "msc.sgd"(%w3, %20) {lr = 1.0e-01 : f32} : (tensor<3x12xf32>, tensor<3x12xf32>) -> tensor<3x12xf32> loc("w3.update")
    %34 = "msc.sgd"(%w4, %12) {lr = 1.0e-01 : f32} : (tensor<12x3xf32>, tensor<12x3xf32>) -> tensor<12x3xf32> loc("w4.update")
    "msc.return"(%6, %31, %32, %33, %34) : (tensor<f32>, tensor<6x12xf32>, tensor<12x3xf32>, tensor<3x12xf32>, tensor<12x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "w4", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      results = ["loss", "w1", "w2", "w3", "w4"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4]} : () -> ()
}
