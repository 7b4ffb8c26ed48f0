// RUN: msc opt --passes=annotations --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.matmul"(%x, %v) {comm_fusion = 2 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "msc.matmul"(%0, %w) {comm_fusion = 2 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "msc.all_reduce"(%1) {axes = "{d}", fusion = 3 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%2) : (tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "v", msc.role = "parameter"},
                   {msc.comm_fusion = 1 : i64, msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.matmul"(%x, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "msc.all_reduce"(%1) {axes = "{d}", comm_fusion = 3 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%2) : (tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.comm_fusion = 2 : i64, msc.name = "v", msc.role = "parameter"},
                   {msc.comm_fusion = 1 : i64, msc.name = "w", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
