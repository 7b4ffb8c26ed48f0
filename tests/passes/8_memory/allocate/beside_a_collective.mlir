// RUN: msc opt --passes=allocate %s
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32> loc("read by the collective until the kernel has run")
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [128], from = ["[{dp}]"], shape = [128], to = ["[{}]"], verb = "all_gather"} : (tensor<64xf32>) -> tensor<128xf32>
    %2 = "msc.fused"(%x) ({
    ^bb0(%3: tensor<64xf32>):
      %4 = "msc.log"(%3) : (tensor<64xf32>) -> tensor<64xf32>
      %5 = "msc.cos"(%4) : (tensor<64xf32>) -> tensor<64xf32>
      "msc.yield"(%5) : (tensor<64xf32>) -> ()
    }) : (tensor<64xf32>) -> tensor<64xf32>
    %6 = "msc.sin"(%x) : (tensor<64xf32>) -> tensor<64xf32> loc("in its place")
    "msc.return"(%1, %2, %6) : (tensor<128xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [512]} : (tensor<64xf32>) -> tensor<64xf32> loc("read by the collective until the kernel has run")
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [128], from = ["[{dp}]"], place = [0], shape = [128], to = ["[{}]"], verb = "all_gather"} : (tensor<64xf32>) -> tensor<128xf32>
    %2 = "msc.fused"(%x) ({
    ^bb0(%3: tensor<64xf32>):
      %4 = "msc.log"(%3) : (tensor<64xf32>) -> tensor<64xf32>
      %5 = "msc.cos"(%4) : (tensor<64xf32>) -> tensor<64xf32>
      "msc.yield"(%5) : (tensor<64xf32>) -> ()
    }) {place = [768]} : (tensor<64xf32>) -> tensor<64xf32>
    %6 = "msc.sin"(%x) {place = [512]} : (tensor<64xf32>) -> tensor<64xf32> loc("in its place")
    "msc.return"(%1, %2, %6) : (tensor<128xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      scratch = 1024 : i64,
      sym_name = "forward"} : () -> ()
}
