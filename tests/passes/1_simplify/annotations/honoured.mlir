// RUN: msc opt --passes=annotations --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xi32>, %w: tensor<8x4xf32>):
    %0 = "msc.gather"(%w, %x) {in_strategy = [[1, 2], [2, 1]], primitive_target = "Cpu"} : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
    %1 = "msc.exp"(%0) {comm_fusion = 0 : i64, cross_batch = false, pipeline_stage = 0 : i64, recompute = "layer"} : (tensor<4x6x4xf32>) -> tensor<4x6x4xf32>
    "msc.return"(%1) : (tensor<4x6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.parallel_optimizer = false, msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xi32>, %w: tensor<8x4xf32>):
    %0 = "msc.gather"(%w, %x) {in_strategy = [[1, 2], [2, 1]], primitive_target = "Cpu"} : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
    %1 = "msc.exp"(%0) {cross_batch = false, pipeline_stage = 0 : i64, recompute = "layer"} : (tensor<4x6x4xf32>) -> tensor<4x6x4xf32>
    "msc.return"(%1) : (tensor<4x6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.parallel_optimizer = false, msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
