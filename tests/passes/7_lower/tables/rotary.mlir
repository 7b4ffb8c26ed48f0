// RUN: msc opt --passes=tables --check-numerics %s
// Angles of positions, which every layer makes, are made once; the mask stays where it is read.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>):
    %0 = "msc.iota"() {type = tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "msc.reshape"(%0) {shape = [4, 1]} : (tensor<4xf32>) -> tensor<4x1xf32>
    %2 = "msc.iota"() {type = tensor<6xf32>} : () -> tensor<6xf32>
    %3 = "msc.mul"(%1, %2) : (tensor<4x1xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %4 = "msc.cos"(%3) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %5 = "msc.mul"(%x, %4) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %6 = "msc.iota"() {type = tensor<4xf32>} : () -> tensor<4xf32>
    %7 = "msc.reshape"(%6) {shape = [4, 1]} : (tensor<4xf32>) -> tensor<4x1xf32>
    %8 = "msc.iota"() {type = tensor<6xf32>} : () -> tensor<6xf32>
    %9 = "msc.mul"(%7, %8) : (tensor<4x1xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %10 = "msc.cos"(%9) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %11 = "msc.mul"(%y, %10) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %12 = "msc.iota"() {dim = 1 : i64, type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %13 = "msc.iota"() {type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %14 = "msc.compare"(%12, %13) {predicate = "le"} : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %15 = "msc.select"(%14, %5, %11) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %16 = "msc.iota"() {dim = 1 : i64, type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %17 = "msc.iota"() {type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %18 = "msc.compare"(%16, %17) {predicate = "le"} : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %19 = "msc.select"(%18, %11, %5) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%15, %19) : (tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "data"}],
      results = ["a", "b"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>):
    %0 = "msc.iota"() {type = tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "msc.reshape"(%0) {shape = [4, 1]} : (tensor<4xf32>) -> tensor<4x1xf32>
    %2 = "msc.iota"() {type = tensor<6xf32>} : () -> tensor<6xf32>
    %3 = "msc.mul"(%1, %2) : (tensor<4x1xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %4 = "msc.cos"(%3) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %5 = "msc.mul"(%x, %4) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %6 = "msc.mul"(%y, %4) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %7 = "msc.iota"() {dim = 1 : i64, type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %8 = "msc.iota"() {type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %9 = "msc.compare"(%7, %8) {predicate = "le"} : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %10 = "msc.select"(%9, %5, %6) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %11 = "msc.iota"() {dim = 1 : i64, type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %12 = "msc.iota"() {type = tensor<4x6xi32>} : () -> tensor<4x6xi32>
    %13 = "msc.compare"(%11, %12) {predicate = "le"} : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %14 = "msc.select"(%13, %6, %5) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%10, %14) : (tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "data"}],
      results = ["a", "b"],
      sym_name = "forward"} : () -> ()
}
