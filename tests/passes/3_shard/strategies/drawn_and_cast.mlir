// RUN: msc opt --passes=strategies --set device_num=2 --set parallel_mode=data_parallel %s
// So are those that casts of compute_type bf16 make of them.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xbf16>, %w: tensor<3xbf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.broadcast_to"(%0) {shape = [4, 3]} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.dropout"(%1, %seed, %step) {rate = 5.0e-01 : f64, salt = 1 : i64} : (tensor<4x3xf32>, tensor<i64>, tensor<i64>) -> tensor<4x3xf32>
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %4 = "msc.mul"(%x, %3) : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %5 = "msc.mul"(%4, %w) : (tensor<4x3xbf16>, tensor<3xbf16>) -> tensor<4x3xbf16>
    "msc.return"(%5) : (tensor<4x3xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "seed", msc.role = "state"},
                   {msc.name = "step", msc.role = "state"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xbf16>, %w: tensor<3xbf16>, %seed: tensor<i64>, %step: tensor<i64>):
    %0 = "msc.constant"() {by = "default", sharding = {}, value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "msc.broadcast_to"(%0) {by = "default", shape = [4, 3], sharding = {A = "{d}", B = "{}"}} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "msc.dropout"(%1, %seed, %step) {by = "default", rate = 5.0e-01 : f64, salt = 1 : i64, sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xf32>, tensor<i64>, tensor<i64>) -> tensor<4x3xf32>
    %3 = "msc.cast"(%2) {dtype = "bf16"} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    %4 = "msc.mul"(%x, %3) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    %5 = "msc.mul"(%4, %w) {by = "default", sharding = {A = "{d}", B = "{}"}} : (tensor<4x3xbf16>, tensor<3xbf16>) -> tensor<4x3xbf16>
    "msc.return"(%5) : (tensor<4x3xbf16>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "seed", msc.role = "state"},
                   {msc.name = "step", msc.role = "state"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
