// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.cast"(%x) {dtype = "f32"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "msc.reshape"(%0) {shape = [4, -1]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "msc.flatten"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "msc.transpose"(%2) {perm = [0, 1]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "msc.broadcast_to"(%3) {shape = [4, 8]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = "msc.slice"(%4) {limit = [4, 8], start = [0, 0]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "msc.pad"(%5) {high = [0, 0], low = [0, 0]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = "msc.concat"(%6) {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = "msc.split"(%7) {dim = 0 : i64, sizes = [4]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = "msc.reduce_sum"(%8) {dims = []} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = "msc.reduce_max"(%9) {dims = []} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %11 = "msc.exp"(%10) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%11) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
