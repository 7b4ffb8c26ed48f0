// RUN: msc opt --passes=fuse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>):
    %0 = "msc.reduce_max"(%x) {dims = [1], keep_dims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %1 = "msc.sub"(%x, %0) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %2 = "msc.slice"(%1) {limit = [4, 8], start = [0, 4]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %3 = "msc.slice"(%1) {limit = [4, 4], start = [0, 0]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %4 = "msc.concat"(%2, %3) {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
    %5 = "msc.mul"(%1, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "msc.mul"(%4, %s) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = "msc.add"(%5, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%7) : (tensor<4x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "s", msc.role = "data"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>):
    %0 = "msc.fused"(%x, %c, %s) ({
    ^bb0(%1: tensor<4x8xf32>, %2: tensor<4x8xf32>, %3: tensor<4x8xf32>):
      %4 = "msc.reduce_max"(%1) {dims = [1], keep_dims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
      %5 = "msc.sub"(%1, %4) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
      %6 = "msc.slice"(%5) {limit = [4, 8], start = [0, 4]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
      %7 = "msc.slice"(%5) {limit = [4, 4], start = [0, 0]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
      %8 = "msc.concat"(%6, %7) {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
      %9 = "msc.mul"(%5, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %10 = "msc.mul"(%8, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %11 = "msc.add"(%9, %10) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      "msc.yield"(%11) : (tensor<4x8xf32>) -> ()
    }) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "s", msc.role = "data"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
