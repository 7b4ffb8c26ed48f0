// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"param":"cpu","optimizer":"disk"}' --set offload_path=. %s
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
    %7 = "msc.fetch"(%m) {place = [0]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("m")
    %8 = "msc.gemm"(%5, %6, %b) {generated = true, place = [12288]} : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<32x32xf32> loc("second layer; its bias is less than a page")
    %9 = "msc.add"(%7, %8) {place = [0]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state")
    %10 = "msc.stow"(%m, %9) {beside = 3 : i64, place = [-4]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("m")
    %11 = "msc.fetch"(%v) {place = [4096]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("v")
    %12 = "msc.sub"(%w, %9) {place = [-3]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new weight; the old one is still there")
    %13 = "msc.gemm"(%8, %11) {generated = true, place = [8192]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("first weight, fetched once more")
    "msc.return"(%13, %12, %10) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "cpu", msc.name = "v", msc.role = "parameter"},
                   {msc.home = "cpu", msc.name = "w", msc.role = "parameter"},
                   {msc.home = "disk", msc.name = "m", msc.role = "state"},
                   {msc.name = "b", msc.role = "parameter"}],
      scratch = 16384 : i64,
      sym_name = "train",
      ties = [-1, 2, 3]} : () -> ()
}
