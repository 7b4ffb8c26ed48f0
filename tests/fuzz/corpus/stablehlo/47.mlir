module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xf32>) -> (tensor<5xi1> {jax.result_info = "result"}) {
    %0 = stablehlo.compare NE, %arg0, %arg0, FLOAT : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
    %1 = call @isinf(%arg0) : (tensor<5xf32>) -> tensor<5xi1>
    %2 = stablehlo.or %0, %1 : tensor<5xi1>
    %3 = stablehlo.is_finite %arg0 : (tensor<5xf32>) -> tensor<5xi1>
    %4 = stablehlo.or %2, %3 : tensor<5xi1>
    return %4 : tensor<5xi1>
  }
  func.func private @isinf(%arg0: tensor<5xf32>) -> tensor<5xi1> {
    %0 = stablehlo.abs %arg0 : tensor<5xf32>
    %cst = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %2 = stablehlo.compare EQ, %0, %1, FLOAT : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
    return %2 : tensor<5xi1>
  }
}
