// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"param":"disk","optimizer":"disk"}' --set offload_path=. --set memory_limit=24600 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>, %v: tensor<32x32xf32>, %w: tensor<32x32xf32>, %m: tensor<32x32xf32>, %b: tensor<32xf32>):
    %0 = "msc.gemm"(%x, %v) {generated = true} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("first layer")
    %1 = "msc.exp"(%0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = "msc.reshape"(%w) {shape = [32, 32]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("a view, made where it is used")
    %3 = "msc.sin"(%1) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %4 = "msc.cos"(%3) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = "msc.gemm"(%4, %2, %b) {generated = true} : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<32x32xf32> loc("second layer; its bias is less than a page")
    %6 = "msc.add"(%m, %5) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state")
    %7 = "msc.sub"(%w, %6) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new weight; the old one is still there")
    %8 = "msc.gemm"(%5, %v) {generated = true} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("first weight, fetched once more")
    "msc.return"(%8, %7, %6) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "state"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>, %v: tensor<32x32xf32>, %w: tensor<32x32xf32>, %m: tensor<32x32xf32>, %b: tensor<32xf32>):
    %0 = "msc.fetch"(%v) {place = [0]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("v")
    %1 = "msc.fetch"(%w) {place = [4096]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("w")
    %2 = "msc.gemm"(%x, %0) {generated = true, place = [8192]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("first layer")
    %3 = "msc.exp"(%2) {place = [8192]} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %4 = "msc.sin"(%3) {place = [8192]} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = "msc.cos"(%4) {place = [8192]} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %6 = "msc.reshape"(%1) {place = [4096], shape = [32, 32]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("a view, made where it is used")
    %7 = "msc.gemm"(%5, %6, %b) {generated = true, place = [0]} : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<32x32xf32> loc("second layer; its bias is less than a page")
    %8 = "msc.fetch"(%m) {place = [8192]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("m")
    %9 = "msc.add"(%8, %7) {place = [8192]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state")
    %10 = "msc.stow"(%m, %9) {beside = 1 : i64, place = [-4]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("m")
    %11 = "msc.sub"(%1, %9) {place = [4096]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new weight; the old one is still there")
    %12 = "msc.fetch"(%v) {place = [8192]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("v")
    %13 = "msc.stow"(%w, %11) {place = [-3]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("w")
    %14 = "msc.gemm"(%7, %12) {generated = true, place = [4096]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("first weight, fetched once more")
    "msc.return"(%14, %13, %10) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "disk", msc.name = "v", msc.role = "parameter"},
                   {msc.home = "disk", msc.name = "w", msc.role = "parameter"},
                   {msc.home = "disk", msc.name = "m", msc.role = "state"},
                   {msc.name = "b", msc.role = "parameter"}],
      scratch = 12288 : i64,
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
