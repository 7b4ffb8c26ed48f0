// RUN: msc opt --passes=overlap --check-numerics --set memory_limit=200000 %s
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>, %dz: tensor<64x64xf32>, %w: tensor<128x64xf32>, %v: tensor<128x64xf32>):
    %0 = "msc.gemm"(%x, %dy) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {dims = [128, 64], from = ["[{dp},{}]"], shape = [128, 64], to = ["[{},{}]"], verb = "all_gather"} : (tensor<64x64xf32>) -> tensor<128x64xf32> loc("w.gather")
    %2 = "msc.sub"(%w, %1) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("w.update")
    %3 = "msc.gemm"(%x, %dz) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.grad")
    %4 = "msc.comm"(%3) {dims = [128, 64], from = ["[{dp},{}]"], shape = [128, 64], to = ["[{},{}]"], verb = "all_gather"} : (tensor<64x64xf32>) -> tensor<128x64xf32> loc("v.gather")
    %5 = "msc.sub"(%v, %4) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("v.update")
    "msc.return"(%2, %5) : (tensor<128x64xf32>, tensor<128x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "parameter"},
                   {msc.name = "dy", msc.role = "parameter"},
                   {msc.name = "dz", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>, %dz: tensor<64x64xf32>, %w: tensor<128x64xf32>, %v: tensor<128x64xf32>):
    %0 = "msc.gemm"(%x, %dy) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("w.grad")
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [128, 64], from = ["[{dp},{}]"], shape = [128, 64], to = ["[{},{}]"], verb = "all_gather"} : (tensor<64x64xf32>) -> tensor<128x64xf32> loc("w.gather")
    %2 = "msc.gemm"(%x, %dz) {transpose_a = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("v.grad")
    %3 = "msc.sub"(%w, %1) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("w.update")
    %4 = "msc.comm"(%2) {dims = [128, 64], from = ["[{dp},{}]"], shape = [128, 64], to = ["[{},{}]"], verb = "all_gather"} : (tensor<64x64xf32>) -> tensor<128x64xf32> loc("v.gather")
    %5 = "msc.sub"(%v, %4) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("v.update")
    "msc.return"(%3, %5) : (tensor<128x64xf32>, tensor<128x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "parameter"},
                   {msc.name = "dy", msc.role = "parameter"},
                   {msc.name = "dz", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "v", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
