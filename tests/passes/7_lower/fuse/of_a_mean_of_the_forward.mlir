// RUN: msc opt --passes=fuse --check-numerics %s
// A difference that the backward takes from the forward's mean is not made, and kept, by the forward's kernel.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xbf16>, %w: tensor<16x16xbf16>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %1 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [1], keep_dims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
    %3 = "msc.sub"(%1, %2) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %5 = "msc.gemm"(%4, %w) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %6 = "msc.reduce_sum"(%5) {dims = [0, 1]} : (tensor<8x16xbf16>) -> tensor<bf16>
    %7 = "msc.transpose"(%w) {perm = [1, 0]} : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %8 = "msc.gemm"(%5, %7) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %9 = "msc.cast"(%0) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %10 = "msc.sub"(%9, %2) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
    %11 = "msc.cast"(%8) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %12 = "msc.mul"(%11, %10) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %13 = "msc.cast"(%12) {dtype = "bf16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %14 = "msc.transpose"(%x) {perm = [1, 0]} : (tensor<8x16xbf16>) -> tensor<16x8xbf16>
    %15 = "msc.gemm"(%14, %13) : (tensor<16x8xbf16>, tensor<8x16xbf16>) -> tensor<16x16xbf16>
    %16 = "msc.sgd"(%w, %15) {lr = 1.0e-01 : f32} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    "msc.return"(%6, %16) : (tensor<bf16>, tensor<16x16xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xbf16>, %w: tensor<16x16xbf16>):
    %0 = "msc.gemm"(%x, %w) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %1:2 = "msc.fused"(%0) ({
    ^bb0(%2: tensor<8x16xbf16>):
      %3 = "msc.cast"(%2) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
      %4 = "msc.reduce_mean"(%3) {dims = [1], keep_dims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
      %5 = "msc.sub"(%3, %4) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
      %6 = "msc.cast"(%5) {dtype = "bf16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
      "msc.yield"(%4, %6) : (tensor<8x1xf32>, tensor<8x16xbf16>) -> ()
    }) : (tensor<8x16xbf16>) -> (tensor<8x1xf32>, tensor<8x16xbf16>)
    %7 = "msc.gemm"(%1#1, %w) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %8 = "msc.reduce_sum"(%7) {dims = [0, 1]} : (tensor<8x16xbf16>) -> tensor<bf16>
    %9 = "msc.transpose"(%w) {perm = [1, 0]} : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %10 = "msc.gemm"(%7, %9) : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %11 = "msc.fused"(%0, %1#0, %10) ({
    ^bb0(%12: tensor<8x16xbf16>, %13: tensor<8x1xf32>, %14: tensor<8x16xbf16>):
      %15 = "msc.cast"(%12) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
      %16 = "msc.sub"(%15, %13) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
      %17 = "msc.cast"(%14) {dtype = "f32"} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
      %18 = "msc.mul"(%17, %16) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
      %19 = "msc.cast"(%18) {dtype = "bf16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
      "msc.yield"(%19) : (tensor<8x16xbf16>) -> ()
    }) : (tensor<8x16xbf16>, tensor<8x1xf32>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %20 = "msc.transpose"(%x) {perm = [1, 0]} : (tensor<8x16xbf16>) -> tensor<16x8xbf16>
    %21 = "msc.gemm"(%20, %11) : (tensor<16x8xbf16>, tensor<8x16xbf16>) -> tensor<16x16xbf16>
    %22 = "msc.sgd"(%w, %21) {lr = 1.0e-01 : f32} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
    "msc.return"(%8, %22) : (tensor<bf16>, tensor<16x16xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64,
      sym_name = "train",
      ties = [-1, 1]} : () -> ()
}
