// RUN: msc opt --passes=offload,allocate --check-numerics --set 'offload={"activation":"cpu"}' %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>):
    %0 = "msc.compare"(%x, %w) {predicate = "lt"} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xi1> loc("which dropout kept")
    %1 = "msc.select"(%0, %x, %w) : (tensor<128x128xi1>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %2 = "msc.gemm"(%1, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %3 = "msc.gemm"(%2, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %5 = "msc.select"(%0, %4, %x) : (tensor<128x128xi1>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("backward")
    "msc.return"(%5) : (tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "train"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>):
    %0 = "msc.compare"(%x, %w) {place = [131072], predicate = "lt"} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xi1> loc("which dropout kept")
    %1 = "msc.select"(%0, %x, %w) {place = [0]} : (tensor<128x128xi1>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %2 = "msc.stash"(%0) {beside = 1 : i64, home = "cpu", place = [0]} : (tensor<128x128xi1>) -> tensor<128x128xi1> loc("which dropout kept")
    %3 = "msc.gemm"(%1, %w) {generated = true, place = [65536]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %4 = "msc.gemm"(%3, %w) {generated = true, place = [0]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %5 = "msc.fetch"(%2) {place = [131072]} : (tensor<128x128xi1>) -> tensor<128x128xi1> loc("which dropout kept")
    %6 = "msc.gemm"(%4, %w) {generated = true, place = [65536]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %7 = "msc.select"(%5, %6, %x) {place = [65536]} : (tensor<128x128xi1>, tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32> loc("backward")
    "msc.return"(%7) : (tensor<128x128xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      host_scratch = 16384 : i64,
      scratch = 147456 : i64,
      sym_name = "train"} : () -> ()
}
