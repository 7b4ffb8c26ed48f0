// RUN: msc opt --passes=views,allocate %s
// Slices, and parts of a concat, lie in the whole.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>):
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
    %24 = "msc.slice"(%20) {limit = [16], start = [0]} : (tensor<32xf32>) -> tensor<16xf32>
    %25 = "msc.slice"(%20) {limit = [24], start = [16]} : (tensor<32xf32>) -> tensor<8xf32>
    %26 = "msc.slice"(%20) {limit = [32], start = [24]} : (tensor<32xf32>) -> tensor<8xf32>
    %27 = "msc.slice"(%22) {limit = [6, 16], start = [0, 0]} : (tensor<6x32xf32>) -> tensor<6x16xf32>
    %28 = "msc.slice"(%22) {limit = [6, 24], start = [0, 16]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    %29 = "msc.slice"(%22) {limit = [6, 32], start = [0, 24]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    "msc.return"(%10#0, %23, %26, %29, %25, %28, %24, %27) : (tensor<2x2x4x8xbf16>, tensor<2x4x6xbf16>, tensor<8xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<16xf32>, tensor<6x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>):
    %0 = "msc.concat"(%a, %b, %c) {dim = 1 : i64, place = [1280]} : (tensor<6x16xbf16>, tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<6x32xbf16>
    %1 = "msc.concat"(%i, %j, %l) {dim = 0 : i64, place = [512]} : (tensor<16xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<32xbf16>
    %2 = "msc.gemm"(%x, %0, %1) {place = [0]} : (tensor<2x4x6xbf16>, tensor<6x32xbf16>, tensor<32xbf16>) -> tensor<2x4x32xbf16>
    %3 = "msc.reshape"(%2) {place = [0], shape = [2, 4, 4, 8]} : (tensor<2x4x32xbf16>) -> tensor<2x4x4x8xbf16>
    %4 = "msc.slice"(%3) {limit = [2, 4, 2, 8], place = [0], start = [0, 0, 0, 0], view = true} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 1, 3], place = [0], view = true} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %6 = "msc.slice"(%3) {limit = [2, 4, 3, 8], place = [32], start = [0, 0, 2, 0], view = true} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %7 = "msc.transpose"(%6) {perm = [0, 2, 1, 3], place = [32], view = true} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %8 = "msc.slice"(%3) {limit = [2, 4, 4, 8], place = [48], start = [0, 0, 3, 0], view = true} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %9 = "msc.transpose"(%8) {perm = [0, 2, 1, 3], place = [48], view = true} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %10:2 = "msc.flash_attention"(%5, %7, %9) {library = true, place = [2048, 512]} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    %11:3 = "msc.flash_attention_grad"(%5, %7, %9, %10#0, %10#1, %do) {library = true, place = [768, 800, 816]} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>)
    %12 = "msc.transpose"(%11#0) {perm = [0, 2, 1, 3], place = [768], view = true} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %13 = "msc.transpose"(%11#1) {perm = [0, 2, 1, 3], place = [800], view = true} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %14 = "msc.transpose"(%11#2) {perm = [0, 2, 1, 3], place = [816], view = true} : (tensor<2x1x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %15 = "msc.concat"(%12, %13, %14) {dim = 2 : i64, place = [768], view = true} : (tensor<2x4x2x8xbf16>, tensor<2x4x1x8xbf16>, tensor<2x4x1x8xbf16>) -> tensor<2x4x4x8xbf16>
    %16 = "msc.reshape"(%15) {place = [768], shape = [2, 4, 32]} : (tensor<2x4x4x8xbf16>) -> tensor<2x4x32xbf16>
    %17 = "msc.reshape"(%x) {place = [-1], shape = [8, 6]} : (tensor<2x4x6xbf16>) -> tensor<8x6xbf16>
    %18 = "msc.reshape"(%16) {place = [768], shape = [8, 32]} : (tensor<2x4x32xbf16>) -> tensor<8x32xbf16>
    %19 = "msc.reduce_sum"(%16) {dims = [0, 1], place = [0]} : (tensor<2x4x32xbf16>) -> tensor<32xbf16>
    %20 = "msc.cast"(%19) {dtype = "f32", place = [2304]} : (tensor<32xbf16>) -> tensor<32xf32>
    %21 = "msc.gemm"(%17, %18) {place = [1664], transpose_a = true} : (tensor<8x6xbf16>, tensor<8x32xbf16>) -> tensor<6x32xbf16>
    %22 = "msc.cast"(%21) {dtype = "f32", place = [0]} : (tensor<6x32xbf16>) -> tensor<6x32xf32>
    %23 = "msc.gemm"(%16, %0) {place = [1664], transpose_b = true} : (tensor<2x4x32xbf16>, tensor<6x32xbf16>) -> tensor<2x4x6xbf16>
    %24 = "msc.slice"(%20) {limit = [16], place = [1536], start = [0]} : (tensor<32xf32>) -> tensor<16xf32>
    %25 = "msc.slice"(%20) {limit = [24], place = [1600], start = [16]} : (tensor<32xf32>) -> tensor<8xf32>
    %26 = "msc.slice"(%20) {limit = [32], place = [1792], start = [24]} : (tensor<32xf32>) -> tensor<8xf32>
    %27 = "msc.slice"(%22) {limit = [6, 16], place = [768], start = [0, 0]} : (tensor<6x32xf32>) -> tensor<6x16xf32>
    %28 = "msc.slice"(%22) {limit = [6, 24], place = [1152], start = [0, 16]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    %29 = "msc.slice"(%22) {limit = [6, 32], place = [1344], start = [0, 24]} : (tensor<6x32xf32>) -> tensor<6x8xf32>
    "msc.return"(%10#0, %23, %26, %29, %25, %28, %24, %27) : (tensor<2x2x4x8xbf16>, tensor<2x4x6xbf16>, tensor<8xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>, tensor<16xf32>, tensor<6x16xf32>) -> ()
  }) {scratch = 2432 : i64,
      sym_name = "main"} : () -> ()
}
