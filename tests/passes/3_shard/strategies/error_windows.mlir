// RUN: msc opt --set device_num=2 --set parallel_mode=auto_parallel --passes=strategies --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<1x2x10x4xf32>, %w: tensor<2x2x3x3xf32>):
    // expected-error @below {{in_layout: 10 elements that the windows of conv2d see, 2 apart, cannot be cut by {d}: parts begin between two windows}}
    %0 = "msc.conv2d"(%x, %w) {in_layout = ["[{},{},{d},{}]", "[{},{},{},{}]"], padding = [1, 1, 1, 1], stride = [2, 1]} : (tensor<1x2x10x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x5x4xf32>
    // expected-error @below {{in_layout: dimension 2 of operand 0 (x) cannot have parts of chosen sizes: windows slide over it}}
    %1 = "msc.conv2d"(%x, %w) {in_layout = ["[{},{},{d}/(4,6),{}]", "[{},{},{},{}]"], padding = [1, 1, 1, 1]} : (tensor<1x2x10x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x10x4xf32>
    "msc.return"(%0, %1) : (tensor<1x2x5x4xf32>, tensor<1x2x10x4xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
