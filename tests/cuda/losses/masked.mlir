// attention with masks: numbers of samples that are added, and padding, which is seen or not
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4x16x16xf32>, %q.w: tensor<16x16xf32>, %dense.w: tensor<1024x4xf32>, %y: tensor<8xi32>):
    %0 = "msc.einsum"(%x, %q.w) {equation = "bhse,ef->bhsf"} : (tensor<8x4x16x16xf32>, tensor<16x16xf32>) -> tensor<8x4x16x16xf32>
    %1 = "msc.reduce_mean"(%x) {dims = [1, 2], keep_dims = true} : (tensor<8x4x16x16xf32>) -> tensor<8x1x1x16xf32>
    %2 = "msc.attention"(%0, %x, %x, %1) {causal = true, scale = 5.0e-01 : f64} : (tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>, tensor<8x1x1x16xf32>) -> tensor<8x4x16x16xf32>
    %3 = "msc.iota"() {type = tensor<16xi32>} : () -> tensor<16xi32>
    %4 = "msc.constant"() {value = dense<11> : tensor<i32>} : () -> tensor<i32>
    %5 = "msc.compare"(%3, %4) {predicate = "lt"} : (tensor<16xi32>, tensor<i32>) -> tensor<16xi1>
    %6 = "msc.attention"(%2, %0, %2, %5) : (tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>, tensor<16xi1>) -> tensor<8x4x16x16xf32>
    %7 = "msc.reshape"(%6) {shape = [8, 1024]} : (tensor<8x4x16x16xf32>) -> tensor<8x1024xf32>
    %8 = "msc.matmul"(%7, %dense.w) : (tensor<8x1024xf32>, tensor<1024x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.softmax_cross_entropy"(%8, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%9) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      optimizer = {kind = "sgd", lr = 0.5 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "q.w", msc.role = "parameter", msc.init = "uniform:1"},
                   {msc.name = "dense.w", msc.role = "parameter", msc.init = "uniform:0.03"},
                   {msc.name = "y", msc.role = "label"}]} : () -> ()
}
