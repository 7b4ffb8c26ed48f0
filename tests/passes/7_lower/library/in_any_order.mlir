// RUN: msc opt --passes=library --set deterministic=false --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32> loc("dense")
    %1 = "msc.add"(%0, %b) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %2 = "msc.relu"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    "msc.return"(%2) : (tensor<8x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>):
    %0 = "msc.gemm"(%x, %w, %b) {any_order = true, generated = true, relu = true} : (tensor<8x4xf32>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<8x6xf32> loc("dense")
    "msc.return"(%0) : (tensor<8x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
