// RUN: msc opt --passes=cumulate %s
// What the host runs is left to it.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x1024xf32>):
    %0 = "msc.cumsum"(%x) {axis = 1 : i64, primitive_target = "CPU"} : (tensor<8x1024xf32>) -> tensor<8x1024xf32>
    "msc.return"(%0) : (tensor<8x1024xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x1024xf32>):
    %0 = "msc.cumsum"(%x) {axis = 1 : i64, primitive_target = "CPU"} : (tensor<8x1024xf32>) -> tensor<8x1024xf32>
    "msc.return"(%0) : (tensor<8x1024xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
