// RUN: msc opt --passes=localize --set f32_products=bf16_x6 %s
module {
  "msc.func"() ({
  ^bb0(%0: tensor<2x256x512xf32>, %1: tensor<512x64xf32>, %2: tensor<511x512xf32>, %3: tensor<256x63xf32>, %4: tensor<512x256xf32>, %5: tensor<512x512xbf16>, %6: tensor<512x64xbf16>, %7: tensor<3x512x512xf32>):
    %8 = "msc.batch_matmul"(%0, %1) : (tensor<2x256x512xf32>, tensor<512x64xf32>) -> tensor<2x256x64xf32>
    %9 = "msc.matmul"(%2, %1) : (tensor<511x512xf32>, tensor<512x64xf32>) -> tensor<511x64xf32>
    %10 = "msc.matmul"(%4, %3) : (tensor<512x256xf32>, tensor<256x63xf32>) -> tensor<512x63xf32>
    %11 = "msc.matmul"(%4, %4) {transpose_a = true} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
    %12 = "msc.matmul"(%5, %6) : (tensor<512x512xbf16>, tensor<512x64xbf16>) -> tensor<512x64xbf16>
    %13 = "msc.batch_matmul"(%7, %7) : (tensor<3x512x512xf32>, tensor<3x512x512xf32>) -> tensor<3x512x512xf32>
    "msc.return"(%8, %9, %10, %11, %12, %13) : (tensor<2x256x64xf32>, tensor<511x64xf32>, tensor<512x63xf32>, tensor<256x256xf32>, tensor<512x64xbf16>, tensor<3x512x512xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%0: tensor<2x256x512xf32>, %1: tensor<512x64xf32>, %2: tensor<511x512xf32>, %3: tensor<256x63xf32>, %4: tensor<512x256xf32>, %5: tensor<512x512xbf16>, %6: tensor<512x64xbf16>, %7: tensor<3x512x512xf32>):
    %8 = "msc.batch_matmul"(%0, %1) {blocks = 8 : i64, in_parts = true} : (tensor<2x256x512xf32>, tensor<512x64xf32>) -> tensor<2x256x64xf32>
    %9 = "msc.matmul"(%2, %1) {blocks = 16 : i64} : (tensor<511x512xf32>, tensor<512x64xf32>) -> tensor<511x64xf32>
    %10 = "msc.matmul"(%4, %3) {blocks = 8 : i64} : (tensor<512x256xf32>, tensor<256x63xf32>) -> tensor<512x63xf32>
    %11 = "msc.matmul"(%4, %4) {blocks = 8 : i64, in_parts = true, transpose_a = true} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
    %12 = "msc.matmul"(%5, %6) {blocks = 8 : i64} : (tensor<512x512xbf16>, tensor<512x64xbf16>) -> tensor<512x64xbf16>
    %13 = "msc.batch_matmul"(%7, %7) {blocks = 16 : i64} : (tensor<3x512x512xf32>, tensor<3x512x512xf32>) -> tensor<3x512x512xf32>
    "msc.return"(%8, %9, %10, %11, %12, %13) : (tensor<2x256x64xf32>, tensor<511x64xf32>, tensor<512x63xf32>, tensor<256x256xf32>, tensor<512x64xbf16>, tensor<3x512x512xf32>) -> ()
  }) {result_layouts = ["[{},{},{}]", "[{},{}]", "[{},{}]", "[{},{}]", "[{},{}]", "[{},{},{}]"],
      result_shapes = [[2, 256, 64], [511, 64], [512, 63], [256, 256], [512, 64], [3, 512, 512]],
      sym_name = "main"} : () -> ()
}
