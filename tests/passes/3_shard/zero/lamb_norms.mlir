// RUN: msc opt --set device_num=4 --set parallel_mode=data_parallel --set enable_parallel_optimizer=true --set 'parallel_optimizer_config={"parallel_optimizer_threshold":0}' --check-numerics --from=zero --until=redistribute %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %optimizer.step: tensor<f32, #msc.layout<"[]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %w.v: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b.m: tensor<6xf32, #msc.layout<"[{}]">>, %b.v: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default", in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default", in_layout = ["[{d},{}]", "[{}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default", in_layout = ["[{d},{}]", "[{d}]"]} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", in_layout = ["[{d},{}]", "[{d}]", "[]"], letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "bias_add", in_layout = ["[{d},{}]"], letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("bias_add.grad")
    %6 = "msc.matmul"(%x, %4) {forward = "dense", in_layout = ["[{d},{}]", "[{d},{}]"], letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %7 = "msc.constant"() {by = "search", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("optimizer.step")
    %8 = "msc.add"(%optimizer.step, %7) {by = "search", in_layout = ["[]", "[]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("optimizer.step")
    %9:3 = "msc.lamb_moments"(%w, %w.m, %w.v, %6, %8) {in_layout = ["[{},{}]", "[{},{}]", "[{},{}]", "[{},{}]", "[]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) loc("w.update")
    %10 = "msc.mul"(%w, %w) {by = "search", in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %11 = "msc.reduce_sum"(%10) {by = "search", dims = [0, 1], in_layout = ["[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %12 = "msc.sqrt"(%11) {by = "search", in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %13 = "msc.mul"(%9#0, %9#0) {by = "search", in_layout = ["[{},{}]", "[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %14 = "msc.reduce_sum"(%13) {by = "search", dims = [0, 1], in_layout = ["[{},{}]"]} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %15 = "msc.sqrt"(%14) {by = "search", in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %16 = "msc.min"(%12, %15) {by = "search", in_layout = ["[]", "[]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %17 = "msc.div"(%12, %15) {by = "search", in_layout = ["[]", "[]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %18 = "msc.constant"() {by = "search", value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %19 = "msc.compare"(%16, %18) {by = "search", in_layout = ["[]", "[]"], predicate = "gt"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">> loc("w.update")
    %20 = "msc.select"(%19, %17, %7) {by = "search", in_layout = ["[]", "[]", "[]"]} : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %21 = "msc.lamb_apply"(%w, %9#0, %20) {in_layout = ["[{},{}]", "[{},{}]", "[]"], lr = 5.0e-02 : f64} : (tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">> loc("w.update")
    %22:3 = "msc.lamb_moments"(%b, %b.m, %b.v, %5, %8) {in_layout = ["[{}]", "[{}]", "[{}]", "[{}]", "[]"]} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}] partial={d}">>, tensor<f32, #msc.layout<"[]">>) -> (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) loc("b.update")
    %23 = "msc.mul"(%b, %b) {by = "search", in_layout = ["[{}]", "[{}]"]} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.update")
    %24 = "msc.reduce_sum"(%23) {by = "search", dims = [0], in_layout = ["[{}]"]} : (tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %25 = "msc.sqrt"(%24) {by = "search", in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %26 = "msc.mul"(%22#0, %22#0) {by = "search", in_layout = ["[{}]", "[{}]"]} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.update")
    %27 = "msc.reduce_sum"(%26) {by = "search", dims = [0], in_layout = ["[{}]"]} : (tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %28 = "msc.sqrt"(%27) {by = "search", in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %29 = "msc.min"(%25, %28) {by = "search", in_layout = ["[]", "[]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %30 = "msc.div"(%25, %28) {by = "search", in_layout = ["[]", "[]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %31 = "msc.compare"(%29, %18) {by = "search", in_layout = ["[]", "[]"], predicate = "gt"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">> loc("b.update")
    %32 = "msc.select"(%31, %30, %7) {by = "search", in_layout = ["[]", "[]", "[]"]} : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %33 = "msc.lamb_apply"(%b, %22#0, %32) {in_layout = ["[{}]", "[{}]", "[]"], lr = 5.0e-02 : f64} : (tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<6xf32, #msc.layout<"[{}]">> loc("b.update")
    "msc.return"(%2, %21, %33, %8, %9#1, %9#2, %22#1, %22#2) {in_layout = ["[]", "[{},{}]", "[{}]", "[]", "[{},{}]", "[{},{}]", "[{}]", "[{}]"]} : (tensor<f32, #msc.layout<"[] partial={d}">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "optimizer.step", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.v", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      results = ["loss", "w", "b", "optimizer.step", "w.m", "w.v", "b.m", "b.v"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5, 6, 7, 8]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>, %optimizer.step: tensor<f32, #msc.layout<"[]">>, %w.m: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %w.v: tensor<4x6xf32, #msc.layout<"[{d},{}]">>, %b.m: tensor<6xf32, #msc.layout<"[{d}]">>, %b.v: tensor<6xf32, #msc.layout<"[{d}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %3 = "msc.constant"() {by = "default", value = dense<4.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %4 = "msc.softmax_cross_entropy_grad"(%1, %y, %3) {forward = "loss", letters = "Ac"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("loss.grad")
    %5 = "msc.reduce_sum"(%4) {dims = [0], forward = "bias_add", letters = "AB"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<6xf32, #msc.layout<"[{}] partial={d}">> loc("bias_add.grad")
    %6 = "msc.matmul"(%x, %4) {forward = "dense", letters = "mkn", transpose_a = true} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<8x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">> loc("dense.grad")
    %7 = "msc.constant"() {by = "search", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("optimizer.step")
    %8 = "msc.add"(%optimizer.step, %7) {by = "search"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("optimizer.step")
    %9 = "msc.shard"(%w) : (tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %10 = "msc.reduce_scatter"(%6) : (tensor<4x6xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %11:3 = "msc.lamb_moments"(%9, %w.m, %w.v, %10, %8) : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) loc("w.update")
    %12 = "msc.mul"(%9, %9) {by = "search"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %13 = "msc.reduce_sum"(%12) {by = "search", dims = [0, 1]} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("w.update")
    %14 = "msc.all_reduce"(%13) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %15 = "msc.sqrt"(%14) {by = "search"} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %16 = "msc.mul"(%11#0, %11#0) {by = "search"} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %17 = "msc.reduce_sum"(%16) {by = "search", dims = [0, 1]} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("w.update")
    %18 = "msc.all_reduce"(%17) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %19 = "msc.sqrt"(%18) {by = "search"} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %20 = "msc.min"(%15, %19) {by = "search"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %21 = "msc.div"(%15, %19) {by = "search"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %22 = "msc.constant"() {by = "search", value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %23 = "msc.compare"(%20, %22) {by = "search", predicate = "gt"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">> loc("w.update")
    %24 = "msc.select"(%23, %21, %7) {by = "search"} : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("w.update")
    %25 = "msc.lamb_apply"(%9, %11#0, %24) {lr = 5.0e-02 : f64} : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<4x6xf32, #msc.layout<"[{d},{}]">> loc("w.update")
    %26 = "msc.shard"(%b) : (tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<6xf32, #msc.layout<"[{d}]">> loc("b.update")
    %27 = "msc.reduce_scatter"(%5) : (tensor<6xf32, #msc.layout<"[{}] partial={d}">>) -> tensor<6xf32, #msc.layout<"[{d}]">> loc("b.update")
    %28:3 = "msc.lamb_moments"(%26, %b.m, %b.v, %27, %8) : (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) loc("b.update")
    %29 = "msc.mul"(%26, %26) {by = "search"} : (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) -> tensor<6xf32, #msc.layout<"[{d}]">> loc("b.update")
    %30 = "msc.reduce_sum"(%29) {by = "search", dims = [0]} : (tensor<6xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("b.update")
    %31 = "msc.all_reduce"(%30) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %32 = "msc.sqrt"(%31) {by = "search"} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %33 = "msc.mul"(%28#0, %28#0) {by = "search"} : (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) -> tensor<6xf32, #msc.layout<"[{d}]">> loc("b.update")
    %34 = "msc.reduce_sum"(%33) {by = "search", dims = [0]} : (tensor<6xf32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("b.update")
    %35 = "msc.all_reduce"(%34) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %36 = "msc.sqrt"(%35) {by = "search"} : (tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %37 = "msc.min"(%32, %36) {by = "search"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %38 = "msc.div"(%32, %36) {by = "search"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %39 = "msc.compare"(%37, %22) {by = "search", predicate = "gt"} : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<i1, #msc.layout<"[]">> loc("b.update")
    %40 = "msc.select"(%39, %38, %7) {by = "search"} : (tensor<i1, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">> loc("b.update")
    %41 = "msc.lamb_apply"(%26, %28#0, %40) {lr = 5.0e-02 : f64} : (tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<6xf32, #msc.layout<"[{d}]">> loc("b.update")
    %42 = "msc.all_reduce"(%2) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    %43 = "msc.all_gather"(%25) : (tensor<4x6xf32, #msc.layout<"[{d},{}]">>) -> tensor<4x6xf32, #msc.layout<"[{},{}]">>
    %44 = "msc.all_gather"(%41) : (tensor<6xf32, #msc.layout<"[{d}]">>) -> tensor<6xf32, #msc.layout<"[{}]">>
    "msc.return"(%42, %43, %44, %8, %11#1, %11#2, %28#1, %28#2) {in_layout = ["[]", "[{},{}]", "[{}]", "[]", "[{d},{}]", "[{d},{}]", "[{d}]", "[{d}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>, tensor<f32, #msc.layout<"[]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{d}]">>, tensor<6xf32, #msc.layout<"[{d}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{d},{}]: dimension 0 over 4 ranks, 24 of 96 bytes"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "update and state in [{d}]: dimension 0 over 4 ranks, 8 of 24 bytes, parts are not equal"},
                   {msc.init = "zeros", msc.name = "optimizer.step", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.m", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "w.v", msc.owner = "w", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.m", msc.owner = "b", msc.role = "state"},
                   {msc.init = "zeros", msc.name = "b.v", msc.owner = "b", msc.role = "state"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss", "w", "b", "optimizer.step", "w.m", "w.v", "b.m", "b.v"],
      sym_name = "train",
      ties = [-1, 2, 3, 4, 5, 6, 7, 8]} : () -> ()
  "msc.func"() ({
  ^bb0(%x: tensor<8x4xf32, #msc.layout<"[{d},{}]">>, %y: tensor<8xi32, #msc.layout<"[{d}]">>, %w: tensor<4x6xf32, #msc.layout<"[{},{}]">>, %b: tensor<6xf32, #msc.layout<"[{}]">>):
    %0 = "msc.matmul"(%x, %w) {by = "default"} : (tensor<8x4xf32, #msc.layout<"[{d},{}]">>, tensor<4x6xf32, #msc.layout<"[{},{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("dense")
    %1 = "msc.add"(%0, %b) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<6xf32, #msc.layout<"[{}]">>) -> tensor<8x6xf32, #msc.layout<"[{d},{}]">> loc("bias_add")
    %2 = "msc.softmax_cross_entropy"(%1, %y) {by = "default"} : (tensor<8x6xf32, #msc.layout<"[{d},{}]">>, tensor<8xi32, #msc.layout<"[{d}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">> loc("loss")
    %3 = "msc.all_reduce"(%2) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%3) {in_layout = ["[]"]} : (tensor<f32, #msc.layout<"[]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.zero = "update and state in [{d},{}]: dimension 0 over 4 ranks, 24 of 96 bytes"},
                   {msc.name = "b", msc.role = "parameter", msc.zero = "update and state in [{d}]: dimension 0 over 4 ranks, 8 of 24 bytes, parts are not equal"}],
      loss = 0 : i64,
      partitioned = true,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
