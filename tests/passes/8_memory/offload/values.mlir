// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"activation":"cpu"}' %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("first")
    %1 = "msc.exp"(%0) : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("the backward needs it, too")
    %2 = "msc.gemm"(%1, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %3 = "msc.gemm"(%2, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %5 = "msc.reshape"(%1) {shape = [256, 256]} : (tensor<256x256xf32>) -> tensor<256x256xf32>
    %6 = "msc.mul"(%4, %5) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("backward")
    "msc.return"(%6) : (tensor<256x256xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true, place = [0]} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("first")
    %1 = "msc.exp"(%0) {place = [0]} : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("the backward needs it, too")
    %2 = "msc.gemm"(%1, %w) {generated = true, place = [262144]} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %3 = "msc.stash"(%1) {beside = 1 : i64, home = "cpu", place = [0]} : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("the backward needs it, too")
    %4 = "msc.gemm"(%2, %w) {generated = true, place = [524288]} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %5 = "msc.fetch"(%3) {place = [0]} : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("the backward needs it, too")
    %6 = "msc.gemm"(%4, %w) {generated = true, place = [262144]} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %7 = "msc.reshape"(%5) {place = [0], shape = [256, 256]} : (tensor<256x256xf32>) -> tensor<256x256xf32>
    %8 = "msc.mul"(%6, %7) {place = [262144]} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("backward")
    "msc.return"(%8) : (tensor<256x256xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      host_scratch = 262144 : i64,
      scratch = 786432 : i64,
      sym_name = "train"} : () -> ()
}
