// RUN: msc opt --passes=statistics --check-numerics %s
// The mean and the variance are taken once; what lies between them is not kept, nor is a reduction of few elements.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x9xf32>, %s: tensor<4x2xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %4 = "msc.div"(%1, %3) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %5 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %6 = "msc.sub"(%x, %5) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %7 = "msc.mul"(%6, %6) : (tensor<4x9xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
    %8 = "msc.reduce_mean"(%7) {dims = [1], keep_dims = true} : (tensor<4x9xf32>) -> tensor<4x1xf32>
    %9 = "msc.mul"(%6, %8) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %10 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    %11 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    "msc.return"(%4, %9, %10, %11) : (tensor<4x9xf32>, tensor<4x9xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
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
    %4 = "msc.div"(%1, %3) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %5 = "msc.sub"(%x, %0) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %6 = "msc.mul"(%5, %3) : (tensor<4x9xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
    %7 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    %8 = "msc.reduce_sum"(%s) {dims = [1]} : (tensor<4x2xf32>) -> tensor<4xf32>
    "msc.return"(%4, %6, %7, %8) : (tensor<4x9xf32>, tensor<4x9xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
