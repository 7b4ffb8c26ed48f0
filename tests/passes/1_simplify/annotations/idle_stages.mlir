// RUN: msc opt --set device_num=2 --set parallel_mode=data_parallel --passes=annotations --verify-diagnostics %s
// Stages that the configuration does not have: told once, at the first op; stage 0 is the only one there is.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    %0 = "msc.relu"(%x) {pipeline_stage = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("a")
    // expected-warning @below {{relu: pipeline_stage = 1 has no effect with pipeline_stages = 1; ops that have one: 2}}
    %1 = "msc.relu"(%0) {pipeline_stage = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("b")
    %2 = "msc.relu"(%1) {pipeline_stage = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("c")
    "msc.return"(%2) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
