// RUN: msc opt --passes=autodiff --verify-diagnostics %s
// expected-warning @+2 {{parameter 'u' does not influence the loss; it stays as it is}}
module {
  "msc.func"() ({
  ^bb0(%w: tensor<f32>, %u: tensor<f32>):
    %0 = "msc.exp"(%w) : (tensor<f32>) -> tensor<f32>
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "w", msc.role = "parameter"}, {msc.name = "u", msc.role = "parameter"}]} : () -> ()
}
