// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%t: tensor<64x4xf32>, %i: tensor<8xi32>):
    // expected-error @below {{manual_split: the parts have 63 rows together, the table has 64}}
    %0 = "msc.gather"(%t, %i) {manual_split = [10, 20, 30, 3]} : (tensor<64x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-error @below {{manual_split: 3 parts are neither the 4 devices nor an axis of the mesh d=4}}
    %1 = "msc.gather"(%t, %i) {manual_split = [10, 20, 34]} : (tensor<64x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-error @below {{manual_split: every part must have at least one row}}
    %2 = "msc.gather"(%t, %i) {manual_split = [32, 0, 16, 16]} : (tensor<64x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-error @below {{manual_split: its number of parts is not that of in_strategy's first entry}}
    %3 = "msc.gather"(%t, %i) {in_strategy = [[2, 1], [1]], manual_split = [16, 16, 16, 16]} : (tensor<64x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-error @below {{manual_split: only gather takes it}}
    %4 = "msc.neg"(%t) {manual_split = [16, 16, 16, 16]} : (tensor<64x4xf32>) -> tensor<64x4xf32>
    "msc.return"(%0, %1, %2, %3, %4) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<64x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "t", msc.role = "parameter"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
