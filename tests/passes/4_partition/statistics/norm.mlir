// RUN: msc opt --passes=statistics --check-numerics %s
// The mean and the deviation are taken once; what lies between them is not kept, nor is a reduction of few elements.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x9xf32>, %s: tensor<4x2xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %4 = "msc.rsqrt"(%3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %5 = "msc.mul"(%1, %4) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %6 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %7 = "msc.sub"(%x, %6) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %8 = "msc.mul"(%7, %7) : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %9 = "msc.reduce_mean"(%8) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %10 = "msc.rsqrt"(%9) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %11 = "msc.mul"(%7, %10) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %12 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    %13 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    "msc.return"(%5, %11, %12, %13) : (tensor<4x9xf32>, tensor<4x9xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x9xf32>, %s: tensor<4x2xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %4 = "msc.rsqrt"(%3) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %5 = "msc.mul"(%1, %4) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %6 = "msc.sub"(%x, %0) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %7 = "msc.mul"(%6, %4) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %8 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    %9 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    "msc.return"(%5, %7, %8, %9) : (tensor<4x9xf32>, tensor<4x9xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
