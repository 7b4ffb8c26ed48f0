// RUN: msc opt --passes=allocate --check-numerics %s
// Rows are written into the list where it lies; what somebody still reads is copied.
module {
  "msc.func"() ({
  ^bb0(%list: tensor<64x32xf32>, %kept: tensor<64x32xf32>, %rows: tensor<2x32xf32>):
    %0 = "msc.constant"() {value = dense<[3, 40]> : tensor<2xi64>} : () -> tensor<2xi64>
    %1 = "msc.scatter_update"(%list, %0, %rows) : (tensor<64x32xf32>, tensor<2xi64>, tensor<2x32xf32>) -> tensor<64x32xf32>
    %2 = "msc.scatter_update"(%kept, %0, %rows) : (tensor<64x32xf32>, tensor<2xi64>, tensor<2x32xf32>) -> tensor<64x32xf32>
    %3 = "msc.reduce_sum"(%kept) {dims = [0, 1]} : (tensor<64x32xf32>) -> tensor<f32>
    "msc.return"(%1, %2, %3) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "list", msc.role = "state"},
                   {msc.name = "kept", msc.role = "state"},
                   {msc.name = "rows", msc.role = "data"}],
      sym_name = "train",
      ties = [0, 1, -1]} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%list: tensor<64x32xf32>, %kept: tensor<64x32xf32>, %rows: tensor<2x32xf32>):
    %0 = "msc.constant"() {place = [0], value = dense<[3, 40]> : tensor<2xi64>} : () -> tensor<2xi64>
    %1 = "msc.scatter_update"(%list, %0, %rows) {place = [-1]} : (tensor<64x32xf32>, tensor<2xi64>, tensor<2x32xf32>) -> tensor<64x32xf32>
    %2 = "msc.scatter_update"(%kept, %0, %rows) {place = [0]} : (tensor<64x32xf32>, tensor<2xi64>, tensor<2x32xf32>) -> tensor<64x32xf32>
    %3 = "msc.reduce_sum"(%kept) {dims = [0, 1], place = [8192]} : (tensor<64x32xf32>) -> tensor<f32>
    "msc.return"(%1, %2, %3) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "list", msc.role = "state"},
                   {msc.name = "kept", msc.role = "state"},
                   {msc.name = "rows", msc.role = "data"}],
      scratch = 8256 : i64,
      sym_name = "train",
      ties = [0, 1, -1]} : () -> ()
}
