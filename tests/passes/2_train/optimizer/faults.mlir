// RUN: msc opt --passes=autodiff,optimizer --verify-diagnostics %s
module {
  // expected-error @below {{output 1 is the trained parameter 'bias' itself: not supported yet}}
  "msc.func"() ({
  ^bb0(%x: tensor<f32>, %weight: tensor<f32>, %bias: tensor<f32>, %table: tensor<i32>):
    %0 = "msc.mul"(%x, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "msc.add"(%0, %bias) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%1, %bias) : (tensor<f32>, tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "weight", msc.role = "parameter"},
                   {msc.name = "bias", msc.role = "parameter"}, {msc.name = "table", msc.role = "parameter"}]} : () -> ()
}
