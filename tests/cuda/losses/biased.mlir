// two convolutions with a bias, and relu behind the second one too
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8x16x16xf32>, %w: tensor<16x8x3x3xf32>, %b: tensor<16x1x1xf32>, %w2: tensor<16x16x3x3xf32>, %b2: tensor<16x1x1xf32>, %d: tensor<16x4xf32>, %y: tensor<8xi32>):
    %0 = "msc.conv2d"(%x, %w) {padding = [1, 1, 1, 1]} : (tensor<8x8x16x16xf32>, tensor<16x8x3x3xf32>) -> tensor<8x16x16x16xf32>
    %1 = "msc.add"(%0, %b) : (tensor<8x16x16x16xf32>, tensor<16x1x1xf32>) -> tensor<8x16x16x16xf32>
    %2 = "msc.silu"(%1) : (tensor<8x16x16x16xf32>) -> tensor<8x16x16x16xf32>
    %3 = "msc.conv2d"(%2, %w2) {padding = [1, 1, 1, 1]} : (tensor<8x16x16x16xf32>, tensor<16x16x3x3xf32>) -> tensor<8x16x16x16xf32>
    %4 = "msc.add"(%3, %b2) : (tensor<8x16x16x16xf32>, tensor<16x1x1xf32>) -> tensor<8x16x16x16xf32>
    %5 = "msc.relu"(%4) : (tensor<8x16x16x16xf32>) -> tensor<8x16x16x16xf32>
    %6 = "msc.reduce_mean"(%5) {dims = [2, 3]} : (tensor<8x16x16x16xf32>) -> tensor<8x16xf32>
    %7 = "msc.matmul"(%6, %d) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %8 = "msc.softmax_cross_entropy"(%7, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%8) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      optimizer = {kind = "sgd", lr = 0.3 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.2"},
                   {msc.name = "b", msc.role = "parameter", msc.init = "uniform:0.5"},
                   {msc.name = "w2", msc.role = "parameter", msc.init = "uniform:0.2"},
                   {msc.name = "b2", msc.role = "parameter", msc.init = "uniform:0.5"},
                   {msc.name = "d", msc.role = "parameter", msc.init = "uniform:0.3"},
                   {msc.name = "y", msc.role = "label"}]} : () -> ()
}
