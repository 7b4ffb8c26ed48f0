// RUN: msc opt --passes=channels %s
// A convolution between what others give and want: the library's own copies are no more than these would be.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<8x4x3x3xbf16>):
    %0 = "msc.conv2d"(%x, %v) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<8x4x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    "msc.return"(%0) : (tensor<2x8x6x6xbf16>) -> ()
  }) {results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x6x6xbf16>, %v: tensor<8x4x3x3xbf16>):
    %0 = "msc.conv2d"(%x, %v) {any_order = true, library = true, padding = [1, 1, 1, 1]} : (tensor<2x4x6x6xbf16>, tensor<8x4x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    "msc.return"(%0) : (tensor<2x8x6x6xbf16>) -> ()
  }) {results = ["y"],
      sym_name = "forward"} : () -> ()
}
