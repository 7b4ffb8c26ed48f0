// RUN: msc opt --set device_num=4 --set parallel_mode=data_parallel --passes=strategies %s
// An op that is no op's gradient is cut along the batch of the gradient that it reads.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6x8xf32>, %w: tensor<6x1xf32>):
    %0 = "msc.mul"(%x, %w) : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32> loc("mul1")
    %1 = "msc.mul"(%w, %0) {forward = "mul1", letters = "AB"} : (tensor<6x1xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %2 = "msc.reshape"(%1) {shape = [6, 1, 8]} : (tensor<6x8xf32>) -> tensor<6x1x8xf32>
    "msc.return"(%0, %2) : (tensor<6x8xf32>, tensor<6x1x8xf32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 1 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<6x8xf32>, %w: tensor<6x1xf32>):
    %0 = "msc.mul"(%x, %w) {by = "default", sharding = {A = "{}", B = "{d}"}} : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32> loc("mul1")
    %1 = "msc.mul"(%w, %0) {forward = "mul1", letters = "AB"} : (tensor<6x1xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %2 = "msc.reshape"(%1) {by = "default", shape = [6, 1, 8], sharding = {A = "{}", B = "{d}"}} : (tensor<6x8xf32>) -> tensor<6x1x8xf32>
    "msc.return"(%0, %2) : (tensor<6x8xf32>, tensor<6x1x8xf32>) -> ()
  }) {arg_attrs = [{msc.batch_dim = 1 : i64, msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
