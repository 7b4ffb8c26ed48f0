// RUN: msc opt --passes=merge --check-numerics %s
// Keys and values of the same rows; queries of others.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %z: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>):
    %0 = "msc.gemm"(%z, %a, %i) : (tensor<2x4x6xbf16>, tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<2x4x16xbf16>
    %1 = "msc.reshape"(%0) {shape = [2, 4, 2, 8]} : (tensor<2x4x16xbf16>) -> tensor<2x4x2x8xbf16>
    %2 = "msc.transpose"(%1) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %3 = "msc.gemm"(%x, %b, %j) : (tensor<2x4x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x4x8xbf16>
    %4 = "msc.reshape"(%3) {shape = [2, 4, 1, 8]} : (tensor<2x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %5 = "msc.transpose"(%4) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %6 = "msc.gemm"(%x, %c, %l) : (tensor<2x4x6xbf16>, tensor<6x8xbf16>, tensor<8xbf16>) -> tensor<2x4x8xbf16>
    %7 = "msc.reshape"(%6) {shape = [2, 4, 1, 8]} : (tensor<2x4x8xbf16>) -> tensor<2x4x1x8xbf16>
    %8 = "msc.transpose"(%7) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %9:2 = "msc.flash_attention"(%2, %5, %8) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    "msc.return"(%9#0) : (tensor<2x2x4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6xbf16>, %z: tensor<2x4x6xbf16>, %a: tensor<6x16xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %i: tensor<16xbf16>, %j: tensor<8xbf16>, %l: tensor<8xbf16>, %do: tensor<2x2x4x8xbf16>):
    %0 = "msc.gemm"(%z, %a, %i) : (tensor<2x4x6xbf16>, tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<2x4x16xbf16>
    %1 = "msc.reshape"(%0) {shape = [2, 4, 2, 8]} : (tensor<2x4x16xbf16>) -> tensor<2x4x2x8xbf16>
    %2 = "msc.transpose"(%1) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %3 = "msc.concat"(%b, %c) {dim = 1 : i64} : (tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<6x16xbf16>
    %4 = "msc.concat"(%j, %l) {dim = 0 : i64} : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
    %5 = "msc.gemm"(%x, %3, %4) : (tensor<2x4x6xbf16>, tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<2x4x16xbf16>
    %6 = "msc.reshape"(%5) {shape = [2, 4, 2, 8]} : (tensor<2x4x16xbf16>) -> tensor<2x4x2x8xbf16>
    %7 = "msc.slice"(%6) {limit = [2, 4, 1, 8], start = [0, 0, 0, 0]} : (tensor<2x4x2x8xbf16>) -> tensor<2x4x1x8xbf16>
    %8 = "msc.transpose"(%7) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %9 = "msc.slice"(%6) {limit = [2, 4, 2, 8], start = [0, 0, 1, 0]} : (tensor<2x4x2x8xbf16>) -> tensor<2x4x1x8xbf16>
    %10 = "msc.transpose"(%9) {perm = [0, 2, 1, 3]} : (tensor<2x4x1x8xbf16>) -> tensor<2x1x4x8xbf16>
    %11:2 = "msc.flash_attention"(%2, %8, %10) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x1x4x8xbf16>, tensor<2x1x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    "msc.return"(%11#0) : (tensor<2x2x4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
