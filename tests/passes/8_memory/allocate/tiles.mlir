// RUN: msc opt --passes=allocate --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>):
    %0 = "msc.tanh"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "msc.gemm"(%0, %w, %b) {tile = 2 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %2 = "msc.erf"(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = "msc.gemm"(%2, %w, %b) {tile = 2 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %4 = "msc.add"(%3, %2) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    "msc.return"(%4) : (tensor<8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>):
    %0 = "msc.tanh"(%x) {place = [0]} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = "msc.gemm"(%0, %w, %b) {place = [0], tile = 2 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %2 = "msc.erf"(%1) {place = [512]} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = "msc.gemm"(%2, %w, %b) {place = [0], tile = 2 : i64} : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %4 = "msc.add"(%3, %2) {place = [0]} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    "msc.return"(%4) : (tensor<8x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "b", msc.role = "parameter"}],
      results = ["y"],
      scratch = 1024 : i64,
      sym_name = "forward"} : () -> ()
}
