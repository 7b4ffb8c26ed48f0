// RUN: msc opt --passes=variance --check-numerics %s
// Rows, which are near when they are read again, and a mean that is part of one of several ranks.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x2048xf32>, %z: tensor<2048x4xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x2048xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x2048xf32>, tensor<4x1xf32>) -> tensor<4x2048xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x2048xf32>, tensor<4x2048xf32>) -> tensor<4x2048xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x2048xf32>) -> tensor<4x1xf32>
    %4 = "msc.reduce_mean"(%z) {count = 4096 : i64, dims = [0], keep_dims = true} : (tensor<2048x4xf32>) -> tensor<1x4xf32>
    %5 = "msc.sub"(%z, %4) : (tensor<2048x4xf32>, tensor<1x4xf32>) -> tensor<2048x4xf32>
    %6 = "msc.mul"(%5, %5) : (tensor<2048x4xf32>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
    %7 = "msc.reduce_mean"(%6) {count = 4096 : i64, dims = [0], keep_dims = true} : (tensor<2048x4xf32>) -> tensor<1x4xf32>
    "msc.return"(%3, %7) : (tensor<4x1xf32>, tensor<1x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x2048xf32>, %z: tensor<2048x4xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [1], keep_dims = true} : (tensor<4x2048xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x2048xf32>, tensor<4x1xf32>) -> tensor<4x2048xf32>
    %2 = "msc.mul"(%1, %1) : (tensor<4x2048xf32>, tensor<4x2048xf32>) -> tensor<4x2048xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<4x2048xf32>) -> tensor<4x1xf32>
    %4 = "msc.reduce_mean"(%z) {count = 4096 : i64, dims = [0], keep_dims = true} : (tensor<2048x4xf32>) -> tensor<1x4xf32>
    %5 = "msc.sub"(%z, %4) : (tensor<2048x4xf32>, tensor<1x4xf32>) -> tensor<2048x4xf32>
    %6 = "msc.mul"(%5, %5) : (tensor<2048x4xf32>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
    %7 = "msc.reduce_mean"(%6) {count = 4096 : i64, dims = [0], keep_dims = true} : (tensor<2048x4xf32>) -> tensor<1x4xf32>
    "msc.return"(%3, %7) : (tensor<4x1xf32>, tensor<1x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
