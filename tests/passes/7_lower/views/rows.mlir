// RUN: msc opt --passes=views --check-numerics %s
// Rows that products read lie in the whole, and what they put behind each other does; an argument's rows are copied.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>):
    %0 = "msc.gemm"(%x, %w) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    %1 = "msc.slice"(%0) {limit = [2, 8], start = [0, 0]} : (tensor<4x8xbf16>) -> tensor<2x8xbf16>
    %2 = "msc.gemm"(%1, %w) : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %3 = "msc.slice"(%x) {limit = [4, 8], start = [2, 0]} : (tensor<4x8xbf16>) -> tensor<2x8xbf16>
    %4 = "msc.gemm"(%3, %w) : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %5 = "msc.concat"(%2, %4) {dim = 0 : i64} : (tensor<2x8xbf16>, tensor<2x8xbf16>) -> tensor<4x8xbf16>
    %6 = "msc.add"(%5, %0) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
    "msc.return"(%6) : (tensor<4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>):
    %0 = "msc.gemm"(%x, %w) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    %1 = "msc.slice"(%0) {limit = [2, 8], start = [0, 0], view = true} : (tensor<4x8xbf16>) -> tensor<2x8xbf16>
    %2 = "msc.gemm"(%1, %w) : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %3 = "msc.slice"(%x) {limit = [4, 8], start = [2, 0]} : (tensor<4x8xbf16>) -> tensor<2x8xbf16>
    %4 = "msc.gemm"(%3, %w) : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %5 = "msc.concat"(%2, %4) {dim = 0 : i64, view = true} : (tensor<2x8xbf16>, tensor<2x8xbf16>) -> tensor<4x8xbf16>
    %6 = "msc.add"(%5, %0) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
    "msc.return"(%6) : (tensor<4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
