// RUN: msc opt --passes=autodiff --set micro_size=1 --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%w: tensor<f32>):
    %0 = "msc.exp"(%w) : (tensor<f32>) -> tensor<f32>
    "msc.return"(%0) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, micro_size = 4 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
