// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"param":"disk"}' --set offload_path=. %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>, %y: tensor<8x8xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<128x128xf32>):
      %2 = "msc.exp"(%1) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      %3 = "msc.sin"(%2) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      %4 = "msc.cos"(%3) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      "msc.yield"(%4) : (tensor<128x128xf32>) -> ()
    }) : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %5 = "msc.sub"(%w, %0) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("goes back beside the product, which takes longer")
    %6 = "msc.gemm"(%x, %0) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %7 = "msc.neg"(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "msc.abs"(%7) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %9 = "msc.neg"(%8) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %10 = "msc.abs"(%9) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %11 = "msc.neg"(%10) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%6, %11, %5) : (tensor<128x128xf32>, tensor<8x8xf32>, tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "data"}],
      sym_name = "train",
      ties = [-1, -1, 1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>, %y: tensor<8x8xf32>):
    %0 = "msc.fetch"(%w) {place = [0]} : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("w")
    %1 = "msc.fused"(%x) ({
    ^bb0(%2: tensor<128x128xf32>):
      %3 = "msc.exp"(%2) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      %4 = "msc.sin"(%3) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      %5 = "msc.cos"(%4) : (tensor<128x128xf32>) -> tensor<128x128xf32>
      "msc.yield"(%5) : (tensor<128x128xf32>) -> ()
    }) {place = [65536]} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %6 = "msc.sub"(%0, %1) {place = [0]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("goes back beside the product, which takes longer")
    %7 = "msc.stow"(%w, %6) {beside = 6 : i64, place = [-2]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("w")
    %8 = "msc.gemm"(%x, %1) {generated = true, place = [131072]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %9 = "msc.neg"(%y) {place = [65536]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %10 = "msc.abs"(%9) {place = [65536]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %11 = "msc.neg"(%10) {place = [65536]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %12 = "msc.abs"(%11) {place = [65536]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %13 = "msc.neg"(%12) {place = [65536]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%8, %13, %7) : (tensor<128x128xf32>, tensor<8x8xf32>, tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "disk", msc.name = "w", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "data"}],
      scratch = 196608 : i64,
      sym_name = "train",
      ties = [-1, -1, 1]} : () -> ()
}
