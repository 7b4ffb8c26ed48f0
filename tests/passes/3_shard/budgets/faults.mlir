// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --set 'mesh={"dp":2,"tp":2}' --until=budgets --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32>, %y: tensor<8xi32>, %w: tensor<4x8xf32>, %v: tensor<8x6xf32>):
    // expected-error @below {{matmul: max_bytes is 63, and each rank receives 64 bytes for it; most, 64, to bring up.grad from [{},{tp}] partial={dp} to [{},{tp}] for w.update}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[2, 1], [1, 2]], max_bytes = 63 : i64} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("up")
    // expected-error @below {{matmul: max_bytes is 191, and each rank receives 288 bytes for it; most, 192, to bring down from [{dp},{}] partial={tp} to [{},{}] for whole}}
    %1 = "msc.matmul"(%0, %v) {in_strategy = [[2, 2], [2, 1]], max_bytes = 191 : i64} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32> loc("down")
    // expected-error @below {{relu: deny_replicate, and every rank holds all 192 bytes of its result 0; a strategy of its own would cut it}}
    %r = "msc.relu"(%1) {in_strategy = [[1, 1]], deny_replicate = true} : (tensor<8x6xf32>) -> tensor<8x6xf32> loc("whole")
    %2 = "msc.softmax_cross_entropy"(%r, %y) {in_strategy = [[2, 1], [2]]} : (tensor<8x6xf32>, tensor<8xi32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.02", msc.name = "w", msc.role = "parameter"},
                   {msc.init = "normal:0.02", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
