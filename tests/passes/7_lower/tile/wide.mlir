// RUN: msc opt --passes=tile %s
// Tiles of few rows would read a large b many times: the wide product is computed whole, the other one by tiles.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1024x256xf32>, %wide: tensor<1024x8192xf32>, %small: tensor<1024x512xf32>):
    %0 = "msc.gemm"(%x, %wide) {transpose_a = true} : (tensor<1024x256xf32>, tensor<1024x8192xf32>) -> tensor<256x8192xf32> loc("head.grad")
    %1 = "msc.tanh"(%0) : (tensor<256x8192xf32>) -> tensor<256x8192xf32> loc("head.update")
    %2 = "msc.gemm"(%x, %small) {transpose_a = true} : (tensor<1024x256xf32>, tensor<1024x512xf32>) -> tensor<256x512xf32> loc("up.grad")
    %3 = "msc.tanh"(%2) : (tensor<256x512xf32>) -> tensor<256x512xf32> loc("up.update")
    "msc.return"(%1, %3) : (tensor<256x8192xf32>, tensor<256x512xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1024x256xf32>, %wide: tensor<1024x8192xf32>, %small: tensor<1024x512xf32>):
    %0 = "msc.gemm"(%x, %wide) {transpose_a = true} : (tensor<1024x256xf32>, tensor<1024x8192xf32>) -> tensor<256x8192xf32> loc("head.grad")
    %1 = "msc.tanh"(%0) : (tensor<256x8192xf32>) -> tensor<256x8192xf32> loc("head.update")
    %2 = "msc.gemm"(%x, %small) {tile = 64 : i64, transpose_a = true} : (tensor<1024x256xf32>, tensor<1024x512xf32>) -> tensor<256x512xf32> loc("up.grad")
    %3 = "msc.tanh"(%2) : (tensor<256x512xf32>) -> tensor<256x512xf32> loc("up.update")
    "msc.return"(%1, %3) : (tensor<256x8192xf32>, tensor<256x512xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
