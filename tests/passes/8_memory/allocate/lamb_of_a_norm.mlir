// RUN: msc opt --passes=allocate --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%w3: tensor<24x2xf32>, %optimizer.step: tensor<f32>, %w3.m: tensor<24x2xf32>, %w3.v: tensor<24x2xf32>):
    %0 = "msc.fused"(%optimizer.step) ({
    ^bb0(%1: tensor<f32>):
      %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32> loc("random":1:0)
      %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "msc.yield"(%3) : (tensor<f32>) -> ()
    }) : (tensor<f32>) -> tensor<f32>
    %4:3 = "msc.fused"(%w3) ({
    ^bb0(%5: tensor<24x2xf32>):
      %6 = "msc.reduce_sum"(%5) {blocks = 1 : i64, dims = [1], keep_dims = true} : (tensor<24x2xf32>) -> tensor<24x1xf32>
      %7 = "msc.div"(%5, %6) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %8 = "msc.mul"(%7, %7) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %9 = "msc.reduce_sum"(%8) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf32>) -> tensor<f32>
      "msc.yield"(%6, %7, %9) : (tensor<24x1xf32>, tensor<24x2xf32>, tensor<f32>) -> () loc("random":1:0)
    }) : (tensor<24x2xf32>) -> (tensor<24x1xf32>, tensor<24x2xf32>, tensor<f32>)
    %10:4 = "msc.fused"(%4#1, %4#0, %w3, %w3.m, %w3.v, %0) ({
    ^bb0(%11: tensor<24x2xf32>, %12: tensor<24x1xf32>, %13: tensor<24x2xf32>, %14: tensor<24x2xf32>, %15: tensor<24x2xf32>, %16: tensor<f32>):
      %17 = "msc.add"(%11, %11) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %18 = "msc.div"(%17, %12) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %19 = "msc.mul"(%17, %11) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %20 = "msc.div"(%19, %12) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %21 = "msc.neg"(%20) : (tensor<24x2xf32>) -> tensor<24x2xf32>
      %22 = "msc.reduce_sum"(%21) {blocks = 1 : i64, dims = [1], keep_dims = true} : (tensor<24x2xf32>) -> tensor<24x1xf32>
      %23 = "msc.broadcast_to"(%22) {shape = [24, 2]} : (tensor<24x1xf32>) -> tensor<24x2xf32>
      %24 = "msc.add"(%18, %23) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %25:3 = "msc.lamb_moments"(%13, %14, %15, %24, %16) {eps = 9.765625e-04 : f64} : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>)
      %26 = "msc.cast"(%13) {dtype = "f64"} : (tensor<24x2xf32>) -> tensor<24x2xf64>
      %27 = "msc.mul"(%26, %26) : (tensor<24x2xf64>, tensor<24x2xf64>) -> tensor<24x2xf64>
      %28 = "msc.reduce_sum"(%27) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf64>) -> tensor<f64>
      %29 = "msc.cast"(%25#0) {dtype = "f64"} : (tensor<24x2xf32>) -> tensor<24x2xf64>
      %30 = "msc.mul"(%29, %29) : (tensor<24x2xf64>, tensor<24x2xf64>) -> tensor<24x2xf64>
      %31 = "msc.reduce_sum"(%30) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf64>) -> tensor<f64>
      %32 = "msc.sqrt"(%28) : (tensor<f64>) -> tensor<f64>
      %33 = "msc.sqrt"(%31) : (tensor<f64>) -> tensor<f64>
      %34 = "msc.min"(%32, %33) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %35 = "msc.div"(%32, %33) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %36 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64>
      %37 = "msc.compare"(%34, %36) {predicate = "gt"} : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %38 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
      %39 = "msc.select"(%37, %35, %38) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64>
      %40 = "msc.cast"(%39) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
      "msc.yield"(%25#0, %25#1, %25#2, %40) : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> ()
    }) : (tensor<24x2xf32>, tensor<24x1xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>)
    %41 = "msc.lamb_apply"(%w3, %10#0, %10#3) {lr = 6.25e-02 : f64} : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> tensor<24x2xf32>
    "msc.return"(%4#2, %41, %0, %10#1, %10#2) : (tensor<f32>, tensor<24x2xf32>, tensor<f32>, tensor<24x2xf32>, tensor<24x2xf32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "w3", msc.role = "parameter", msc.shape = [24, 2]},
                   {msc.init = "zeros", msc.layout = "[]", msc.name = "optimizer.step", msc.role = "state", msc.shape = []},
                   {msc.init = "zeros", msc.layout = "[{},{}]", msc.name = "w3.m", msc.owner = "w3", msc.role = "state", msc.shape = [24, 2]},
                   {msc.init = "zeros", msc.layout = "[{},{}]", msc.name = "w3.v", msc.owner = "w3", msc.role = "state", msc.shape = [24, 2]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]", "[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [24, 2], [], [24, 2], [24, 2]],
      results = ["loss", "w3", "optimizer.step", "w3.m", "w3.v"],
      sym_name = "train",
      ties = [-1, 0, 1, 2, 3]} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=1">} {
  "msc.func"() ({
  ^bb0(%w3: tensor<24x2xf32>, %optimizer.step: tensor<f32>, %w3.m: tensor<24x2xf32>, %w3.v: tensor<24x2xf32>):
    %0 = "msc.fused"(%optimizer.step) ({
    ^bb0(%1: tensor<f32>):
      %2 = "msc.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32> loc("random":1:0)
      %3 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "msc.yield"(%3) : (tensor<f32>) -> ()
    }) {place = [-2]} : (tensor<f32>) -> tensor<f32>
    %4:3 = "msc.fused"(%w3) ({
    ^bb0(%5: tensor<24x2xf32>):
      %6 = "msc.reduce_sum"(%5) {blocks = 1 : i64, dims = [1], keep_dims = true} : (tensor<24x2xf32>) -> tensor<24x1xf32>
      %7 = "msc.div"(%5, %6) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %8 = "msc.mul"(%7, %7) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %9 = "msc.reduce_sum"(%8) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf32>) -> tensor<f32>
      "msc.yield"(%6, %7, %9) : (tensor<24x1xf32>, tensor<24x2xf32>, tensor<f32>) -> () loc("random":1:0)
    }) {place = [192, 0, 320]} : (tensor<24x2xf32>) -> (tensor<24x1xf32>, tensor<24x2xf32>, tensor<f32>)
    %10:4 = "msc.fused"(%4#1, %4#0, %w3, %w3.m, %w3.v, %0) ({
    ^bb0(%11: tensor<24x2xf32>, %12: tensor<24x1xf32>, %13: tensor<24x2xf32>, %14: tensor<24x2xf32>, %15: tensor<24x2xf32>, %16: tensor<f32>):
      %17 = "msc.add"(%11, %11) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %18 = "msc.div"(%17, %12) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %19 = "msc.mul"(%17, %11) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %20 = "msc.div"(%19, %12) : (tensor<24x2xf32>, tensor<24x1xf32>) -> tensor<24x2xf32>
      %21 = "msc.neg"(%20) : (tensor<24x2xf32>) -> tensor<24x2xf32>
      %22 = "msc.reduce_sum"(%21) {blocks = 1 : i64, dims = [1], keep_dims = true} : (tensor<24x2xf32>) -> tensor<24x1xf32>
      %23 = "msc.broadcast_to"(%22) {shape = [24, 2]} : (tensor<24x1xf32>) -> tensor<24x2xf32>
      %24 = "msc.add"(%18, %23) : (tensor<24x2xf32>, tensor<24x2xf32>) -> tensor<24x2xf32>
      %25:3 = "msc.lamb_moments"(%13, %14, %15, %24, %16) {eps = 9.765625e-04 : f64} : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>)
      %26 = "msc.cast"(%13) {dtype = "f64"} : (tensor<24x2xf32>) -> tensor<24x2xf64>
      %27 = "msc.mul"(%26, %26) : (tensor<24x2xf64>, tensor<24x2xf64>) -> tensor<24x2xf64>
      %28 = "msc.reduce_sum"(%27) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf64>) -> tensor<f64>
      %29 = "msc.cast"(%25#0) {dtype = "f64"} : (tensor<24x2xf32>) -> tensor<24x2xf64>
      %30 = "msc.mul"(%29, %29) : (tensor<24x2xf64>, tensor<24x2xf64>) -> tensor<24x2xf64>
      %31 = "msc.reduce_sum"(%30) {blocks = 8 : i64, dims = [0, 1]} : (tensor<24x2xf64>) -> tensor<f64>
      %32 = "msc.sqrt"(%28) : (tensor<f64>) -> tensor<f64>
      %33 = "msc.sqrt"(%31) : (tensor<f64>) -> tensor<f64>
      %34 = "msc.min"(%32, %33) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %35 = "msc.div"(%32, %33) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %36 = "msc.constant"() {value = dense<0.0e+00> : tensor<f64>} : () -> tensor<f64>
      %37 = "msc.compare"(%34, %36) {predicate = "gt"} : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %38 = "msc.constant"() {value = dense<1.0e+00> : tensor<f64>} : () -> tensor<f64>
      %39 = "msc.select"(%37, %35, %38) : (tensor<i1>, tensor<f64>, tensor<f64>) -> tensor<f64>
      %40 = "msc.cast"(%39) {dtype = "f32"} : (tensor<f64>) -> tensor<f32>
      "msc.yield"(%25#0, %25#1, %25#2, %40) : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> ()
    }) {place = [0, -3, -4, 384]} : (tensor<24x2xf32>, tensor<24x1xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> (tensor<24x2xf32>, tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>)
    %41 = "msc.lamb_apply"(%w3, %10#0, %10#3) {lr = 6.25e-02 : f64, place = [-1]} : (tensor<24x2xf32>, tensor<24x2xf32>, tensor<f32>) -> tensor<24x2xf32>
    "msc.return"(%4#2, %41, %0, %10#1, %10#2) : (tensor<f32>, tensor<24x2xf32>, tensor<f32>, tensor<24x2xf32>, tensor<24x2xf32>) -> () loc("random":1:0)
  }) {arg_attrs = [{msc.layout = "[{},{}]", msc.name = "w3", msc.role = "parameter", msc.shape = [24, 2]},
                   {msc.init = "zeros", msc.layout = "[]", msc.name = "optimizer.step", msc.role = "state", msc.shape = []},
                   {msc.init = "zeros", msc.layout = "[{},{}]", msc.name = "w3.m", msc.owner = "w3", msc.role = "state", msc.shape = [24, 2]},
                   {msc.init = "zeros", msc.layout = "[{},{}]", msc.name = "w3.v", msc.owner = "w3", msc.role = "state", msc.shape = [24, 2]}],
      loss = 0 : i64,
      partitioned = true,
      result_layouts = ["[]", "[{},{}]", "[]", "[{},{}]", "[{},{}]"],
      result_shapes = [[], [24, 2], [], [24, 2], [24, 2]],
      results = ["loss", "w3", "optimizer.step", "w3.m", "w3.v"],
      scratch = 448 : i64,
      sym_name = "train",
      ties = [-1, 0, 1, 2, 3]} : () -> ()
}
