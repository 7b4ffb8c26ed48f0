// RUN: msc opt --passes=localize %s
module {
  "msc.func"() ({
  ^bb0(%0: tensor<4x1024xbf16>, %1: tensor<1024x8xbf16>, %2: tensor<4x2048xbf16>, %3: tensor<2048x8xbf16>, %4: tensor<4x768xf32>, %5: tensor<768x8xf32>, %6: tensor<3x4x64xbf16>, %7: tensor<3x64x8xbf16>):
    %8 = "msc.matmul"(%0, %1) : (tensor<4x1024xbf16>, tensor<1024x8xbf16>) -> tensor<4x8xbf16>
    %9 = "msc.matmul"(%2, %3) : (tensor<4x2048xbf16>, tensor<2048x8xbf16>) -> tensor<4x8xbf16>
    %10 = "msc.matmul"(%4, %5) : (tensor<4x768xf32>, tensor<768x8xf32>) -> tensor<4x8xf32>
    %11 = "msc.batch_matmul"(%6, %7) : (tensor<3x4x64xbf16>, tensor<3x64x8xbf16>) -> tensor<3x4x8xbf16>
    "msc.return"(%8, %9, %10, %11) : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xf32>, tensor<3x4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%0: tensor<4x1024xbf16>, %1: tensor<1024x8xbf16>, %2: tensor<4x2048xbf16>, %3: tensor<2048x8xbf16>, %4: tensor<4x768xf32>, %5: tensor<768x8xf32>, %6: tensor<3x4x64xbf16>, %7: tensor<3x64x8xbf16>):
    %8 = "msc.matmul"(%0, %1) {blocks = 8 : i64} : (tensor<4x1024xbf16>, tensor<1024x8xbf16>) -> tensor<4x8xbf16>
    %9 = "msc.matmul"(%2, %3) {blocks = 16 : i64} : (tensor<4x2048xbf16>, tensor<2048x8xbf16>) -> tensor<4x8xbf16>
    %10 = "msc.matmul"(%4, %5) {blocks = 16 : i64} : (tensor<4x768xf32>, tensor<768x8xf32>) -> tensor<4x8xf32>
    %11 = "msc.batch_matmul"(%6, %7) {blocks = 2 : i64} : (tensor<3x4x64xbf16>, tensor<3x64x8xbf16>) -> tensor<3x4x8xbf16>
    "msc.return"(%8, %9, %10, %11) : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xf32>, tensor<3x4x8xbf16>) -> ()
  }) {result_layouts = ["[{},{}]", "[{},{}]", "[{},{}]", "[{},{},{}]"],
      result_shapes = [[4, 8], [4, 8], [4, 8], [3, 4, 8]],
      sym_name = "main"} : () -> ()
}
