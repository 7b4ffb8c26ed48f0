// RUN: msc opt --passes=host %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xi32>, %t: tensor<64x8xf32>):
    %0 = "msc.gather"(%t, %x) : (tensor<64x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xi32>, %t: tensor<64x8xf32>):
    %0 = "msc.gather"(%t, %x) : (tensor<64x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
