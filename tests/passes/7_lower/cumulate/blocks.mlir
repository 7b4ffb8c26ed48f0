// RUN: msc opt --passes=cumulate --check-numerics %s
// 600 elements are 25 blocks of 24; 530 lack 22 to be 24 blocks of 23; rows of 300 stay as they are.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x600xi32>, %p: tensor<530x2xf32>, %s: tensor<4x300xf32>):
    %0 = "msc.cumsum"(%x) {exclusive = true} : (tensor<8x600xi32>) -> tensor<8x600xi32>
    %1 = "msc.cumprod"(%p) {axis = 0 : i64, reverse = true} : (tensor<530x2xf32>) -> tensor<530x2xf32>
    %2 = "msc.cumsum"(%s) : (tensor<4x300xf32>) -> tensor<4x300xf32>
    "msc.return"(%0, %1, %2) : (tensor<8x600xi32>, tensor<530x2xf32>, tensor<4x300xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x600xi32>, %p: tensor<530x2xf32>, %s: tensor<4x300xf32>):
    %0 = "msc.reshape"(%x) {shape = [8, 25, 24]} : (tensor<8x600xi32>) -> tensor<8x25x24xi32>
    %1 = "msc.cumsum"(%0) {axis = 2 : i64, exclusive = true, reverse = false} : (tensor<8x25x24xi32>) -> tensor<8x25x24xi32>
    %2 = "msc.reduce_sum"(%0) {dims = [2], keep_dims = true} : (tensor<8x25x24xi32>) -> tensor<8x25x1xi32>
    %3 = "msc.iota"() {type = tensor<25xi32>} : () -> tensor<25xi32>
    %4 = "msc.reshape"(%3) {shape = [25, 1]} : (tensor<25xi32>) -> tensor<25x1xi32>
    %5 = "msc.iota"() {type = tensor<25xi32>} : () -> tensor<25xi32>
    %6 = "msc.compare"(%5, %4) {predicate = "lt"} : (tensor<25xi32>, tensor<25x1xi32>) -> tensor<25x25xi1>
    %7 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %8 = "msc.reshape"(%2) {shape = [8, 1, 25]} : (tensor<8x25x1xi32>) -> tensor<8x1x25xi32>
    %9 = "msc.select"(%6, %8, %7) : (tensor<25x25xi1>, tensor<8x1x25xi32>, tensor<i32>) -> tensor<8x25x25xi32>
    %10 = "msc.reduce_sum"(%9) {dims = [2], keep_dims = true} : (tensor<8x25x25xi32>) -> tensor<8x25x1xi32>
    %11 = "msc.add"(%1, %10) : (tensor<8x25x24xi32>, tensor<8x25x1xi32>) -> tensor<8x25x24xi32>
    %12 = "msc.reshape"(%11) {shape = [8, 600]} : (tensor<8x25x24xi32>) -> tensor<8x600xi32>
    %13 = "msc.pad"(%p) {high = [22, 0], low = [0, 0], value = 1.0e+00 : f64} : (tensor<530x2xf32>) -> tensor<552x2xf32>
    %14 = "msc.reshape"(%13) {shape = [24, 23, 2]} : (tensor<552x2xf32>) -> tensor<24x23x2xf32>
    %15 = "msc.cumprod"(%14) {axis = 1 : i64, exclusive = false, reverse = true} : (tensor<24x23x2xf32>) -> tensor<24x23x2xf32>
    %16 = "msc.reduce_prod"(%14) {dims = [1], keep_dims = true} : (tensor<24x23x2xf32>) -> tensor<24x1x2xf32>
    %17 = "msc.iota"() {type = tensor<24xi32>} : () -> tensor<24xi32>
    %18 = "msc.reshape"(%17) {shape = [24, 1, 1]} : (tensor<24xi32>) -> tensor<24x1x1xi32>
    %19 = "msc.iota"() {type = tensor<24xi32>} : () -> tensor<24xi32>
    %20 = "msc.reshape"(%19) {shape = [24, 1]} : (tensor<24xi32>) -> tensor<24x1xi32>
    %21 = "msc.compare"(%20, %18) {predicate = "gt"} : (tensor<24x1xi32>, tensor<24x1x1xi32>) -> tensor<24x24x1xi1>
    %22 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %23 = "msc.reshape"(%16) {shape = [1, 24, 2]} : (tensor<24x1x2xf32>) -> tensor<1x24x2xf32>
    %24 = "msc.select"(%21, %23, %22) : (tensor<24x24x1xi1>, tensor<1x24x2xf32>, tensor<f32>) -> tensor<24x24x2xf32>
    %25 = "msc.reduce_prod"(%24) {dims = [1], keep_dims = true} : (tensor<24x24x2xf32>) -> tensor<24x1x2xf32>
    %26 = "msc.mul"(%15, %25) : (tensor<24x23x2xf32>, tensor<24x1x2xf32>) -> tensor<24x23x2xf32>
    %27 = "msc.reshape"(%26) {shape = [552, 2]} : (tensor<24x23x2xf32>) -> tensor<552x2xf32>
    %28 = "msc.slice"(%27) {limit = [530, 2], start = [0, 0]} : (tensor<552x2xf32>) -> tensor<530x2xf32>
    %29 = "msc.cumsum"(%s) : (tensor<4x300xf32>) -> tensor<4x300xf32>
    "msc.return"(%12, %28, %29) : (tensor<8x600xi32>, tensor<530x2xf32>, tensor<4x300xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
