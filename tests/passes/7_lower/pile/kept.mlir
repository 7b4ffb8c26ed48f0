// RUN: msc opt --passes=pile --check-numerics %s
// Three products are too few, and four of eight rows each as large as copies of their operands; one whose result somebody else reads stays.
module {
  "msc.func"() ({
  ^bb0(%a: tensor<2x8xf32>, %b: tensor<2x6xf32>, %x: tensor<8x8xf32>, %y: tensor<8x6xf32>):
    %0 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %4 = "msc.add"(%0, %1) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%4, %2) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = "msc.add"(%5, %3) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %7 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %8 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %9 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %10 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %11 = "msc.add"(%7, %8) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %12 = "msc.add"(%11, %9) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %13 = "msc.add"(%12, %10) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%6, %3, %13) : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<2x8xf32>, %b: tensor<2x6xf32>, %x: tensor<8x8xf32>, %y: tensor<8x6xf32>):
    %0 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %3 = "msc.matmul"(%a, %b) {transpose_a = true} : (tensor<2x8xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
    %4 = "msc.add"(%0, %1) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %5 = "msc.add"(%4, %2) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = "msc.add"(%5, %3) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %7 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %8 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %9 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %10 = "msc.matmul"(%x, %y) {transpose_a = true} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %11 = "msc.add"(%7, %8) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %12 = "msc.add"(%11, %9) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %13 = "msc.add"(%12, %10) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%6, %3, %13) : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
