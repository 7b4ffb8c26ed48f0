// RUN: msc opt --passes=biased --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x5x5xbf16>, %w: tensor<6x2x3x3xbf16>, %b: tensor<6x1x1xbf16>, %s: tensor<2x6x3x3xbf16>):
    %0 = "msc.conv2d"(%x, %w) {groups = 2 : i64, library = true} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %1 = "msc.add"(%0, %b) : (tensor<2x6x3x3xbf16>, tensor<6x1x1xbf16>) -> tensor<2x6x3x3xbf16>
    %2 = "msc.relu"(%1) : (tensor<2x6x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %3 = "msc.conv2d"(%x, %w) {groups = 2 : i64, library = true, padding = [1, 1, 1, 1], stride = [2, 2]} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %4 = "msc.add"(%b, %3) : (tensor<6x1x1xbf16>, tensor<2x6x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %5 = "msc.conv2d"(%x, %w) {groups = 2 : i64, library = true} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %6 = "msc.add"(%5, %s) : (tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    "msc.return"(%2, %4, %6) : (tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4x5x5xbf16>, %w: tensor<6x2x3x3xbf16>, %b: tensor<6x1x1xbf16>, %s: tensor<2x6x3x3xbf16>):
    %0 = "msc.reshape"(%b) {shape = [1, 6, 1, 1]} : (tensor<6x1x1xbf16>) -> tensor<1x6x1x1xbf16>
    %1 = "msc.biased_conv2d"(%x, %w, %0) {groups = 2 : i64, library = true, relu = true} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>, tensor<1x6x1x1xbf16>) -> tensor<2x6x3x3xbf16>
    %2 = "msc.reshape"(%b) {shape = [1, 6, 1, 1]} : (tensor<6x1x1xbf16>) -> tensor<1x6x1x1xbf16>
    %3 = "msc.biased_conv2d"(%x, %w, %2) {groups = 2 : i64, library = true, padding = [1, 1, 1, 1], stride = [2, 2]} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>, tensor<1x6x1x1xbf16>) -> tensor<2x6x3x3xbf16>
    %4 = "msc.conv2d"(%x, %w) {groups = 2 : i64, library = true} : (tensor<2x4x5x5xbf16>, tensor<6x2x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    %5 = "msc.add"(%4, %s) : (tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>) -> tensor<2x6x3x3xbf16>
    "msc.return"(%1, %3, %5) : (tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>, tensor<2x6x3x3xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
