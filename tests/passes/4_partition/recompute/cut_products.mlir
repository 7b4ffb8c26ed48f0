// RUN: msc opt --passes=autodiff,optimizer,tidy,strategies,layouts,expand,redistribute,recompute --set device_num=8 --set parallel_mode=semi_auto_parallel %s
// Groups of two ops.  Both products are cut by 8: computing the convolution again takes a rank a quarter of the time that the other takes, so it is what is chosen.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x16x64x64xf32>, %w1: tensor<16x16x1x1xf32>, %w2: tensor<64x64xf32>, %y: tensor<64x16x64x64xf32>):
    %0 = "msc.sin"(%x) : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %1 = "msc.batch_matmul"(%0, %w2) : (tensor<64x16x64x64xf32>, tensor<64x64xf32>) -> tensor<64x16x64x64xf32>
    %2 = "msc.sin"(%1) : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %3 = "msc.conv2d"(%2, %w1) : (tensor<64x16x64x64xf32>, tensor<16x16x1x1xf32>) -> tensor<64x16x64x64xf32>
    %4 = "msc.sin"(%3) : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %5 = "msc.sin"(%4) {recompute = false} : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %6 = "msc.sin"(%5) {recompute = false} : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %7 = "msc.sin"(%6) {recompute = false} : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %8 = "msc.sin"(%7) {recompute = false} : (tensor<64x16x64x64xf32>) -> tensor<64x16x64x64xf32>
    %9 = "msc.mean_squared_error"(%8, %y) : (tensor<64x16x64x64xf32>, tensor<64x16x64x64xf32>) -> tensor<f32>
    "msc.return"(%9) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32},
      recompute_group = 2 : i64,
      recompute_saving = 1000000 : i64,
      recompute_shift = 1 : i64,
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=8">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, %w1: tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>, %w2: tensor<64x64xf32, #msc.layout<"[{},{}]">>, %y: tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>):
    %0 = "msc.sin"(%x) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %1 = "msc.batch_matmul"(%0, %w2) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x64xf32, #msc.layout<"[{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %2 = "msc.sin"(%1) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %3 = "msc.conv2d"(%2, %w1) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %4 = "msc.sin"(%3) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %5 = "msc.sin"(%4) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %6 = "msc.sin"(%5) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %7 = "msc.sin"(%6) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %8 = "msc.sin"(%7) {by = "default"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %9 = "msc.sub"(%8, %y) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %10 = "msc.mul"(%9, %9) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %11 = "msc.reduce_mean"(%10) {dims = [0, 1, 2, 3]} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<f32, #msc.layout<"[] partial={d}">>
    %12 = "msc.constant"() {by = "default", value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %13 = "msc.sub"(%8, %y) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %14 = "msc.constant"() {value = dense<4.194304e+06> : tensor<f32>} : () -> tensor<f32, #msc.layout<"[]">>
    %15 = "msc.div"(%12, %14) : (tensor<f32, #msc.layout<"[]">>, tensor<f32, #msc.layout<"[]">>) -> tensor<f32, #msc.layout<"[]">>
    %16 = "msc.broadcast_to"(%15) {shape = [64, 16, 64, 64]} : (tensor<f32, #msc.layout<"[]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %17 = "msc.mul"(%16, %13) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %18 = "msc.mul"(%16, %13) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %19 = "msc.add"(%17, %18) : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %20 = "msc.cos"(%7) {forward = "%8", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %21 = "msc.mul"(%19, %20) {forward = "%8", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %22 = "msc.cos"(%6) {forward = "%7", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %23 = "msc.mul"(%21, %22) {forward = "%7", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %24 = "msc.cos"(%5) {forward = "%6", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %25 = "msc.mul"(%23, %24) {forward = "%6", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %26 = "msc.cos"(%4) {forward = "%5", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %27 = "msc.mul"(%25, %26) {forward = "%5", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %28 = "msc.conv2d"(%2, %w1) {by = "default", recompute = true} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %29 = "msc.cos"(%28) {forward = "%4", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %30 = "msc.mul"(%27, %29) {forward = "%4", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %31 = "msc.conv2d_transpose"(%30, %w1) {forward = "%3", letters = "ncohw", size = [64, 64]} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %32 = "msc.conv2d_weight_grad"(%2, %30) {forward = "%3", kernel = [1, 1], letters = "ncohw"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}] partial={d}">>
    %33 = "msc.cos"(%1) {forward = "%2", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %34 = "msc.mul"(%31, %33) {forward = "%2", letters = "ABCD"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>
    %35 = "msc.matmul_weight_grad"(%0, %34) {forward = "%1", letters = "ABmkn"} : (tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>, tensor<64x16x64x64xf32, #msc.layout<"[{d},{},{},{}]">>) -> tensor<64x64xf32, #msc.layout<"[{},{}] partial={d}">>
    %36 = "msc.all_reduce"(%32) : (tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}] partial={d}">>) -> tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">> loc("w1.update")
    %37 = "msc.sgd"(%w1, %36) {lr = 1.0e-01 : f32} : (tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>, tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>) -> tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">> loc("w1.update")
    %38 = "msc.all_reduce"(%35) : (tensor<64x64xf32, #msc.layout<"[{},{}] partial={d}">>) -> tensor<64x64xf32, #msc.layout<"[{},{}]">> loc("w2.update")
    %39 = "msc.sgd"(%w2, %38) {lr = 1.0e-01 : f32} : (tensor<64x64xf32, #msc.layout<"[{},{}]">>, tensor<64x64xf32, #msc.layout<"[{},{}]">>) -> tensor<64x64xf32, #msc.layout<"[{},{}]">> loc("w2.update")
    %40 = "msc.all_reduce"(%11) : (tensor<f32, #msc.layout<"[] partial={d}">>) -> tensor<f32, #msc.layout<"[]">>
    "msc.return"(%40, %37, %39) {in_layout = ["[]", "[{},{},{},{}]", "[{},{}]"]} : (tensor<f32, #msc.layout<"[]">>, tensor<16x16x1x1xf32, #msc.layout<"[{},{},{},{}]">>, tensor<64x64xf32, #msc.layout<"[{},{}]">>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      partitioned = true,
      recompute_group = 2 : i64,
      recompute_saving = 1000000 : i64,
      recompute_shift = 1 : i64,
      results = ["loss", "w1", "w2"],
      sym_name = "train",
      ties = [-1, 1, 2]} : () -> ()
}
