// RUN: msc opt --passes=annotations %s
// The batch is that of the label: x, of another size, has none.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<5xf32>, %z: tensor<4x5xf32>, %y: tensor<4xi32>):
    %0 = "msc.add"(%z, %x) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "z", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<5xf32>, %z: tensor<4x5xf32>, %y: tensor<4xi32>):
    %0 = "msc.add"(%z, %x) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = -1 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "z", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"}],
      sym_name = "forward"} : () -> ()
}
