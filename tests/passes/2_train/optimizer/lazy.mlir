// RUN: msc opt --passes=autodiff,optimizer,tidy --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x3xi32>, %b: tensor<4xi64>, %t: tensor<9x2xf32>, %bags: tensor<9x2xf32>, %w: tensor<2xf32>):
    %0 = "msc.gather"(%t, %a) : (tensor<9x2xf32>, tensor<4x3xi32>) -> tensor<4x3x2xf32>
    %1 = "msc.reduce_max"(%0) {dims = [1]} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
    %2 = "msc.gather"(%t, %b) : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
    %3 = "msc.gather"(%bags, %a) : (tensor<9x2xf32>, tensor<4x3xi32>) -> tensor<4x3x2xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [1]} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
    %5 = "msc.mul"(%1, %2) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %6 = "msc.mul"(%5, %4) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %7 = "msc.mul"(%6, %w) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0, 1]} : (tensor<4x2xf32>) -> tensor<f32>
    "msc.return"(%8) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "t", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "bags", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "adagrad", lazy = true, lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x3xi32>, %b: tensor<4xi64>, %t: tensor<9x2xf32>, %bags: tensor<9x2xf32>, %w: tensor<2xf32>, %t.v: tensor<9x2xf32>, %bags.v: tensor<9x2xf32>, %w.v: tensor<2xf32>):
    %0 = "msc.gather"(%t, %a) : (tensor<9x2xf32>, tensor<4x3xi32>) -> tensor<4x3x2xf32>
    %1 = "msc.reduce_max"(%0) {dims = [1]} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
    %2 = "msc.gather"(%t, %b) : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
    %3 = "msc.gather"(%bags, %a) : (tensor<9x2xf32>, tensor<4x3xi32>) -> tensor<4x3x2xf32>
    %4 = "msc.reduce_sum"(%3) {dims = [1]} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
    %5 = "msc.mul"(%1, %2) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %6 = "msc.mul"(%5, %4) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %7 = "msc.mul"(%6, %w) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %8 = "msc.reduce_sum"(%7) {dims = [0, 1]} : (tensor<4x2xf32>) -> tensor<f32>
    %9 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %10 = "msc.broadcast_to"(%9) {forward = "%8", letters = "AB", shape = [4, 2]} : (tensor<f32>) -> tensor<4x2xf32>
    %11 = "msc.mul"(%10, %w) {forward = "%7", letters = "AB"} : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %12 = "msc.reduce_sum"(%6) {dims = [0], forward = "%7", letters = "AB"} : (tensor<4x2xf32>) -> tensor<2xf32>
    %13 = "msc.mul"(%11, %4) {forward = "%6", letters = "AB"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %14 = "msc.mul"(%11, %5) {forward = "%6", letters = "AB"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %15 = "msc.mul"(%13, %2) {forward = "%5", letters = "AB"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %16 = "msc.mul"(%13, %1) {forward = "%5", letters = "AB"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %17 = "msc.reshape"(%1) {forward = "%1", letters = "AC", shape = [4, 1, 2]} : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %18 = "msc.broadcast_to"(%17) {forward = "%1", letters = "ACB", shape = [4, 3, 2]} : (tensor<4x1x2xf32>) -> tensor<4x3x2xf32>
    %19 = "msc.compare"(%0, %18) {forward = "%1", letters = "ABC", predicate = "eq"} : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xi1>
    %20 = "msc.cast"(%19) {dtype = "f32", forward = "%1", letters = "ABC"} : (tensor<4x3x2xi1>) -> tensor<4x3x2xf32>
    %21 = "msc.reduce_sum"(%20) {dims = [1], forward = "%1", letters = "ABC"} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
    %22 = "msc.div"(%15, %21) {forward = "%1", letters = "AC"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %23 = "msc.reshape"(%22) {forward = "%1", letters = "AC", shape = [4, 1, 2]} : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
    %24 = "msc.broadcast_to"(%23) {forward = "%1", letters = "ACB", shape = [4, 3, 2]} : (tensor<4x1x2xf32>) -> tensor<4x3x2xf32>
    %25 = "msc.mul"(%20, %24) {forward = "%1", letters = "ABC"} : (tensor<4x3x2xf32>, tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
    %26 = "msc.reshape"(%a) {shape = [12]} : (tensor<4x3xi32>) -> tensor<12xi32> loc("t.rows")
    %27 = "msc.reshape"(%25) {shape = [12, 2]} : (tensor<4x3x2xf32>) -> tensor<12x2xf32> loc("t.rows")
    %28 = "msc.cast"(%26) {dtype = "i64"} : (tensor<12xi32>) -> tensor<12xi64> loc("t.rows")
    %29 = "msc.concat"(%16, %27) {dim = 0 : i64} : (tensor<4x2xf32>, tensor<12x2xf32>) -> tensor<16x2xf32> loc("t.rows")
    %30 = "msc.concat"(%b, %28) {dim = 0 : i64} : (tensor<4xi64>, tensor<12xi64>) -> tensor<16xi64> loc("t.rows")
    %31:2 = "msc.sort"(%30) : (tensor<16xi64>) -> (tensor<16xi64>, tensor<16xi32>) loc("t.update")
    %32:2 = "msc.lazy_adagrad"(%t, %t.v, %31#0, %31#1, %29) {lr = 1.0e-01 : f32} : (tensor<9x2xf32>, tensor<9x2xf32>, tensor<16xi64>, tensor<16xi32>, tensor<16x2xf32>) -> (tensor<9x2xf32>, tensor<9x2xf32>) loc("t.update")
    %33:2 = "msc.sort"(%26) : (tensor<12xi32>) -> (tensor<12xi32>, tensor<12xi32>) loc("bags.update")
    %34 = "msc.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32> loc("bags.update")
    %35 = "msc.div"(%33#1, %34) : (tensor<12xi32>, tensor<i32>) -> tensor<12xi32> loc("bags.update")
    %36:2 = "msc.lazy_adagrad"(%bags, %bags.v, %33#0, %35, %14) {lr = 1.0e-01 : f32} : (tensor<9x2xf32>, tensor<9x2xf32>, tensor<12xi32>, tensor<12xi32>, tensor<4x2xf32>) -> (tensor<9x2xf32>, tensor<9x2xf32>) loc("bags.update")
    %37:2 = "msc.adagrad"(%w, %w.v, %12) {lr = 1.0e-01 : f32} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) loc("w.update")
    "msc.return"(%8, %32#0, %36#0, %37#0, %32#1, %36#1, %37#1) : (tensor<f32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.init = "uniform:0.5", msc.name = "t", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "bags", msc.role = "parameter"},
                   {msc.init = "uniform:0.5", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "t.v", msc.owner = "t", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "bags.v", msc.owner = "bags", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "t", "bags", "w", "t.v", "bags.v", "w.v"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5, 6, 7]} : () -> ()
}
