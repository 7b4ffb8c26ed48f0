// RUN: msc opt --passes=localize %s
module {
  "msc.func"() ({
  ^bb0(%0: tensor<4x1024xbf16>, %1: tensor<1024x8xbf16>, %2: tensor<4x2048xbf16>, %3: tensor<2048x8xbf16>, %4: tensor<4x768xf32>, %5: tensor<768x8xf32>):
    %6 = "msc.matmul"(%0, %1) : (tensor<4x1024xbf16>, tensor<1024x8xbf16>) -> tensor<4x8xbf16>
    %7 = "msc.matmul"(%2, %3) : (tensor<4x2048xbf16>, tensor<2048x8xbf16>) -> tensor<4x8xbf16>
    %8 = "msc.matmul"(%4, %5) : (tensor<4x768xf32>, tensor<768x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%6, %7, %8) : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%0: tensor<4x1024xbf16>, %1: tensor<1024x8xbf16>, %2: tensor<4x2048xbf16>, %3: tensor<2048x8xbf16>, %4: tensor<4x768xf32>, %5: tensor<768x8xf32>):
    %6 = "msc.matmul"(%0, %1) {blocks = 8 : i64} : (tensor<4x1024xbf16>, tensor<1024x8xbf16>) -> tensor<4x8xbf16>
    %7 = "msc.matmul"(%2, %3) {blocks = 16 : i64} : (tensor<4x2048xbf16>, tensor<2048x8xbf16>) -> tensor<4x8xbf16>
    %8 = "msc.matmul"(%4, %5) {blocks = 16 : i64} : (tensor<4x768xf32>, tensor<768x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%6, %7, %8) : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x8xf32>) -> ()
  }) {result_layouts = ["[{},{}]", "[{},{}]", "[{},{}]"],
      result_shapes = [[4, 8], [4, 8], [4, 8]],
      sym_name = "main"} : () -> ()
}
