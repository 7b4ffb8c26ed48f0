// RUN: msc opt --passes=fold,dce --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>, %h: tensor<8xbf16>, %n: tensor<8xi32>):
    %0 = "msc.neg"(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "msc.neg"(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "msc.neg"(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = "msc.cast"(%h) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %4 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %5 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %6 = "msc.cast"(%5) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    %7 = "msc.cast"(%n) {dtype = "i64"} : (tensor<8xi32>) -> tensor<8xi64>
    %8 = "msc.cast"(%7) {dtype = "i32"} : (tensor<8xi64>) -> tensor<8xi32>
    "msc.return"(%1, %2, %4, %6, %8) : (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<8xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8xf32>, %h: tensor<8xbf16>, %n: tensor<8xi32>):
    %0 = "msc.neg"(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "msc.cast"(%x) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %2 = "msc.cast"(%1) {dtype = "f32"} : (tensor<8xbf16>) -> tensor<8xf32>
    "msc.return"(%x, %0, %h, %2, %n) : (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>, tensor<8xi32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
