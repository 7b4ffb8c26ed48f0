// RUN: msc opt --passes=fuse --check-numerics %s
// A cast of a splat is a splat: it is stored for no kernel.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.cast"(%0) {dtype = "f16"} : (tensor<4x8xf32>) -> tensor<4x8xf16>
    %2 = "msc.dropout"(%1, %seed, %step) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    %3 = "msc.mul"(%x, %2) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %4 = "msc.dropout"(%1, %seed, %step) {rate = 5.0e-01 : f64, salt = 2 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    "msc.return"(%3, %4) : (tensor<4x8xf16>, tensor<4x8xf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf32>} : () -> tensor<4x8xf32>
    %1 = "msc.fused"(%seed, %step, %x) ({
    ^bb0(%2: tensor<i64>, %3: tensor<i64>, %4: tensor<4x8xf16>):
      %5 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf16>} : () -> tensor<4x8xf16>
      %6 = "msc.dropout"(%5, %2, %3) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
      %7 = "msc.mul"(%4, %6) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
      "msc.yield"(%7) : (tensor<4x8xf16>) -> ()
    }) : (tensor<i64>, tensor<i64>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %8 = "msc.fused"(%seed, %step) ({
    ^bb0(%9: tensor<i64>, %10: tensor<i64>):
      %11 = "msc.constant"() {value = dense<1.0e+00> : tensor<4x8xf16>} : () -> tensor<4x8xf16>
      %12 = "msc.dropout"(%11, %9, %10) {rate = 5.0e-01 : f64, salt = 2 : i64} : (tensor<4x8xf16>, tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
      "msc.yield"(%12) : (tensor<4x8xf16>) -> ()
    }) : (tensor<i64>, tensor<i64>) -> tensor<4x8xf16>
    "msc.return"(%1, %8) : (tensor<4x8xf16>, tensor<4x8xf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
