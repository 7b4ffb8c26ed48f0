// RUN: msc opt --passes=cse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6xf32>):
    %0:2 = "msc.split"(%x) {dim = 0 : i64, sizes = [2, 4]} : (tensor<6xf32>) -> (tensor<2xf32>, tensor<4xf32>)
    %1:2 = "msc.split"(%x) {dim = 0 : i64, sizes = [2, 4]} : (tensor<6xf32>) -> (tensor<2xf32>, tensor<4xf32>)
    %2:2 = "msc.split"(%x) {dim = 0 : i64, sizes = [4, 2]} : (tensor<6xf32>) -> (tensor<4xf32>, tensor<2xf32>)
    "msc.return"(%0#0, %1#1, %2#0) : (tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<6xf32>):
    %0:2 = "msc.split"(%x) {dim = 0 : i64, sizes = [2, 4]} : (tensor<6xf32>) -> (tensor<2xf32>, tensor<4xf32>)
    %1:2 = "msc.split"(%x) {dim = 0 : i64, sizes = [4, 2]} : (tensor<6xf32>) -> (tensor<4xf32>, tensor<2xf32>)
    "msc.return"(%0#0, %0#1, %1#0) : (tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
