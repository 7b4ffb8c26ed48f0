// RUN: msc opt --passes=fuse --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>):
    %0 = "msc.cast"(%a) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %1 = "msc.cast"(%b) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %2 = "msc.concat"(%0, %1) {dim = 0 : i64} : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
    %3 = "msc.cast"(%c) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %4 = "msc.cast"(%d) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %5 = "msc.concat"(%3, %4) {dim = 0 : i64} : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
    "msc.return"(%2, %5) : (tensor<16xbf16>, tensor<16xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "parameter"},
                   {msc.name = "d", msc.role = "parameter"}],
      sym_name = "train",
      ties = [-1, -1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>):
    %0:2 = "msc.fused"(%a, %b, %c, %d) ({
    ^bb0(%1: tensor<8xf32>, %2: tensor<8xf32>, %3: tensor<8xf32>, %4: tensor<8xf32>):
      %5 = "msc.cast"(%1) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
      %6 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
      %7 = "msc.concat"(%5, %6) {dim = 0 : i64} : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
      %8 = "msc.cast"(%3) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
      %9 = "msc.cast"(%4) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
      %10 = "msc.concat"(%8, %9) {dim = 0 : i64} : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
      "msc.yield"(%7, %10) : (tensor<16xbf16>, tensor<16xbf16>) -> ()
    }) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<16xbf16>, tensor<16xbf16>)
    "msc.return"(%0#0, %0#1) : (tensor<16xbf16>, tensor<16xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "a", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "parameter"},
                   {msc.name = "d", msc.role = "parameter"}],
      sym_name = "train",
      ties = [-1, -1]} : () -> ()
}
