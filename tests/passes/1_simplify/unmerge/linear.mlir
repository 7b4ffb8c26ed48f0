// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --passes=unmerge,fold,dce --check-numerics %s
// A layer on tokens of all sequences, between two reshapes that take each other back.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x8xf32>, %w: tensor<8x10xf32>, %b: tensor<10xf32>, %g: tensor<10xf32>, %h: tensor<10xf32>, %v: tensor<12x10xf32>):
    %0 = "msc.reshape"(%x) {shape = [24, 8]} : (tensor<4x6x8xf32>) -> tensor<24x8xf32> loc("merge")
    %1 = "msc.matmul"(%0, %w) : (tensor<24x8xf32>, tensor<8x10xf32>) -> tensor<24x10xf32> loc("up")
    %2 = "msc.add"(%1, %b) : (tensor<24x10xf32>, tensor<10xf32>) -> tensor<24x10xf32> loc("bias")
    %3 = "msc.gelu"(%2) {form = "tanh"} : (tensor<24x10xf32>) -> tensor<24x10xf32> loc("gelu")
    %4 = "msc.layer_norm"(%3, %g, %h) {axis = 1 : i64} : (tensor<24x10xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<24x10xf32> loc("norm")
    %5 = "msc.add"(%4, %2) : (tensor<24x10xf32>, tensor<24x10xf32>) -> tensor<24x10xf32> loc("residual")
    %6 = "msc.softmax"(%5) : (tensor<24x10xf32>) -> tensor<24x10xf32> loc("softmax")
    %7 = "msc.matmul"(%6, %v) {transpose_b = true} : (tensor<24x10xf32>, tensor<12x10xf32>) -> tensor<24x12xf32> loc("down")
    %8 = "msc.reshape"(%7) {shape = [4, 6, 12]} : (tensor<24x12xf32>) -> tensor<4x6x12xf32> loc("back")
    "msc.return"(%8) : (tensor<4x6x12xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x8xf32>, %w: tensor<8x10xf32>, %b: tensor<10xf32>, %g: tensor<10xf32>, %h: tensor<10xf32>, %v: tensor<12x10xf32>):
    %0 = "msc.batch_matmul"(%x, %w) : (tensor<4x6x8xf32>, tensor<8x10xf32>) -> tensor<4x6x10xf32> loc("up")
    %1 = "msc.add"(%0, %b) : (tensor<4x6x10xf32>, tensor<10xf32>) -> tensor<4x6x10xf32> loc("bias")
    %2 = "msc.gelu"(%1) {form = "tanh"} : (tensor<4x6x10xf32>) -> tensor<4x6x10xf32> loc("gelu")
    %3 = "msc.layer_norm"(%2, %g, %h) {axis = 2 : i64} : (tensor<4x6x10xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<4x6x10xf32> loc("norm")
    %4 = "msc.add"(%3, %1) : (tensor<4x6x10xf32>, tensor<4x6x10xf32>) -> tensor<4x6x10xf32> loc("residual")
    %5 = "msc.softmax"(%4) : (tensor<4x6x10xf32>) -> tensor<4x6x10xf32> loc("softmax")
    %6 = "msc.batch_matmul"(%5, %v) {transpose_b = true} : (tensor<4x6x10xf32>, tensor<12x10xf32>) -> tensor<4x6x12xf32> loc("down")
    "msc.return"(%6) : (tensor<4x6x12xf32>) -> ()
  }) {sym_name = "forward",
      unmerged_ops = 7 : i64} : () -> ()
}
