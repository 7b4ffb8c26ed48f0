// RUN: msc opt --passes=fuse --check-numerics %s
// Sums over micro-batches that have nothing to do with each other are one kernel.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%n: tensor<i64>, %a: tensor<8xf32>, %b: tensor<8xf32>, %sa: tensor<8xf32>, %sb: tensor<8xf32>):
    %0 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "msc.compare"(%n, %0) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %2 = "msc.add"(%sa, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = "msc.select"(%1, %a, %2) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = "msc.add"(%sb, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = "msc.select"(%1, %b, %4) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "msc.return"(%3, %5) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "n", msc.role = "micro"},
                   {msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.name = "sa", msc.role = "sum"},
                   {msc.name = "sb", msc.role = "sum"}],
      sym_name = "train",
      ties = [3, 4]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%n: tensor<i64>, %a: tensor<8xf32>, %b: tensor<8xf32>, %sa: tensor<8xf32>, %sb: tensor<8xf32>):
    %0 = "msc.fused"(%n) ({
    ^bb0(%1: tensor<i64>):
      %2 = "msc.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
      %3 = "msc.compare"(%1, %2) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "msc.yield"(%3) : (tensor<i1>) -> ()
    }) : (tensor<i64>) -> tensor<i1>
    %4:2 = "msc.fused"(%sa, %a, %0, %sb, %b) ({
    ^bb0(%5: tensor<8xf32>, %6: tensor<8xf32>, %7: tensor<i1>, %8: tensor<8xf32>, %9: tensor<8xf32>):
      %10 = "msc.add"(%5, %6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %11 = "msc.select"(%7, %6, %10) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %12 = "msc.add"(%8, %9) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %13 = "msc.select"(%7, %9, %12) : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      "msc.yield"(%11, %13) : (tensor<8xf32>, tensor<8xf32>) -> ()
    }) : (tensor<8xf32>, tensor<8xf32>, tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    "msc.return"(%4#0, %4#1) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "n", msc.role = "micro"},
                   {msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.name = "sa", msc.role = "sum"},
                   {msc.name = "sb", msc.role = "sum"}],
      sym_name = "train",
      ties = [3, 4]} : () -> ()
}
