// RUN: msc opt --passes=overlap --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>, %dz: tensor<64x64xf32>, %w: tensor<64x64xf32>, %v: tensor<64x64xf32>):
    %0 = "msc.gemm"(%x, %dy) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.sum")
    %2 = "msc.sub"(%w, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.update")
    %3 = "msc.gemm"(%x, %dz) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.grad")
    %4 = "msc.comm"(%3) {dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.sum")
    %5 = "msc.sub"(%v, %4) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.update")
    "msc.return"(%2, %5) : (tensor<64x64xf32>, tensor<64x64xf32>) -> ()
  }) {sym_name = "train"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>, %dz: tensor<64x64xf32>, %w: tensor<64x64xf32>, %v: tensor<64x64xf32>):
    %0 = "msc.gemm"(%x, %dy) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {beside = 2 : i64, dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.sum")
    %2 = "msc.gemm"(%x, %dz) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.grad")
    %3 = "msc.comm"(%2) {beside = 1 : i64, dims = [64, 64], from = ["[{},{}] partial={dp}"], shape = [64, 64], to = ["[{},{}]"], verb = "all_reduce"} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.sum")
    %4 = "msc.sub"(%w, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.update")
    %5 = "msc.sub"(%v, %3) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.update")
    "msc.return"(%4, %5) : (tensor<64x64xf32>, tensor<64x64xf32>) -> ()
  }) {sym_name = "train"} : () -> ()
}
