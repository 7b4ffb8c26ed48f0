// RUN: msc opt --passes=precision --set compute_type=bf16 %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x8x8xf32>, %w: tensor<6x3x1x1xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>, %m: tensor<6xf32>, %v: tensor<6xf32>, %gx: tensor<3xf32>, %bx: tensor<3xf32>, %mx: tensor<3xf32>, %vx: tensor<3xf32>):
    %0:3 = "msc.batch_norm"(%x, %gx, %bx, %mx, %vx) : (tensor<4x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "msc.conv2d"(%0#0, %w) : (tensor<4x3x8x8xf32>, tensor<6x3x1x1xf32>) -> tensor<4x6x8x8xf32>
    %2:3 = "msc.batch_norm"(%1, %g, %b, %m, %v) : (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>)
    %3 = "msc.add"(%2#0, %1) : (tensor<4x6x8x8xf32>, tensor<4x6x8x8xf32>) -> tensor<4x6x8x8xf32>
    %4 = "msc.relu"(%3) : (tensor<4x6x8x8xf32>) -> tensor<4x6x8x8xf32>
    "msc.return"(%4, %2#1, %2#2) : (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "state"},
                   {msc.name = "v", msc.role = "state"},
                   {msc.name = "gx", msc.role = "parameter"},
                   {msc.name = "bx", msc.role = "parameter"},
                   {msc.name = "mx", msc.role = "state"},
                   {msc.name = "vx", msc.role = "state"}],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3x8x8xf32>, %w: tensor<6x3x1x1xf32>, %g: tensor<6xf32>, %b: tensor<6xf32>, %m: tensor<6xf32>, %v: tensor<6xf32>, %gx: tensor<3xf32>, %bx: tensor<3xf32>, %mx: tensor<3xf32>, %vx: tensor<3xf32>):
    %0:3 = "msc.batch_norm"(%x, %gx, %bx, %mx, %vx) : (tensor<4x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x8x8xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "msc.cast"(%0#0) {dtype = "bf16"} : (tensor<4x3x8x8xf32>) -> tensor<4x3x8x8xbf16>
    %2 = "msc.cast"(%w) {dtype = "bf16"} : (tensor<6x3x1x1xf32>) -> tensor<6x3x1x1xbf16> loc("w")
    %3 = "msc.conv2d"(%1, %2) : (tensor<4x3x8x8xbf16>, tensor<6x3x1x1xbf16>) -> tensor<4x6x8x8xbf16>
    %4 = "msc.cast"(%3) {dtype = "f32"} : (tensor<4x6x8x8xbf16>) -> tensor<4x6x8x8xf32>
    %5:3 = "msc.batch_norm"(%4, %g, %b, %m, %v) : (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>)
    %6 = "msc.cast"(%5#0) {dtype = "bf16"} : (tensor<4x6x8x8xf32>) -> tensor<4x6x8x8xbf16>
    %7 = "msc.add"(%6, %3) : (tensor<4x6x8x8xbf16>, tensor<4x6x8x8xbf16>) -> tensor<4x6x8x8xbf16>
    %8 = "msc.relu"(%7) : (tensor<4x6x8x8xbf16>) -> tensor<4x6x8x8xbf16>
    %9 = "msc.cast"(%8) {dtype = "f32"} : (tensor<4x6x8x8xbf16>) -> tensor<4x6x8x8xf32>
    "msc.return"(%9, %5#1, %5#2) : (tensor<4x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "g", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"},
                   {msc.name = "m", msc.role = "state"},
                   {msc.name = "v", msc.role = "state"},
                   {msc.name = "gx", msc.role = "parameter"},
                   {msc.name = "bx", msc.role = "parameter"},
                   {msc.name = "mx", msc.role = "state"},
                   {msc.name = "vx", msc.role = "state"}],
      sym_name = "forward"} : () -> ()
}
