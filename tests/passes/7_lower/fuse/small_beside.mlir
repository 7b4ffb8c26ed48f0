// RUN: msc opt --passes=fuse --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xbf16>, %a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<16xf32>, %da: tensor<8xf32>, %db: tensor<8xf32>):
    %0 = "msc.cast"(%a) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
    %1 = "msc.mul"(%x, %0) : (tensor<2x8xbf16>, tensor<8xbf16>) -> tensor<2x8xbf16>
    %2 = "msc.cast"(%c) {dtype = "bf16"} : (tensor<16xf32>) -> tensor<16xbf16>
    %3 = "msc.sgd"(%a, %da) {lr = 1.0e-01 : f32} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = "msc.sgd"(%b, %db) {lr = 1.0e-01 : f32} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%1, %2, %3, %4) : (tensor<2x8xbf16>, tensor<16xbf16>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "a", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "parameter"},
                   {msc.name = "da", msc.role = "data"},
                   {msc.name = "db", msc.role = "data"}],
      sym_name = "train",
      ties = [-1, -1, 1, 2]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x8xbf16>, %a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<16xf32>, %da: tensor<8xf32>, %db: tensor<8xf32>):
    %0 = "msc.fused"(%a, %x) ({
    ^bb0(%1: tensor<8xf32>, %2: tensor<2x8xbf16>):
      %3 = "msc.cast"(%1) {dtype = "bf16"} : (tensor<8xf32>) -> tensor<8xbf16>
      %4 = "msc.mul"(%2, %3) : (tensor<2x8xbf16>, tensor<8xbf16>) -> tensor<2x8xbf16>
      "msc.yield"(%4) : (tensor<2x8xbf16>) -> ()
    }) : (tensor<8xf32>, tensor<2x8xbf16>) -> tensor<2x8xbf16>
    %5 = "msc.cast"(%c) {dtype = "bf16"} : (tensor<16xf32>) -> tensor<16xbf16>
    %6:2 = "msc.fused"(%a, %da, %b, %db) ({
    ^bb0(%7: tensor<8xf32>, %8: tensor<8xf32>, %9: tensor<8xf32>, %10: tensor<8xf32>):
      %11 = "msc.sgd"(%7, %8) {lr = 1.0e-01 : f32} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %12 = "msc.sgd"(%9, %10) {lr = 1.0e-01 : f32} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      "msc.yield"(%11, %12) : (tensor<8xf32>, tensor<8xf32>) -> ()
    }) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    "msc.return"(%0, %5, %6#0, %6#1) : (tensor<2x8xbf16>, tensor<16xbf16>, tensor<8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "a", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "parameter"},
                   {msc.name = "da", msc.role = "data"},
                   {msc.name = "db", msc.role = "data"}],
      sym_name = "train",
      ties = [-1, -1, 1, 2]} : () -> ()
}
