// RUN: msc opt --passes=stack --check-numerics %s
// Of two rows of each of four micro-batches, row 0 and then row 1 of all, those of micro-batch 2; numbers of rows likewise.
module {
  "msc.func"() ({
  ^bb0(%all: tensor<8x3xf32>, %rows: tensor<2x3xf32>, %numbers: tensor<8xi32>, %own: tensor<2xi32>):
    %0 = "msc.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "msc.put_rows"(%all, %rows, %0) : (tensor<8x3xf32>, tensor<2x3xf32>, tensor<i64>) -> tensor<8x3xf32>
    %2 = "msc.put_rows"(%numbers, %own, %0) : (tensor<8xi32>, tensor<2xi32>, tensor<i64>) -> tensor<8xi32>
    "msc.return"(%1, %2) : (tensor<8x3xf32>, tensor<8xi32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%all: tensor<8x3xf32>, %rows: tensor<2x3xf32>, %numbers: tensor<8xi32>, %own: tensor<2xi32>):
    %0 = "msc.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
    %1 = "msc.iota"() {type = tensor<2xi64>} : () -> tensor<2xi64>
    %2 = "msc.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
    %3 = "msc.mul"(%1, %2) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %4 = "msc.add"(%3, %0) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %5 = "msc.scatter_update"(%all, %4, %rows) : (tensor<8x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<8x3xf32>
    %6 = "msc.iota"() {type = tensor<2xi64>} : () -> tensor<2xi64>
    %7 = "msc.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
    %8 = "msc.mul"(%6, %7) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %9 = "msc.add"(%8, %0) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
    %10 = "msc.scatter_update"(%numbers, %9, %own) : (tensor<8xi32>, tensor<2xi64>, tensor<2xi32>) -> tensor<8xi32>
    "msc.return"(%5, %10) : (tensor<8x3xf32>, tensor<8xi32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
