// RUN: msc opt --passes=stack --check-numerics %s
// On a GPU every element is chosen.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%all: tensor<8x3xf32>, %rows: tensor<2x3xf32>, %numbers: tensor<8xi32>, %own: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.put_rows"(%all, %rows, %micro) : (tensor<8x3xf32>, tensor<2x3xf32>, tensor<i64>) -> tensor<8x3xf32>
    %1 = "msc.put_rows"(%numbers, %own, %micro) : (tensor<8xi32>, tensor<2xi32>, tensor<i64>) -> tensor<8xi32>
    "msc.return"(%0, %1) : (tensor<8x3xf32>, tensor<8xi32>) -> ()
  }) {arg_attrs = [{},
                   {},
                   {},
                   {},
                   {msc.role = "micro"}],
      sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%all: tensor<8x3xf32>, %rows: tensor<2x3xf32>, %numbers: tensor<8xi32>, %own: tensor<2xi32>, %micro: tensor<i64>):
    %0 = "msc.iota"() {type = tensor<4xi64>} : () -> tensor<4xi64>
    %1 = "msc.reshape"(%0) {shape = [4, 1]} : (tensor<4xi64>) -> tensor<4x1xi64>
    %2 = "msc.compare"(%1, %micro) {predicate = "eq"} : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi1>
    %3 = "msc.reshape"(%all) {shape = [2, 4, 3]} : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
    %4 = "msc.reshape"(%rows) {shape = [2, 1, 3]} : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
    %5 = "msc.select"(%2, %4, %3) : (tensor<4x1xi1>, tensor<2x1x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
    %6 = "msc.reshape"(%5) {shape = [8, 3]} : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
    %7 = "msc.iota"() {type = tensor<4xi64>} : () -> tensor<4xi64>
    %8 = "msc.reshape"(%7) {shape = [4, 1]} : (tensor<4xi64>) -> tensor<4x1xi64>
    %9 = "msc.compare"(%8, %micro) {predicate = "eq"} : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi1>
    %10 = "msc.reshape"(%numbers) {shape = [2, 4, 1]} : (tensor<8xi32>) -> tensor<2x4x1xi32>
    %11 = "msc.reshape"(%own) {shape = [2, 1, 1]} : (tensor<2xi32>) -> tensor<2x1x1xi32>
    %12 = "msc.select"(%9, %11, %10) : (tensor<4x1xi1>, tensor<2x1x1xi32>, tensor<2x4x1xi32>) -> tensor<2x4x1xi32>
    %13 = "msc.reshape"(%12) {shape = [8]} : (tensor<2x4x1xi32>) -> tensor<8xi32>
    "msc.return"(%6, %13) : (tensor<8x3xf32>, tensor<8xi32>) -> ()
  }) {arg_attrs = [{},
                   {},
                   {},
                   {},
                   {msc.role = "micro"}],
      sym_name = "main"} : () -> ()
}
