// RUN: msc opt --passes=micro --set micro_size=2 --split-input-file %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.softmax_cross_entropy"(%x, %y) {ignore_index = 0 : i64} : (tensor<4x4xf32>, tensor<4xi32>) -> tensor<f32>
    %3 = "msc.sub"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %4 = "msc.reduce_sum"(%w) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %5 = "msc.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
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
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>, %y: tensor<4xi32>, %u: tensor<4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %2 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    %3 = "msc.reduce_sum"(%0) {dims = [1]} : (tensor<4x3xf32>) -> tensor<4xf32>
    %4 = "msc.mul"(%3, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.reduce_mean"(%4) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %6 = "msc.reduce_mean"(%u) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %7 = "msc.div"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %9 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<4xf32>) -> tensor<f32>
    %10 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %11 = "msc.max"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = "msc.div"(%8, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %13 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %14 = "msc.add"(%13, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %15 = "msc.add"(%14, %12) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%15) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "u", msc.role = "data"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %6 = "msc.softmax_cross_entropy"(%x, %y) {ignore_index = 0 : i64, reduction = "sum"} : (tensor<2x4xf32>, tensor<2xi32>) -> tensor<f32>
    %7 = "msc.reduce_sum"(%w) {dims = [0, 1]} : (tensor<4x3xf32>) -> tensor<f32>
    %8 = "msc.sub"(%1, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "msc.mul"(%7, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.div"(%10, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%11) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      micro = 2 : i64,
      micro_quotient = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = -100 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<-100> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %6 = "msc.accumulate"(%5) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.accumulate"(%7) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %9 = "msc.mul"(%1, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.div"(%9, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<2x3xf32>) -> tensor<f32>
    %12 = "msc.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%12) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2xi32>, %u: tensor<2xf32>, %micro: tensor<i64>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 0 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %2 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %3 = "msc.compare"(%y, %2) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %6 = "msc.accumulate"(%5) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %7 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "msc.accumulate"(%7) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %9 = "msc.mul"(%1, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = "msc.div"(%9, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.softmax_cross_entropy"(%0, %y) {ignore_index = 1 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<f32>
    %12 = "msc.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
    %13 = "msc.compare"(%y, %12) {predicate = "ne"} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi1>
    %14 = "msc.cast"(%13) {dtype = "f32"} : (tensor<2xi1>) -> tensor<2xf32>
    %15 = "msc.reduce_sum"(%14) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %16 = "msc.accumulate"(%15) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %17 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %18 = "msc.accumulate"(%17) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %19 = "msc.mul"(%11, %18) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %20 = "msc.div"(%19, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %21 = "msc.reduce_sum"(%0) {dims = [1]} : (tensor<2x3xf32>) -> tensor<2xf32>
    %22 = "msc.mul"(%21, %u) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %23 = "msc.reduce_mean"(%22) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %24 = "msc.reduce_mean"(%u) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %25 = "msc.accumulate"(%24) {count = 2 : i64, early = true, mean = true} : (tensor<f32>) -> tensor<f32>
    %26 = "msc.div"(%23, %25) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %27 = "msc.reduce_sum"(%22) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %28 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<2xf32>) -> tensor<f32>
    %29 = "msc.accumulate"(%28) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %30 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %31 = "msc.max"(%29, %30) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %32 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %33 = "msc.accumulate"(%32) {count = 2 : i64, early = true} : (tensor<f32>) -> tensor<f32>
    %34 = "msc.mul"(%27, %33) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %35 = "msc.div"(%34, %31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %36 = "msc.add"(%10, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %37 = "msc.add"(%36, %26) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %38 = "msc.add"(%37, %35) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%38) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "u", msc.role = "data"},
                   {msc.name = "micro", msc.role = "micro"}],
      loss = 0 : i64,
      loss_seed = 5.0e-01 : f64,
      micro = 2 : i64,
      micro_mean = true,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
