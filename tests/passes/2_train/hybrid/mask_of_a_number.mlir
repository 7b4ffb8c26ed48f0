// RUN: msc opt --set device_num=4 --set parallel_mode=hybrid_parallel --passes=hybrid --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x6xf32>):
    %0 = "msc.reduce_mean"(%x) {dims = [0, 1]} : (tensor<2x6xf32>) -> tensor<f32>
    // expected-error @below {{dropout of a single number that differs between ranks is not supported yet; give it shape [1]}}
    %1 = "msc.dropout"(%0) {rate = 0.5 : f64} : (tensor<f32>) -> tensor<f32>
    %2 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<f32>) -> tensor<f32>
    %3 = "msc.dropout"(%2) {rate = 0.5 : f64} : (tensor<f32>) -> tensor<f32>
    %4 = "msc.add"(%1, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], sym_name = "forward"} : () -> ()
}
