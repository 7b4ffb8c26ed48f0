// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"activation":"cpu"}' %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("read with other strides, now and by the backward")
    %1 = "msc.transpose"(%0) {perm = [1, 0], view = true} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %2 = "msc.exp"(%1) : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %3 = "msc.gemm"(%2, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %5 = "msc.mul"(%4, %1) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("backward")
    "msc.return"(%5) : (tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>):
    %0 = "msc.gemm"(%x, %w) {generated = true, place = [0]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("read with other strides, now and by the backward")
    %1 = "msc.transpose"(%0) {perm = [1, 0], place = [0], view = true} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %2 = "msc.exp"(%1) {place = [65536]} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %3 = "msc.stash"(%0) {beside = 1 : i64, home = "cpu", place = [0]} : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("read with other strides, now and by the backward")
    %4 = "msc.gemm"(%2, %w) {generated = true, place = [131072]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %5 = "msc.fetch"(%3) {place = [0]} : (tensor<128x128xf32>) -> tensor<128x128xf32> loc("read with other strides, now and by the backward")
    %6 = "msc.gemm"(%4, %w) {generated = true, place = [65536]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %7 = "msc.transpose"(%5) {perm = [1, 0], place = [0], view = true} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %8 = "msc.mul"(%6, %7) {place = [65536]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("backward")
    "msc.return"(%8) : (tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      host_scratch = 65536 : i64,
      scratch = 196608 : i64,
      sym_name = "train"} : () -> ()
}
