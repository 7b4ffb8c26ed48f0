// RUN: msc opt --set device_num=2 --set parallel_mode=data_parallel --passes=annotations --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    // expected-warning @below {{relu: mp_comm_recompute says nothing of an op that is not marked recompute}}
    %0 = "msc.relu"(%x) {mp_comm_recompute = true} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("a")
    // expected-warning @below {{relu: parallel_optimizer_comm_recompute says nothing of an op that is not marked recompute, without zero 3}}
    %1 = "msc.relu"(%0) {parallel_optimizer_comm_recompute = false} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("b")
    %2 = "msc.relu"(%1) {mp_comm_recompute = true, recompute = true} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("c")
    // expected-error @below {{relu: annotation pipeline_stage = -1 : i64 must be the number of a stage, from 0 on}}
    %3 = "msc.relu"(%2) {pipeline_stage = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("d")
    "msc.return"(%3) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
