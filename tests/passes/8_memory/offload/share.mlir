// RUN: msc opt --passes=offload --check-numerics %s
module attributes {msc.put_off = 4 : i64, msc.put_off_room = 300000 : i64} {
  "msc.func"() ({
  ^bb0(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("longest, put off")
    %1 = "msc.gemm"(%0, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("shorter, stays")
    %2 = "msc.gemm"(%1, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %3 = "msc.gemm"(%2, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %5 = "msc.gemm"(%4, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %6 = "msc.mul"(%5, %1) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %7 = "msc.mul"(%6, %0) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    "msc.return"(%7) : (tensor<256x256xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module attributes {msc.put_off = 4 : i64, msc.put_off_room = 300000 : i64} {
  "msc.func"() ({
  ^bb0(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("longest, put off")
    %1 = "msc.gemm"(%0, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("shorter, stays")
    %2 = "msc.stash"(%0) {beside = 1 : i64, home = "cpu"} : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("longest, put off")
    %3 = "msc.gemm"(%1, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %5 = "msc.gemm"(%4, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %6 = "msc.fetch"(%2) : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("longest, put off")
    %7 = "msc.gemm"(%5, %w) {generated = true} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %8 = "msc.mul"(%7, %1) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %9 = "msc.mul"(%8, %6) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    "msc.return"(%9) : (tensor<256x256xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
