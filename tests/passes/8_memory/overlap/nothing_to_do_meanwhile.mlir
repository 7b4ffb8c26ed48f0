// RUN: msc opt --passes=overlap --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %v: tensor<64x64xf32>):
    %0 = "msc.gemm"(%x, %w) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
    %1 = "msc.comm"(%0) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("first.sum")
    %2 = "msc.gemm"(%1, %v) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
    %3 = "msc.comm"(%2) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("second.sum")
    "msc.return"(%3) : (tensor<64x64xf32>) -> ()
  }) {sym_name = "train"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %v: tensor<64x64xf32>):
    %0 = "msc.gemm"(%x, %w) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
    %1 = "msc.comm"(%0) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("first.sum")
    %2 = "msc.gemm"(%1, %v) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
    %3 = "msc.comm"(%2) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("second.sum")
    "msc.return"(%3) : (tensor<64x64xf32>) -> ()
  }) {sym_name = "train"} : () -> ()
}
