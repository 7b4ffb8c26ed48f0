// RUN: msc opt --passes=strategies --set device_num=2 --set parallel_mode=data_parallel %s
// A recurrent network's first state is stretched from a constant, and its product with a weight has no sample: both are
// cut along the batch of the sum that reads them. What another reader has whole, as %4 is summed up, and what has rows
// of a parameter in the place of samples, stay whole.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>, %p: tensor<4x3xf32>):
    %0 = "msc.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.broadcast_to"(%0) {shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.matmul"(%1, %w) : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.add"(%2, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.broadcast_to"(%0) {shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %5 = "msc.mul"(%4, %3) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %6 = "msc.reduce_sum"(%4) {dims = [0]} : (tensor<4x3xf32>) -> tensor<3xf32>
    %7 = "msc.neg"(%p) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %8 = "msc.add"(%5, %7) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %9 = "msc.add"(%8, %6) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    "msc.return"(%9) : (tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>, %p: tensor<4x3xf32>):
    %0 = "msc.constant"() {by = "default", sharding = {}, value = dense<5.0e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.broadcast_to"(%0) {by = "default", shape = [4, 3], sharding = {A = "{d}", B = "{}"}} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.matmul"(%1, %w) {by = "default", sharding = {k = "{}", m = "{d}", n = "{}"}} : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
    %3 = "msc.add"(%2, %x) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "msc.broadcast_to"(%0) {by = "default", shape = [4, 3], sharding = {A = "{}", B = "{}"}} : (tensor<f32>) -> tensor<4x3xf32>
    %5 = "msc.mul"(%4, %3) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %6 = "msc.reduce_sum"(%4) {by = "default", dims = [0], sharding = {A = "{}", B = "{}"}} : (tensor<4x3xf32>) -> tensor<3xf32>
    %7 = "msc.neg"(%p) {by = "default", sharding = {A = "{}", B = "{}"}} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %8 = "msc.add"(%5, %7) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %9 = "msc.add"(%8, %6) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    "msc.return"(%9) : (tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "p", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
