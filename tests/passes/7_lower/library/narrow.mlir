// RUN: msc opt --passes=library --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x5xbf16>, %b: tensor<5x6xbf16>, %c: tensor<4x6xf16>):
    %0 = "msc.matmul"(%a, %b) : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xbf16> loc("in f32")
    %1 = "msc.matmul_weight_grad"(%c, %c) : (tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<6x6xf16> loc("too")
    %2 = "msc.matmul"(%a, %b) : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xbf16> loc("wanted in f32")
    %3 = "msc.cast"(%2) {dtype = "f32"} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    "msc.return"(%0, %1, %3) : (tensor<4x6xbf16>, tensor<6x6xf16>, tensor<4x6xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x5xbf16>, %b: tensor<5x6xbf16>, %c: tensor<4x6xf16>):
    %0 = "msc.gemm"(%a, %b) {generated = true} : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xbf16> loc("in f32")
    %1 = "msc.gemm"(%c, %c) {generated = true, transpose_a = true} : (tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<6x6xf16> loc("too")
    %2 = "msc.gemm"(%a, %b) {dtype = "f32", generated = true} : (tensor<4x5xbf16>, tensor<5x6xbf16>) -> tensor<4x6xf32> loc("wanted in f32")
    "msc.return"(%0, %1, %2) : (tensor<4x6xbf16>, tensor<6x6xf16>, tensor<4x6xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
