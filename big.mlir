module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x2048xf32>, %y: tensor<8xi32>, %w: tensor<2048x4064xf32>, %v: tensor<4064x16xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x2048xf32>, tensor<2048x4064xf32>) -> tensor<8x4064xf32>
    %2 = "msc.matmul"(%0, %v) : (tensor<8x4064xf32>, tensor<4064x16xf32>) -> tensor<8x16xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.03"},
                   {msc.name = "v", msc.role = "parameter", msc.init = "normal:0.03"}],
      optimizer = {kind = "adam", lr = 1.0e-03 : f64}} : () -> ()
}
