// RUN: msc opt --passes=allocate --check-numerics %s
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<5xf32>):
    %0 = "msc.exp"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %1 = "msc.exp"(%y) : (tensor<5xf32>) -> tensor<5xf32>
    %2 = "msc.neg"(%y) : (tensor<5xf32>) -> tensor<5xf32>
    %3:3 = "msc.comm"(%1, %0, %2) {dims = [5, 4, 6, 5], from = ["[{}] partial={d}", "[{},{}] partial={d}", "[{}] partial={d}"], reduction = "sum", shape = [5, 4, 6, 5], to = ["[{}]", "[{},{}]", "[{}]"], verb = "all_reduce"} : (tensor<5xf32>, tensor<4x6xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<4x6xf32>, tensor<5xf32>)
    %4 = "msc.add"(%2, %3#0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "msc.return"(%3#1, %4, %3#2) : (tensor<4x6xf32>, tensor<5xf32>, tensor<5xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xf32>, %y: tensor<5xf32>):
    %0 = "msc.exp"(%x) {place = [64]} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %1 = "msc.exp"(%y) {place = [0]} : (tensor<5xf32>) -> tensor<5xf32>
    %2 = "msc.neg"(%y) {place = [256]} : (tensor<5xf32>) -> tensor<5xf32>
    %3:3 = "msc.comm"(%1, %0, %2) {dims = [5, 4, 6, 5], from = ["[{}] partial={d}", "[{},{}] partial={d}", "[{}] partial={d}"], place = [0, 64, 192], reduction = "sum", shape = [5, 4, 6, 5], to = ["[{}]", "[{},{}]", "[{}]"], verb = "all_reduce"} : (tensor<5xf32>, tensor<4x6xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<4x6xf32>, tensor<5xf32>)
    %4 = "msc.add"(%2, %3#0) {place = [256]} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "msc.return"(%3#1, %4, %3#2) : (tensor<4x6xf32>, tensor<5xf32>, tensor<5xf32>) -> ()
  }) {scratch = 320 : i64,
      sym_name = "main"} : () -> ()
}
