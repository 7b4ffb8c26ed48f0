// RUN: msc opt --set compute_type=f16 --passes=precision --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x4xf64>, %b: tensor<4x4xbf16>, %c: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %a) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64> loc("in f64")
    %1 = "msc.matmul"(%b, %b) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16> loc("in bf16")
    %2 = "msc.matmul"(%c, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("in f16")
    %3 = "msc.cast"(%2) {dtype = "f64"} : (tensor<4x4xf32>) -> tensor<4x4xf64> loc("the model's own")
    %4 = "msc.add"(%0, %3) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    "msc.return"(%4, %1) : (tensor<4x4xf64>, tensor<4x4xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%a: tensor<4x4xf64>, %b: tensor<4x4xbf16>, %c: tensor<4x4xf32>):
    %0 = "msc.matmul"(%a, %a) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64> loc("in f64")
    %1 = "msc.matmul"(%b, %b) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16> loc("in bf16")
    %2 = "msc.cast"(%c) {dtype = "f16"} : (tensor<4x4xf32>) -> tensor<4x4xf16> loc("c")
    %3 = "msc.matmul"(%2, %2) : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16> loc("in f16")
    %4 = "msc.cast"(%3) {dtype = "f64"} : (tensor<4x4xf16>) -> tensor<4x4xf64> loc("the model's own")
    %5 = "msc.add"(%0, %4) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    "msc.return"(%5, %1) : (tensor<4x4xf64>, tensor<4x4xbf16>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
