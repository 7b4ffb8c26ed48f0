// RUN: msc opt --passes=contract --check-numerics %s
// Few rows are multiplied with all matrices; each row keeps the product with its group's.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x2xf32>, %group: tensor<6xi32>, %w: tensor<2x4x2xf32>):
    %0 = "msc.grouped_matmul"(%x, %group, %w) {transpose_w = true} : (tensor<6x2xf32>, tensor<6xi32>, tensor<2x4x2xf32>) -> tensor<6x4xf32>
    "msc.return"(%0) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x2xf32>, %group: tensor<6xi32>, %w: tensor<2x4x2xf32>):
    %0 = "msc.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
    %1 = "msc.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2 = "msc.compare"(%group, %1) {predicate = "lt"} : (tensor<6xi32>, tensor<i32>) -> tensor<6xi1>
    %3 = "msc.select"(%2, %0, %group) : (tensor<6xi1>, tensor<i32>, tensor<6xi32>) -> tensor<6xi32>
    %4 = "msc.min"(%3, %0) : (tensor<6xi32>, tensor<i32>) -> tensor<6xi32>
    %5 = "msc.reshape"(%x) {shape = [1, 6, 2]} : (tensor<6x2xf32>) -> tensor<1x6x2xf32>
    %6 = "msc.broadcast_to"(%5) {shape = [2, 6, 2]} : (tensor<1x6x2xf32>) -> tensor<2x6x2xf32>
    %7 = "msc.batch_matmul"(%6, %w) {transpose_b = true} : (tensor<2x6x2xf32>, tensor<2x4x2xf32>) -> tensor<2x6x4xf32>
    %8 = "msc.iota"() {type = tensor<2xi32>} : () -> tensor<2xi32>
    %9 = "msc.reshape"(%8) {shape = [2, 1]} : (tensor<2xi32>) -> tensor<2x1xi32>
    %10 = "msc.reshape"(%4) {shape = [1, 6]} : (tensor<6xi32>) -> tensor<1x6xi32>
    %11 = "msc.compare"(%9, %10) {predicate = "eq"} : (tensor<2x1xi32>, tensor<1x6xi32>) -> tensor<2x6xi1>
    %12 = "msc.reshape"(%11) {shape = [2, 6, 1]} : (tensor<2x6xi1>) -> tensor<2x6x1xi1>
    %13 = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %14 = "msc.select"(%12, %7, %13) : (tensor<2x6x1xi1>, tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
    %15 = "msc.reduce_sum"(%14) {dims = [0]} : (tensor<2x6x4xf32>) -> tensor<6x4xf32>
    "msc.return"(%15) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
