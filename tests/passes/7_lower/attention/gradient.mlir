// RUN: msc opt --passes=attention --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x4xf32>, %dy: tensor<2x4x5x4xf32>):
    %0:2 = "msc.flash_attention"(%q, %k, %v) {causal = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x4xf32>) -> (tensor<2x4x5x4xf32>, tensor<2x4x5xf32>)
    %1:3 = "msc.flash_attention_grad"(%q, %k, %v, %0#0, %0#1, %dy) {causal = true} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x4xf32>, tensor<2x4x5x4xf32>, tensor<2x4x5xf32>, tensor<2x4x5x4xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x4xf32>)
    "msc.return"(%1#0, %1#1, %1#2) : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x4xf32>, %dy: tensor<2x4x5x4xf32>):
    %0 = "msc.reshape"(%q) {shape = [2, 2, 10, 8]} : (tensor<2x4x5x8xf32>) -> tensor<2x2x10x8xf32>
    %1 = "msc.batch_matmul"(%0, %k) {transpose_b = true} : (tensor<2x2x10x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x2x10x6xf32>
    %2 = "msc.reshape"(%1) {shape = [2, 4, 5, 6]} : (tensor<2x2x10x6xf32>) -> tensor<2x4x5x6xf32>
    %3 = "msc.constant"() {value = dense<3.5355338e-01> : tensor<f32>} : () -> tensor<f32>
    %4 = "msc.mul"(%2, %3) : (tensor<2x4x5x6xf32>, tensor<f32>) -> tensor<2x4x5x6xf32>
    %5 = "msc.iota"() {type = tensor<5xi32>} : () -> tensor<5xi32>
    %6 = "msc.reshape"(%5) {shape = [5, 1]} : (tensor<5xi32>) -> tensor<5x1xi32>
    %7 = "msc.iota"() {type = tensor<6xi32>} : () -> tensor<6xi32>
    %8 = "msc.compare"(%6, %7) {predicate = "ge"} : (tensor<5x1xi32>, tensor<6xi32>) -> tensor<5x6xi1>
    %9 = "msc.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %10 = "msc.select"(%8, %4, %9) : (tensor<5x6xi1>, tensor<2x4x5x6xf32>, tensor<f32>) -> tensor<2x4x5x6xf32>
    %11 = "msc.reduce_max"(%10) {dims = [3], keep_dims = true} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x1xf32>
    %12 = "msc.sub"(%10, %11) : (tensor<2x4x5x6xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
    %13 = "msc.exp"(%12) : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
    %14 = "msc.reduce_sum"(%13) {dims = [3], keep_dims = true} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x1xf32>
    %15 = "msc.div"(%13, %14) : (tensor<2x4x5x6xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
    %16 = "msc.reshape"(%15) {shape = [2, 2, 10, 6]} : (tensor<2x4x5x6xf32>) -> tensor<2x2x10x6xf32>
    %17 = "msc.batch_matmul"(%16, %v) : (tensor<2x2x10x6xf32>, tensor<2x2x6x4xf32>) -> tensor<2x2x10x4xf32>
    %18 = "msc.log"(%14) : (tensor<2x4x5x1xf32>) -> tensor<2x4x5x1xf32>
    %19 = "msc.add"(%11, %18) : (tensor<2x4x5x1xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x1xf32>
    %20 = "msc.reshape"(%17) {shape = [2, 4, 5, 4]} : (tensor<2x2x10x4xf32>) -> tensor<2x4x5x4xf32>
    %21 = "msc.reshape"(%19) {shape = [2, 4, 5]} : (tensor<2x4x5x1xf32>) -> tensor<2x4x5xf32>
    %22 = "msc.reshape"(%q) {shape = [2, 2, 10, 8]} : (tensor<2x4x5x8xf32>) -> tensor<2x2x10x8xf32>
    %23 = "msc.batch_matmul"(%22, %k) {transpose_b = true} : (tensor<2x2x10x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x2x10x6xf32>
    %24 = "msc.reshape"(%23) {shape = [2, 4, 5, 6]} : (tensor<2x2x10x6xf32>) -> tensor<2x4x5x6xf32>
    %25 = "msc.constant"() {value = dense<3.5355338e-01> : tensor<f32>} : () -> tensor<f32>
    %26 = "msc.mul"(%24, %25) : (tensor<2x4x5x6xf32>, tensor<f32>) -> tensor<2x4x5x6xf32>
    %27 = "msc.iota"() {type = tensor<5xi32>} : () -> tensor<5xi32>
    %28 = "msc.reshape"(%27) {shape = [5, 1]} : (tensor<5xi32>) -> tensor<5x1xi32>
    %29 = "msc.iota"() {type = tensor<6xi32>} : () -> tensor<6xi32>
    %30 = "msc.compare"(%28, %29) {predicate = "ge"} : (tensor<5x1xi32>, tensor<6xi32>) -> tensor<5x6xi1>
    %31 = "msc.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %32 = "msc.select"(%30, %26, %31) : (tensor<5x6xi1>, tensor<2x4x5x6xf32>, tensor<f32>) -> tensor<2x4x5x6xf32>
    %33 = "msc.reshape"(%21) {shape = [2, 4, 5, 1]} : (tensor<2x4x5xf32>) -> tensor<2x4x5x1xf32>
    %34 = "msc.sub"(%32, %33) : (tensor<2x4x5x6xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
    %35 = "msc.exp"(%34) : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
    %36 = "msc.reshape"(%dy) {shape = [2, 2, 10, 4]} : (tensor<2x4x5x4xf32>) -> tensor<2x2x10x4xf32>
    %37 = "msc.mul"(%dy, %20) : (tensor<2x4x5x4xf32>, tensor<2x4x5x4xf32>) -> tensor<2x4x5x4xf32>
    %38 = "msc.reduce_sum"(%37) {dims = [3], keep_dims = true} : (tensor<2x4x5x4xf32>) -> tensor<2x4x5x1xf32>
    %39 = "msc.batch_matmul"(%36, %v) {transpose_b = true} : (tensor<2x2x10x4xf32>, tensor<2x2x6x4xf32>) -> tensor<2x2x10x6xf32>
    %40 = "msc.reshape"(%39) {shape = [2, 4, 5, 6]} : (tensor<2x2x10x6xf32>) -> tensor<2x4x5x6xf32>
    %41 = "msc.sub"(%40, %38) : (tensor<2x4x5x6xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
    %42 = "msc.mul"(%35, %41) : (tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
    %43 = "msc.constant"() {value = dense<3.5355338e-01> : tensor<f32>} : () -> tensor<f32>
    %44 = "msc.mul"(%42, %43) : (tensor<2x4x5x6xf32>, tensor<f32>) -> tensor<2x4x5x6xf32>
    %45 = "msc.reshape"(%44) {shape = [2, 2, 10, 6]} : (tensor<2x4x5x6xf32>) -> tensor<2x2x10x6xf32>
    %46 = "msc.batch_matmul"(%45, %k) : (tensor<2x2x10x6xf32>, tensor<2x2x6x8xf32>) -> tensor<2x2x10x8xf32>
    %47 = "msc.reshape"(%46) {shape = [2, 4, 5, 8]} : (tensor<2x2x10x8xf32>) -> tensor<2x4x5x8xf32>
    %48 = "msc.reshape"(%q) {shape = [2, 2, 10, 8]} : (tensor<2x4x5x8xf32>) -> tensor<2x2x10x8xf32>
    %49 = "msc.batch_matmul"(%45, %48) {transpose_a = true} : (tensor<2x2x10x6xf32>, tensor<2x2x10x8xf32>) -> tensor<2x2x6x8xf32>
    %50 = "msc.reshape"(%35) {shape = [2, 2, 10, 6]} : (tensor<2x4x5x6xf32>) -> tensor<2x2x10x6xf32>
    %51 = "msc.batch_matmul"(%50, %36) {transpose_a = true} : (tensor<2x2x10x6xf32>, tensor<2x2x10x4xf32>) -> tensor<2x2x6x4xf32>
    "msc.return"(%47, %49, %51) : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x4xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
