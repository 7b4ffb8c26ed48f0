// RUN: msc opt --passes=micro,autodiff,optimizer,tidy,evaluate --set micro_size=2 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w: tensor<6x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64} : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x3xf32>, %y: tensor<4xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64, reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<4xi1>) -> tensor<4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %6 = "msc.accumulate"(%5) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<2.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.mul"(%1, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.div"(%8, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %11 = "msc.add"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %13 = "msc.constant"() {value = dense<4.1666668e-02> : tensor<f32>} : () -> tensor<f32>
    %14 = "msc.div"(%12, %6) {forward = "%9", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %15 = "msc.mul"(%14, %7) {forward = "%8", letters = ""} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = "msc.softmax_cross_entropy_grad"(%0, %y, %15) {forward = "%1", ignore_index = 1 : i64, letters = "Ac", reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>, tensor<f32>) -> tensor<4x3xf32>
    %17 = "msc.add"(%13, %16) {forward = "%0", letters = "mn"} : (tensor<f32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %18 = "msc.matmul"(%x, %17) {forward = "%0", letters = "mkn", transpose_a = true} : (tensor<4x6xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    %19 = "msc.sgd"(%w, %18) {lr = 1.0e-01 : f32} : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32> loc("w.update")
    "msc.return"(%11, %19) : (tensor<f32>, tensor<6x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss", "w"],
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %w: tensor<6x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64, reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<4xi32>, tensor<i32>) -> tensor<4xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<4xi1>) -> tensor<4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %6 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %7 = "msc.mul"(%1, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "msc.div"(%7, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %10 = "msc.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%10) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_mean = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
