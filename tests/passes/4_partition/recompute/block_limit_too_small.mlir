// RUN: msc opt --passes=autodiff,optimizer,tidy,recompute --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %w1: tensor<6x12xf32>, %w2: tensor<12x3xf32>, %w3: tensor<3x12xf32>, %w4: tensor<12x3xf32>, %y: tensor<8xi32>):
    %0 = "msc.matmul"(%x, %w1) {memory_limit = {bytes = 864 : i64, name = "a"}} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
    %1 = "msc.silu"(%0) {memory_limit = {bytes = 864 : i64, name = "a"}} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %2 = "msc.matmul"(%1, %w2) {memory_limit = {bytes = 864 : i64, name = "a"}} : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    // expected-error @below {{memory_limit of block 'b' is 95 bytes, and it keeps at least 96 for the backward of a micro-batch}}
    %3 = "msc.matmul"(%2, %w3) {memory_limit = {bytes = 95 : i64, name = "b"}} : (tensor<8x3xf32>, tensor<3x12xf32>) -> tensor<8x12xf32>
    %4 = "msc.silu"(%3) {memory_limit = {bytes = 95 : i64, name = "b"}} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %5 = "msc.matmul"(%4, %w4) {memory_limit = {bytes = 95 : i64, name = "b"}} : (tensor<8x12xf32>, tensor<12x3xf32>) -> tensor<8x3xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "w3", msc.role = "parameter"},
                   {msc.name = "w4", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
