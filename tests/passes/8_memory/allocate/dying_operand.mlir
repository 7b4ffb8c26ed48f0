// RUN: msc opt --passes=allocate %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>):
    %0 = "msc.exp"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %1 = "msc.gemm"(%0, %x) {transpose_b = true} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x64xf32>
    %2 = "msc.log"(%0) : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %3 = "msc.reshape"(%2) {shape = [2048]} : (tensor<64x32xf32>) -> tensor<2048xf32>
    "msc.return"(%1, %3) : (tensor<64x64xf32>, tensor<2048xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>):
    %0 = "msc.exp"(%x) {place = [16384]} : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %1 = "msc.gemm"(%0, %x) {place = [0], transpose_b = true} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x64xf32>
    %2 = "msc.log"(%0) {place = [16384]} : (tensor<64x32xf32>) -> tensor<64x32xf32>
    %3 = "msc.reshape"(%2) {place = [16384], shape = [2048]} : (tensor<64x32xf32>) -> tensor<2048xf32>
    "msc.return"(%1, %3) : (tensor<64x64xf32>, tensor<2048xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      scratch = 24576 : i64,
      sym_name = "forward"} : () -> ()
}
