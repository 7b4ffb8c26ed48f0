// RUN: msc opt --passes=tile %s
// An elementwise kernel takes sums of rows 64 KiB at a time, as the update of a table takes its gradient; the sums move
// down to it. Not so where two read them, a kernel reads them in other places, or a table has fewer rows than threads.
module {
  "msc.func"() ({
  ^bb0(%i: tensor<64xi32>, %o: tensor<64xi32>, %u: tensor<64x16xf32>, %w: tensor<5000x16xf32>, %s: tensor<3x16xf32>):
    %0 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 5000 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %1 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<64x16xf32>) -> tensor<16xf32>
    %2 = "msc.sub"(%w, %0) : (tensor<5000x16xf32>, tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %3 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 40 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<40x16xf32>
    %4 = "msc.tanh"(%3) : (tensor<40x16xf32>) -> tensor<40x16xf32>
    %5 = "msc.segment_sum"(%i, %o, %u) {blocks = 4 : i64, rows = 5000 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %6 = "msc.neg"(%5) : (tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %7 = "msc.abs"(%5) : (tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %8 = "msc.segment_sum"(%i, %o, %u) {blocks = 2 : i64, rows = 5000 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %9 = "msc.transpose"(%8) {perm = [1, 0]} : (tensor<5000x16xf32>) -> tensor<16x5000xf32>
    %10 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 3 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<3x16xf32>
    %11 = "msc.sub"(%s, %10) : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
    "msc.return"(%1, %2, %4, %6, %7, %9, %11) : (tensor<16xf32>, tensor<5000x16xf32>, tensor<40x16xf32>, tensor<5000x16xf32>, tensor<5000x16xf32>, tensor<16x5000xf32>, tensor<3x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%i: tensor<64xi32>, %o: tensor<64xi32>, %u: tensor<64x16xf32>, %w: tensor<5000x16xf32>, %s: tensor<3x16xf32>):
    %0 = "msc.reduce_sum"(%u) {dims = [0]} : (tensor<64x16xf32>) -> tensor<16xf32>
    %1 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 5000 : i64, tile = 1024 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %2 = "msc.sub"(%w, %1) : (tensor<5000x16xf32>, tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %3 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 40 : i64, tile = 10 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<40x16xf32>
    %4 = "msc.tanh"(%3) : (tensor<40x16xf32>) -> tensor<40x16xf32>
    %5 = "msc.segment_sum"(%i, %o, %u) {blocks = 4 : i64, rows = 5000 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %6 = "msc.neg"(%5) : (tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %7 = "msc.abs"(%5) : (tensor<5000x16xf32>) -> tensor<5000x16xf32>
    %8 = "msc.segment_sum"(%i, %o, %u) {blocks = 2 : i64, rows = 5000 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<5000x16xf32>
    %9 = "msc.transpose"(%8) {perm = [1, 0]} : (tensor<5000x16xf32>) -> tensor<16x5000xf32>
    %10 = "msc.segment_sum"(%i, %o, %u) {blocks = 8 : i64, rows = 3 : i64} : (tensor<64xi32>, tensor<64xi32>, tensor<64x16xf32>) -> tensor<3x16xf32>
    %11 = "msc.sub"(%s, %10) : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
    "msc.return"(%0, %2, %4, %6, %7, %9, %11) : (tensor<16xf32>, tensor<5000x16xf32>, tensor<40x16xf32>, tensor<5000x16xf32>, tensor<5000x16xf32>, tensor<16x5000xf32>, tensor<3x16xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
