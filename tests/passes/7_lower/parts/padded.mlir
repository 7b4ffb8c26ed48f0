// RUN: msc opt --passes=parts --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<4x2xf32>, %c: tensor<4x1xf32>, %d: tensor<4x2xf32>):
    %0 = "msc.pad"(%b) {high = [0, 1], low = [0, 3]} : (tensor<4x2xf32>) -> tensor<4x6xf32>
    %1 = "msc.pad"(%a) {high = [0, 3], low = [0, 0]} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %2 = "msc.add"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %3 = "msc.pad"(%c) {high = [0, 0], low = [0, 5]} : (tensor<4x1xf32>) -> tensor<4x6xf32>
    %4 = "msc.add"(%2, %3) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %5 = "msc.pad"(%d) {high = [0, 0], low = [0, 4]} : (tensor<4x2xf32>) -> tensor<4x6xf32>
    %6 = "msc.pad"(%a) {high = [0, 2], low = [0, 1]} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %7 = "msc.add"(%5, %6) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %8 = "msc.pad"(%a) {high = [0, 3], low = [0, 0], value = 1.0e+00 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %9 = "msc.pad"(%a) {high = [0, 0], low = [0, 3]} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %10 = "msc.add"(%8, %9) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%4, %7, %10) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<4x2xf32>, %c: tensor<4x1xf32>, %d: tensor<4x2xf32>):
    %0 = "msc.concat"(%a, %b, %c) {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
    %1 = "msc.pad"(%d) {high = [0, 0], low = [0, 4]} : (tensor<4x2xf32>) -> tensor<4x6xf32>
    %2 = "msc.pad"(%a) {high = [0, 2], low = [0, 1]} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %3 = "msc.add"(%1, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %4 = "msc.pad"(%a) {high = [0, 3], low = [0, 0], value = 1.0e+00 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %5 = "msc.pad"(%a) {high = [0, 0], low = [0, 3]} : (tensor<4x3xf32>) -> tensor<4x6xf32>
    %6 = "msc.add"(%4, %5) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "msc.return"(%0, %3, %6) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
