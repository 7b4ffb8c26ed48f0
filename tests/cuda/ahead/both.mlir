// a convolution, and attention of what it makes: graphs of both kinds, and few kernels
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4x16x16xf32>, %conv.w: tensor<4x4x3x3xf32>, %conv.b: tensor<4x1x1xf32>, %dense.w: tensor<1024x4xf32>, %y: tensor<8xi32>):
    %0 = "msc.conv2d"(%x, %conv.w) {padding = [1, 1, 1, 1], stride = [1, 1]} : (tensor<8x4x16x16xf32>, tensor<4x4x3x3xf32>) -> tensor<8x4x16x16xf32>
    %b = "msc.add"(%0, %conv.b) : (tensor<8x4x16x16xf32>, tensor<4x1x1xf32>) -> tensor<8x4x16x16xf32>
    %r = "msc.relu"(%b) : (tensor<8x4x16x16xf32>) -> tensor<8x4x16x16xf32>
    %1 = "msc.attention"(%r, %r, %r) {causal = true} : (tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>, tensor<8x4x16x16xf32>) -> tensor<8x4x16x16xf32>
    %2 = "msc.reshape"(%1) {shape = [8, 1024]} : (tensor<8x4x16x16xf32>) -> tensor<8x1024xf32>
    %3 = "msc.matmul"(%2, %dense.w) : (tensor<8x1024xf32>, tensor<1024x4xf32>) -> tensor<8x4xf32>
    %4 = "msc.softmax_cross_entropy"(%3, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      optimizer = {kind = "sgd", lr = 0.05 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "conv.w", msc.role = "parameter", msc.init = "uniform:0.3333"},
                   {msc.name = "conv.b", msc.role = "parameter", msc.init = "uniform:0.5"},
                   {msc.name = "dense.w", msc.role = "parameter", msc.init = "uniform:0.03"},
                   {msc.name = "y", msc.role = "label"}]} : () -> ()
}
