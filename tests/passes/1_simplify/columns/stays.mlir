// RUN: msc opt --set device_num=2 --set parallel_mode=auto_parallel --passes=columns --check-numerics %s
// A weight with two users, parts of two widths, a product whose strategy the user gave, and a weight that no parameter is stay as they are.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %shared: tensor<8x6xf32>, %w: tensor<8x6xf32>, %told: tensor<8x6xf32>):
    %0 = "msc.matmul"(%x, %shared) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1:2 = "msc.split"(%0) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    %2 = "msc.transpose"(%shared) {perm = [1, 0]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %3 = "msc.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %4:2 = "msc.split"(%3) {dim = 1 : i64, sizes = [2, 4]} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x4xf32>)
    %5 = "msc.matmul"(%x, %told) {in_strategy = [[1, 1], [1, 2]]} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %6:2 = "msc.split"(%5) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    %7 = "msc.matmul"(%x, %2) {transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    %8:2 = "msc.split"(%7) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    "msc.return"(%1#0, %4#0, %6#0, %8#0) : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "shared", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "told", msc.role = "parameter"}],
      results = ["a", "b", "c", "d"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %shared: tensor<8x6xf32>, %w: tensor<8x6xf32>, %told: tensor<8x6xf32>):
    %0 = "msc.matmul"(%x, %shared) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1:2 = "msc.split"(%0) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    %2 = "msc.transpose"(%shared) {perm = [1, 0]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %3 = "msc.matmul"(%x, %w) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %4:2 = "msc.split"(%3) {dim = 1 : i64, sizes = [2, 4]} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x4xf32>)
    %5 = "msc.matmul"(%x, %told) {in_strategy = [[1, 1], [1, 2]]} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %6:2 = "msc.split"(%5) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    %7 = "msc.matmul"(%x, %2) {transpose_b = true} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
    %8:2 = "msc.split"(%7) {dim = 1 : i64, sizes = [3, 3]} : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
    "msc.return"(%1#0, %4#0, %6#0, %8#0) : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "shared", msc.role = "parameter"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "told", msc.role = "parameter"}],
      results = ["a", "b", "c", "d"],
      sym_name = "forward"} : () -> ()
}
