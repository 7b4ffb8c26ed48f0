// RUN: msc opt --passes=tile --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<12x3xf32>, %y: tensor<3x6xf32>):
    %0 = "msc.gemm"(%x, %y) : (tensor<12x3xf32>, tensor<3x6xf32>) -> tensor<12x6xf32>
    %1 = "msc.reshape"(%0) {shape = [12, 6]} : (tensor<12x6xf32>) -> tensor<12x6xf32>
    %2 = "msc.tanh"(%1) : (tensor<12x6xf32>) -> tensor<12x6xf32>
    "msc.return"(%2) : (tensor<12x6xf32>) -> ()
  }) {results = ["y"],
      sym_name = "train"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<12x3xf32>, %y: tensor<3x6xf32>):
    %0 = "msc.gemm"(%x, %y) : (tensor<12x3xf32>, tensor<3x6xf32>) -> tensor<12x6xf32>
    %1 = "msc.reshape"(%0) {shape = [12, 6]} : (tensor<12x6xf32>) -> tensor<12x6xf32>
    %2 = "msc.tanh"(%1) : (tensor<12x6xf32>) -> tensor<12x6xf32>
    "msc.return"(%2) : (tensor<12x6xf32>) -> ()
  }) {results = ["y"],
      sym_name = "train"} : () -> ()
}
