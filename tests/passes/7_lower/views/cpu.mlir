// RUN: msc opt --passes=views --check-numerics %s
module attributes {msc.target = "cpu"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x2x8xf32>, %k: tensor<2x4x2x8xf32>, %v: tensor<2x2x4x8xf32>, %dy: tensor<2x4x2x8xf32>):
    %0 = "msc.transpose"(%q) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %1 = "msc.transpose"(%k) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %2:2 = "msc.flash_attention"(%0, %1, %v) {library = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
    %3 = "msc.transpose"(%2#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    %4 = "msc.transpose"(%dy) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %5:3 = "msc.flash_attention_grad"(%0, %1, %v, %2#0, %2#1, %4) {library = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>)
    %6 = "msc.transpose"(%5#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    %7 = "msc.transpose"(%5#1) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    "msc.return"(%3, %6, %7, %5#1, %5#2) : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cpu"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x2x8xf32>, %k: tensor<2x4x2x8xf32>, %v: tensor<2x2x4x8xf32>, %dy: tensor<2x4x2x8xf32>):
    %0 = "msc.transpose"(%q) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %1 = "msc.transpose"(%k) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %2:2 = "msc.flash_attention"(%0, %1, %v) {library = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
    %3 = "msc.transpose"(%2#0) {perm = [0, 2, 1, 3], view = true} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    %4 = "msc.transpose"(%dy) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
    %5:3 = "msc.flash_attention_grad"(%0, %1, %v, %2#0, %2#1, %4) {library = true} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4xf32>, tensor<2x2x4x8xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>)
    %6 = "msc.transpose"(%5#0) {perm = [0, 2, 1, 3], view = true} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    %7 = "msc.transpose"(%5#1) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xf32>) -> tensor<2x4x2x8xf32>
    "msc.return"(%3, %6, %7, %5#1, %5#2) : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
