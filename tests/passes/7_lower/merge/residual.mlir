// RUN: msc opt --passes=merge --check-numerics %s
// What is added to the rows goes on past the attention, too: its gradient is added to theirs first.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>, %r: tensor<2x4x6xbf16>):
    %0 = "msc.gemm"(%x, %a, %i) : (tensor<2x4x6xbf16>, tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<2x4x16xbf16>
    %1 = "msc.reshape"(%0) {shape = [2, 4, 2, 8]} : (tensor<2x4x16xbf16>) -> tensor<2x4x2x8xbf16>
    %2 = "msc.transpose"(%1) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %3 = "msc.gemm"(%x, %b, %j) : (tensor<2x4x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x4x8xbf16>
    %4 = "msc.reshape"(%3) {shape = [2, 4, 1, 8]} : (tensor<2x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %6 = "msc.gemm"(%x, %c, %l) : (tensor<2x4x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x4x8xbf16>
    %7 = "msc.reshape"(%6) {shape = [2, 4, 1, 8]} : (tensor<2x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %8 = "msc.transpose"(%7) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %9:2 = "msc.flash_attention"(%2, %5, %8) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    %10:3 = "msc.flash_attention_grad"(%2, %5, %8, %9#0, %9#1, %do) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>)
    %11 = "msc.transpose"(%10#2) {perm = [0, 2, 1, 3]} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %12 = "msc.reshape"(%11) {shape = [2, 4, 8]} : (tensor<2x4x1x8xbf16>) -> tensor<2x4x8xbf16>
    %13 = "msc.reduce_sum"(%12) {dims = [0, 1]} : (tensor<2x4x8xbf16>) -> tensor<8xbf16>
    %14 = "msc.cast"(%13) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %15 = "msc.gemm"(%12, %c) {transpose_b = true} : (tensor<2x4x8xbf16>, tensor<6x8xbf16>) -> tensor<2x4x6xbf16>
    %16 = "msc.add"(%r, %15) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %17 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xbf16>) -> tensor<8x6xbf16>
    %18 = "msc.reshape"(%12) {shape = [8, 8]} : (tensor<2x4x8xbf16>) -> tensor<8x8xbf16>
    %19 = "msc.gemm"(%17, %18) {transpose_a = true} : (tensor<8x6xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
    %20 = "msc.cast"(%19) {dtype = "f32"} : (tensor<6x8xbf16>) -> tensor<6x8xf32>
    %21 = "msc.transpose"(%10#1) {perm = [0, 2, 1, 3]} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %22 = "msc.reshape"(%21) {shape = [2, 4, 8]} : (tensor<2x4x1x8xbf16>) -> tensor<2x4x8xbf16>
    %23 = "msc.reduce_sum"(%22) {dims = [0, 1]} : (tensor<2x4x8xbf16>) -> tensor<8xbf16>
    %24 = "msc.cast"(%23) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %25 = "msc.gemm"(%22, %b) {transpose_b = true} : (tensor<2x4x8xbf16>, tensor<6x8xbf16>) -> tensor<2x4x6xbf16>
    %26 = "msc.add"(%16, %25) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %27 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xbf16>) -> tensor<8x6xbf16>
    %28 = "msc.reshape"(%22) {shape = [8, 8]} : (tensor<2x4x8xbf16>) -> tensor<8x8xbf16>
    %29 = "msc.gemm"(%27, %28) {transpose_a = true} : (tensor<8x6xbf16>, tensor<8x8xbf16>) -> tensor<6x8xbf16>
    %30 = "msc.cast"(%29) {dtype = "f32"} : (tensor<6x8xbf16>) -> tensor<6x8xf32>
    %31 = "msc.transpose"(%10#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %32 = "msc.reshape"(%31) {shape = [2, 4, 16]} : (tensor<2x4x2x8xbf16>) -> tensor<2x4x16xbf16>
    %33 = "msc.reduce_sum"(%32) {dims = [0, 1]} : (tensor<2x4x16xbf16>) -> tensor<16xbf16>
    %34 = "msc.cast"(%33) {dtype = "f32"} : (tensor<16xbf16>) -> tensor<16xf32>
    %35 = "msc.gemm"(%32, %a) {transpose_b = true} : (tensor<2x4x16xbf16>, tensor<6x16xbf16>) -> tensor<2x4x6xbf16>
    %36 = "msc.add"(%26, %35) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %37 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xbf16>) -> tensor<8x6xbf16>
    %38 = "msc.reshape"(%32) {shape = [8, 16]} : (tensor<2x4x16xbf16>) -> tensor<8x16xbf16>
    %39 = "msc.gemm"(%37, %38) {transpose_a = true} : (tensor<8x6xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
    %40 = "msc.cast"(%39) {dtype = "f32"} : (tensor<6x16xbf16>) -> tensor<6x16xf32>
    "msc.return"(%9#0, %36, %14, %20, %24, %30, %34, %40) : (tensor<2x2x4x8xbf16>, tensor<2x4x6xbf16>, tensor<8xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<16xf32>, tensor<6x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>, %r: tensor<2x4x6xbf16>):
    %0 = "msc.concat"(%a, %b, %c) {dim = 1 : i64} : (tensor<6x16xbf16>, tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<6x32xbf16>
    %1 = "msc.concat"(%i, %j, %l) {dim = 0 : i64} : (tensor<16xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<32xbf16>
    %2 = "msc.gemm"(%x, %0, %1) : (tensor<2x4x6xbf16>, tensor<6x32xbf16>, tensor<32xbf16>) -> tensor<2x4x32xbf16>
    %3 = "msc.reshape"(%2) {shape = [2, 4, 4, 8]} : (tensor<2x4x32xbf16>) -> tensor<2x4x4x8xbf16>
    %4 = "msc.slice"(%3) {limit = [2, 4, 2, 8], start = [0, 0, 0, 0]} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %6 = "msc.slice"(%3) {limit = [2, 4, 3, 8], start = [0, 0, 2, 0]} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %7 = "msc.transpose"(%6) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %8 = "msc.slice"(%3) {limit = [2, 4, 4, 8], start = [0, 0, 3, 0]} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %9 = "msc.transpose"(%8) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %10:2 = "msc.flash_attention"(%5, %7, %9) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    %11:3 = "msc.flash_attention_grad"(%5, %7, %9, %10#0, %10#1, %do) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>)
    %12 = "msc.transpose"(%11#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %13 = "msc.transpose"(%11#1) {perm = [0, 2, 1, 3]} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %14 = "msc.transpose"(%11#2) {perm = [0, 2, 1, 3]} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %15 = "msc.concat"(%12, %13, %14) {dim = 2 : i64} : (tensor<2x4x2x8xbf16>, tensor<2x4x1x8xbf16>, tensor<2x4x1x8xbf16>) -> tensor<2x4x4x8xbf16>
    %16 = "msc.reshape"(%15) {shape = [2, 4, 32]} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x32xbf16>
    %17 = "msc.reshape"(%x) {shape = [8, 6]} : (tensor<2x4x6xbf16>) -> tensor<8x6xbf16>
    %18 = "msc.reshape"(%16) {shape = [8, 32]} : (tensor<2x4x32xbf16>) -> tensor<8x32xbf16>
    %19 = "msc.reduce_sum"(%16) {dims = [0, 1]} : (tensor<2x4x32xbf16>) -> tensor<32xbf16>
    %20 = "msc.cast"(%19) {dtype = "f32"} : (tensor<32xbf16>) -> tensor<32xf32>
    %21 = "msc.gemm"(%17, %18) {transpose_a = true} : (tensor<8x6xbf16>, tensor<8x32xbf16>) -> tensor<6x32xbf16>
    %22 = "msc.cast"(%21) {dtype = "f32"} : (tensor<6x32xbf16>) -> tensor<6x32xf32>
    %23 = "msc.gemm"(%16, %0) {transpose_b = true} : (tensor<2x4x32xbf16>, tensor<6x32xbf16>) -> tensor<2x4x6xbf16>
    %24 = "msc.add"(%r, %23) : (tensor<2x4x6xbf16>, tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
    %25 = "msc.slice"(%20) {limit = [16], start = [0]} : (tensor<32xf32>) -> tensor<16xf32>
    %26 = "msc.slice"(%20) {limit = [24], start = [16]} : (tensor<32xf32>) -> tensor<8xf32>
    %27 = "msc.slice"(%20) {limit = [32], start = [24]} : (tensor<32xf32>) -> tensor<8xf32>
    %28 = "msc.slice"(%22) {limit = [6, 16], start = [0, 0]} : (tensor<6x32xf32>) -> tensor<6x16xf32>
    %29 = "msc.slice"(%22) {limit = [6, 24], start = [0, 16]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    %30 = "msc.slice"(%22) {limit = [6, 32], start = [0, 24]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    "msc.return"(%10#0, %24, %27, %30, %26, %29, %25, %28) : (tensor<2x2x4x8xbf16>, tensor<2x4x6xbf16>, tensor<8xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<16xf32>, tensor<6x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
