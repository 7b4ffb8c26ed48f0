// RUN: msc opt --passes=across,fuse %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %dy: tensor<8x4xbf16>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.cast"(%dy) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %2 = "msc.mul"(%0, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.reduce_mean"(%2) {dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %4 = "msc.rsqrt"(%3) : (tensor<8x1xf32>) -> tensor<8x1xf32>
    %5 = "msc.mul"(%0, %4) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%1, %5) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reduce_sum"(%6) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %8 = "msc.mul"(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [1]} : (tensor<8x4xf32>) -> tensor<8xf32>
    "msc.return"(%7, %9) : (tensor<4xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xbf16>, %dy: tensor<8x4xbf16>):
    %0:2 = "msc.fused"(%x, %dy) ({
    ^bb0(%1: tensor<8x4xbf16>, %2: tensor<8x4xbf16>):
      %3 = "msc.cast"(%1) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
      %4 = "msc.cast"(%2) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
      %5 = "msc.mul"(%3, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %6 = "msc.reduce_mean"(%5) {dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
      %7 = "msc.rsqrt"(%6) : (tensor<8x1xf32>) -> tensor<8x1xf32>
      %8 = "msc.mul"(%3, %4) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %9 = "msc.reduce_sum"(%8) {dims = [1]} : (tensor<8x4xf32>) -> tensor<8xf32>
      "msc.yield"(%7, %9) : (tensor<8x1xf32>, tensor<8xf32>) -> ()
    }) : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> (tensor<8x1xf32>, tensor<8xf32>)
    %10 = "msc.fused"(%x, %dy, %0#0) ({
    ^bb0(%11: tensor<8x4xbf16>, %12: tensor<8x4xbf16>, %13: tensor<8x1xf32>):
      %14 = "msc.cast"(%11) {across = true, dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
      %15 = "msc.cast"(%12) {across = true, dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
      %16 = "msc.mul"(%14, %13) {across = true} : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
      %17 = "msc.mul"(%15, %16) {across = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %18 = "msc.reduce_sum"(%17) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
      "msc.yield"(%18) : (tensor<4xf32>) -> ()
    }) : (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x1xf32>) -> tensor<4xf32>
    "msc.return"(%10, %0#1) : (tensor<4xf32>, tensor<8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
