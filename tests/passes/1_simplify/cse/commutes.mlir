// RUN: msc opt --passes=cse --check-numerics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
    %0 = "msc.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.sub"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.sub"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = "msc.mul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "msc.mul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0, %1, %2, %3, %4, %5) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
// EXPECT
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
    %0 = "msc.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "msc.sub"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.sub"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "msc.mul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0, %0, %1, %2, %3, %3) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "f"} : () -> ()
}
