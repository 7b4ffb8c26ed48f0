// RUN: msc opt --passes=micro --set micro_size=4611686018427387905 --set micro_batch_interleaved=4 --verify-diagnostics %s
module {
  // expected-error @+1 {{input 'x': its batch of 8 samples in dimension 0 does not divide among the 9223372036854775807 micro-batches of micro_size and micro_batch_interleaved}}
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %w: tensor<3xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x3xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
