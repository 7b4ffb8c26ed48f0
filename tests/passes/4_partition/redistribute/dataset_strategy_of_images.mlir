// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set dataset_strategy=[[2,1,2,2]] --from=strategies --until=redistribute --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>):
    %0 = "msc.conv2d"(%x, %w) {in_strategy = [[2, 1, 2, 2], [1, 1, 1, 1]], padding = [1, 1, 1, 1], stride = [1, 1]} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32> loc("conv")
    "msc.return"(%0) : (tensor<2x4x8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3x8x8xf32, #msc.layout<"[{d:(1)2},{},{d:(2)2},{d:(4)2}]">>, %w: tensor<4x3x3x3xf32, #msc.layout<"[{},{},{},{}]">>):
    %0 = "msc.conv2d"(%x, %w) {by = "user", padding = [1, 1, 1, 1], stride = [1, 1]} : (tensor<2x3x8x8xf32, #msc.layout<"[{d:(1)2},{},{d:(2)2},{d:(4)2}]">>, tensor<4x3x3x3xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<2x4x8x8xf32, #msc.layout<"[{d:(1)2},{},{d:(2)2},{d:(4)2}]">> loc("conv")
    "msc.return"(%0) {in_layout = ["[{d:(1)2},{},{d:(2)2},{d:(4)2}]"]} : (tensor<2x4x8x8xf32, #msc.layout<"[{d:(1)2},{},{d:(2)2},{d:(4)2}]">>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d:(1)2},{},{d:(2)2},{d:(4)2}]", msc.name = "x", msc.role = "data"},
                   {msc.init = "normal:0.1", msc.name = "w", msc.role = "parameter"}],
      partitioned = true,
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
