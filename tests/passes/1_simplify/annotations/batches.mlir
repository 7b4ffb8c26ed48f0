// RUN: msc opt --passes=annotations --verify-diagnostics %s
// A batch is cut out of the files of all inputs at once: it has one size, wherever it lies.
module {
  // expected-error @below {{input 'mask': its batch, dimension 0, has 4 samples, but that of 'x', dimension 0, has 8; say batch_dim = -1 of an input that has no batch}}
  // expected-error @below {{input 'late': its batch, dimension 1, has 3 samples, but that of 'x', dimension 0, has 8; say batch_dim = -1 of an input that has no batch}}
  // expected-error @below {{input 'third': batch_dim must be one of its 2 dimensions, counted from 0, or -1: it has no batch}}
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %mask: tensor<4x8xf32>, %late: tensor<8x3xf32>, %turned: tensor<3x8xf32>, %third: tensor<8x4xf32>, %table: tensor<5x4xf32>, %scalar: tensor<f32>):
    %0 = "msc.mul"(%x, %scalar) : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "mask", msc.role = "mask"},
                   {msc.batch_dim = 1 : i64, msc.name = "late", msc.role = "data"},
                   {msc.batch_dim = 1 : i64, msc.name = "turned", msc.role = "label"},
                   {msc.batch_dim = 2 : i64, msc.name = "third", msc.role = "data"},
                   {msc.batch_dim = -1 : i64, msc.name = "table", msc.role = "data"},
                   {msc.name = "scalar", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
