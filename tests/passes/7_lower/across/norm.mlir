// RUN: msc opt --passes=across --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%dy: tensor<8x4xbf16>, %x: tensor<8x4xf32>, %gamma: tensor<4xf32>):
    %0 = "msc.cast"(%dy) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.reduce_mean"(%x) {count = 4 : i64, dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %2 = "msc.sub"(%x, %1) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %3 = "msc.mul"(%0, %gamma) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %4 = "msc.mul"(%3, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = "msc.reduce_sum"(%4) {dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %6 = "msc.mul"(%0, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reduce_sum"(%6) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %8 = "msc.sub"(%3, %5) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    "msc.return"(%7, %8, %9) : (tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "x", msc.role = "data"},
                   {msc.name = "gamma", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%dy: tensor<8x4xbf16>, %x: tensor<8x4xf32>, %gamma: tensor<4xf32>):
    %0 = "msc.cast"(%dy) {dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "msc.cast"(%dy) {across = true, dtype = "f32"} : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %2 = "msc.reduce_mean"(%x) {count = 4 : i64, dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %3 = "msc.sub"(%x, %2) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %4 = "msc.sub"(%x, %2) {across = true} : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %5 = "msc.mul"(%0, %gamma) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%5, %3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.reduce_sum"(%6) {dims = [1], keep_dims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
    %8 = "msc.mul"(%1, %4) {across = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %9 = "msc.reduce_sum"(%8) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    %10 = "msc.sub"(%5, %7) : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %11 = "msc.reduce_sum"(%10) {dims = [0]} : (tensor<8x4xf32>) -> tensor<4xf32>
    "msc.return"(%9, %10, %11) : (tensor<4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "dy", msc.role = "data"},
                   {msc.name = "x", msc.role = "data"},
                   {msc.name = "gamma", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
