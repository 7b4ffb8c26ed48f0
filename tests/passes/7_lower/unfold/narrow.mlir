// RUN: msc opt --passes=unfold --check-numerics %s
// Convolutions of bf16 that the runtime computes are marked, for it may multiply pairs of terms, also those that take the
// place of gradients; windows of single elements are products as they stand.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x32x6x5xbf16>, %w: tensor<32x32x3x3xbf16>, %dy: tensor<2x32x6x5xbf16>, %v: tensor<32x32x1x1xbf16>, %z: tensor<1x32x12x12xbf16>, %h: tensor<2x32x6x5xf16>, %k: tensor<32x32x1x1xf16>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 1, 1, 1]} : (tensor<2x32x6x5xbf16>, tensor<32x32x3x3xbf16>) -> tensor<2x32x6x5xbf16>
    %1 = "msc.conv2d_weight_grad"(%x, %dy) {kernel = [3, 3], padding = [1, 1, 1, 1]} : (tensor<2x32x6x5xbf16>, tensor<2x32x6x5xbf16>) -> tensor<32x32x3x3xbf16>
    %2 = "msc.conv2d"(%x, %v) : (tensor<2x32x6x5xbf16>, tensor<32x32x1x1xbf16>) -> tensor<2x32x6x5xbf16>
    %3 = "msc.conv2d"(%z, %w) {padding = [1, 1, 1, 1]} : (tensor<1x32x12x12xbf16>, tensor<32x32x3x3xbf16>) -> tensor<1x32x12x12xbf16>
    %4 = "msc.conv2d"(%h, %k) {stride = [2, 2]} : (tensor<2x32x6x5xf16>, tensor<32x32x1x1xf16>) -> tensor<2x32x3x3xf16>
    %5 = "msc.conv2d_transpose"(%z, %w) {padding = [1, 1, 1, 1], size = [12, 12]} : (tensor<1x32x12x12xbf16>, tensor<32x32x3x3xbf16>) -> tensor<1x32x12x12xbf16>
    "msc.return"(%0, %1, %2, %3, %4, %5) : (tensor<2x32x6x5xbf16>, tensor<32x32x3x3xbf16>, tensor<2x32x6x5xbf16>, tensor<1x32x12x12xbf16>, tensor<2x32x3x3xf16>, tensor<1x32x12x12xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x32x6x5xbf16>, %w: tensor<32x32x3x3xbf16>, %dy: tensor<2x32x6x5xbf16>, %v: tensor<32x32x1x1xbf16>, %z: tensor<1x32x12x12xbf16>, %h: tensor<2x32x6x5xf16>, %k: tensor<32x32x1x1xf16>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<2x32x6x5xbf16>) -> tensor<2x32x6x5xf32>
    %1 = "msc.cast"(%w) {dtype = "f32"} : (tensor<32x32x3x3xbf16>) -> tensor<32x32x3x3xf32>
    %2 = "msc.conv2d"(%0, %1) {library = true, narrow = true, padding = [1, 1, 1, 1]} : (tensor<2x32x6x5xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x6x5xf32>
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<2x32x6x5xf32>) -> tensor<2x32x6x5xbf16>
    %4 = "msc.cast"(%x) {dtype = "f32"} : (tensor<2x32x6x5xbf16>) -> tensor<2x32x6x5xf32>
    %5 = "msc.cast"(%dy) {dtype = "f32"} : (tensor<2x32x6x5xbf16>) -> tensor<2x32x6x5xf32>
    %6 = "msc.conv2d_weight_grad"(%4, %5) {kernel = [3, 3], library = true, narrow = true, padding = [1, 1, 1, 1]} : (tensor<2x32x6x5xf32>, tensor<2x32x6x5xf32>) -> tensor<32x32x3x3xf32>
    %7 = "msc.cast"(%6) {dtype = "bf16"} : (tensor<32x32x3x3xf32>) -> tensor<32x32x3x3xbf16>
    %8 = "msc.reshape"(%x) {shape = [2, 32, 30]} : (tensor<2x32x6x5xbf16>) -> tensor<2x32x30xbf16>
    %9 = "msc.reshape"(%v) {shape = [32, 32]} : (tensor<32x32x1x1xbf16>) -> tensor<32x32xbf16>
    %10 = "msc.batch_matmul"(%9, %8) : (tensor<32x32xbf16>, tensor<2x32x30xbf16>) -> tensor<2x32x30xbf16>
    %11 = "msc.reshape"(%10) {shape = [2, 32, 6, 5]} : (tensor<2x32x30xbf16>) -> tensor<2x32x6x5xbf16>
    %12 = "msc.cast"(%z) {dtype = "f32"} : (tensor<1x32x12x12xbf16>) -> tensor<1x32x12x12xf32>
    %13 = "msc.cast"(%w) {dtype = "f32"} : (tensor<32x32x3x3xbf16>) -> tensor<32x32x3x3xf32>
    %14 = "msc.conv2d"(%12, %13) {library = true, narrow = true, padding = [1, 1, 1, 1]} : (tensor<1x32x12x12xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x12x12xf32>
    %15 = "msc.cast"(%14) {dtype = "bf16"} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xbf16>
    %16 = "msc.cast"(%h) {dtype = "f32"} : (tensor<2x32x6x5xf16>) -> tensor<2x32x6x5xf32>
    %17 = "msc.cast"(%k) {dtype = "f32"} : (tensor<32x32x1x1xf16>) -> tensor<32x32x1x1xf32>
    %18 = "msc.conv2d"(%16, %17) {library = true, stride = [2, 2]} : (tensor<2x32x6x5xf32>, tensor<32x32x1x1xf32>) -> tensor<2x32x3x3xf32>
    %19 = "msc.cast"(%18) {dtype = "f16"} : (tensor<2x32x3x3xf32>) -> tensor<2x32x3x3xf16>
    %20 = "msc.cast"(%z) {dtype = "f32"} : (tensor<1x32x12x12xbf16>) -> tensor<1x32x12x12xf32>
    %21 = "msc.cast"(%w) {dtype = "f32"} : (tensor<32x32x3x3xbf16>) -> tensor<32x32x3x3xf32>
    %22 = "msc.unfold"(%21) {kernel = [3, 3], turned = true} : (tensor<32x32x3x3xf32>) -> tensor<32x32x3x3x1x1xf32>
    %23 = "msc.reshape"(%22) {shape = [32, 32, 9]} : (tensor<32x32x3x3x1x1xf32>) -> tensor<32x32x9xf32>
    %24 = "msc.transpose"(%23) {perm = [1, 0, 2]} : (tensor<32x32x9xf32>) -> tensor<32x32x9xf32>
    %25 = "msc.reshape"(%24) {shape = [32, 32, 3, 3]} : (tensor<32x32x9xf32>) -> tensor<32x32x3x3xf32>
    %26 = "msc.conv2d"(%20, %25) {dilation = [1, 1], library = true, narrow = true, padding = [1, 1, 1, 1]} : (tensor<1x32x12x12xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x12x12xf32>
    %27 = "msc.cast"(%26) {dtype = "bf16"} : (tensor<1x32x12x12xf32>) -> tensor<1x32x12x12xbf16>
    "msc.return"(%3, %7, %11, %15, %19, %27) : (tensor<2x32x6x5xbf16>, tensor<32x32x3x3xbf16>, tensor<2x32x6x5xbf16>, tensor<1x32x12x12xbf16>, tensor<2x32x3x3xf16>, tensor<1x32x12x12xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
