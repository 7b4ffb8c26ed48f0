// RUN: msc opt --passes=allocate %s
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32> loc("summed in its place")
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [64], from = ["[{}] partial={dp}"], shape = [64], to = ["[{}]"], verb = "all_reduce"} : (tensor<64xf32>) -> tensor<64xf32>
    %2 = "msc.log"(%x) : (tensor<64xf32>) -> tensor<64xf32> loc("read meanwhile: not")
    %3 = "msc.comm"(%2) {beside = 1 : i64, dims = [64], from = ["[{}] partial={dp}"], shape = [64], to = ["[{}]"], verb = "all_reduce"} : (tensor<64xf32>) -> tensor<64xf32>
    %4 = "msc.sin"(%2) : (tensor<64xf32>) -> tensor<64xf32> loc("reads beside the sum")
    "msc.return"(%1, %3, %4) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32> loc("summed in its place")
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [64], from = ["[{}] partial={dp}"], place = [0], shape = [64], to = ["[{}]"], verb = "all_reduce"} : (tensor<64xf32>) -> tensor<64xf32>
    %2 = "msc.log"(%x) {place = [256]} : (tensor<64xf32>) -> tensor<64xf32> loc("read meanwhile: not")
    %3 = "msc.comm"(%2) {beside = 1 : i64, dims = [64], from = ["[{}] partial={dp}"], place = [512], shape = [64], to = ["[{}]"], verb = "all_reduce"} : (tensor<64xf32>) -> tensor<64xf32>
    %4 = "msc.sin"(%2) {place = [768]} : (tensor<64xf32>) -> tensor<64xf32> loc("reads beside the sum")
    "msc.return"(%1, %3, %4) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      scratch = 1024 : i64,
      sym_name = "forward"} : () -> ()
}
