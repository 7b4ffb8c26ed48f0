// RUN: msc opt --passes=assign_stages --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel --split-input-file --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("first")
    // expected-error @below {{pipeline_stage: second is in stage 0, but takes what first makes in stage 1}}
    %1 = "msc.matmul"(%0, %w) {pipeline_stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("second")
    "msc.return"(%1) : (tensor<8x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>):
    // expected-error @below {{pipeline_stage 2 of first: there are stages 0..1}}
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 2 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("first")
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
// -----
module {
  // expected-error @+1 {{pipeline_stage: no op is in stage 1 of 2}}
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    "msc.return"(%0) : (tensor<8x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}]} : () -> ()
}
