// RUN: msc opt --passes=allocate %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8x8xf32>, %e: tensor<64xf32>):
    %0 = "msc.add"(%a, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("in_place")
    %1 = "msc.transpose"(%b) {perm = [1, 0]} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("reads_other_elements")
    %2 = "msc.add"(%c, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("is_read_later")
    %3 = "msc.reshape"(%c) {shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %4 = "msc.exp"(%3) : (tensor<64xf32>) -> tensor<64xf32>
    %5 = "msc.gemm"(%x, %d) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("product")
    %6 = "msc.reshape"(%e) {shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %7 = "msc.exp"(%6) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "msc.reshape"(%7) {shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32> loc("seen_otherwise")
    "msc.return"(%4, %0, %1, %2, %5, %8) : (tensor<64xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["y", "a", "b", "c", "d", "e"],
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4, 5]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8x8xf32>, %e: tensor<64xf32>):
    %0 = "msc.add"(%a, %x) {place = [-2]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("in_place")
    %1 = "msc.transpose"(%b) {perm = [1, 0], place = [0]} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("reads_other_elements")
    %2 = "msc.add"(%c, %x) {place = [256]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("is_read_later")
    %3 = "msc.reshape"(%c) {place = [-4], shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %4 = "msc.exp"(%3) {place = [512]} : (tensor<64xf32>) -> tensor<64xf32>
    %5 = "msc.gemm"(%x, %d) {place = [768]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("product")
    %6 = "msc.reshape"(%e) {place = [-6], shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    %7 = "msc.exp"(%6) {place = [-6]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "msc.reshape"(%7) {place = [-6], shape = [64]} : (tensor<8x8xf32>) -> tensor<64xf32> loc("seen_otherwise")
    "msc.return"(%4, %0, %1, %2, %5, %8) : (tensor<64xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {results = ["y", "a", "b", "c", "d", "e"],
      scratch = 1024 : i64,
      sym_name = "train",
      ties = [-1, 1, 2, 3, 4, 5]} : () -> ()
}
