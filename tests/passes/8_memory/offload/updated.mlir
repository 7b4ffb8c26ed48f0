// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"param":"cpu","optimizer":"cpu"}' %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>, %m: tensor<32x32xf32>, %n: tensor<32x32xf32>, %o: tensor<32x32xf32>, %p: tensor<32x32xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("fetches the weight")
    %1 = "msc.add"(%m, %0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state, made where the old one lives")
    %2 = "msc.sub"(%w, %1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new weight, likewise")
    %3 = "msc.mul"(%n, %0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state, whose old one is read later")
    %4 = "msc.sub"(%0, %n) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("the later op")
    %5 = "msc.gemm"(%o, %4) {generated = true} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state that needs all of the old one")
    %6 = "msc.add"(%p, %p) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("reads the old state twice")
    "msc.return"(%4, %2, %1, %3, %5, %6) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "state"},
                   {msc.name = "n", msc.role = "state"},
                   {msc.name = "o", msc.role = "state"},
                   {msc.name = "p", msc.role = "state"}],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4, 5]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>, %m: tensor<32x32xf32>, %n: tensor<32x32xf32>, %o: tensor<32x32xf32>, %p: tensor<32x32xf32>):
    %0 = "msc.fetch"(%w) {place = [0]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("w")
    %1 = "msc.gemm"(%x, %0) {generated = true, place = [4096]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("fetches the weight")
    %2 = "msc.add"(%m, %1) {place = [-3]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state, made where the old one lives")
    %3 = "msc.fetch"(%n) {place = [0]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("n")
    %4 = "msc.sub"(%w, %2) {place = [-2]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new weight, likewise")
    %5 = "msc.mul"(%3, %1) {place = [8192]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state, whose old one is read later")
    %6 = "msc.stow"(%n, %5) {beside = 3 : i64, place = [-4]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("n")
    %7 = "msc.fetch"(%o) {place = [12288]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("o")
    %8 = "msc.sub"(%1, %3) {place = [4096]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("the later op")
    %9 = "msc.fetch"(%p) {place = [0]} : (tensor<32x32xf32>) -> tensor<32x32xf32> loc("p")
    %10 = "msc.gemm"(%7, %8) {generated = true, place = [8192]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("new state that needs all of the old one")
    %11 = "msc.stow"(%o, %10) {beside = 2 : i64, place = [-5]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("o")
    %12 = "msc.add"(%9, %9) {place = [12288]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("reads the old state twice")
    %13 = "msc.stow"(%p, %12) {place = [-6]} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc("p")
    "msc.return"(%8, %4, %2, %6, %11, %13) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.home = "cpu", msc.name = "w", msc.role = "parameter"},
                   {msc.home = "cpu", msc.name = "m", msc.role = "state"},
                   {msc.home = "cpu", msc.name = "n", msc.role = "state"},
                   {msc.home = "cpu", msc.name = "o", msc.role = "state"},
                   {msc.home = "cpu", msc.name = "p", msc.role = "state"}],
      scratch = 16384 : i64,
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4, 5]} : () -> ()
}
