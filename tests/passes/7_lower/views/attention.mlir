// RUN: msc opt --passes=views --check-numerics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x2x8xbf16>, %k: tensor<2x4x2x8xbf16>, %v: tensor<2x2x4x8xbf16>, %dy: tensor<2x4x2x8xbf16>):
    %0 = "msc.transpose"(%q) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %1 = "msc.transpose"(%k) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %2:2 = "msc.flash_attention"(%0, %1, %v) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    %3 = "msc.transpose"(%2#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %4 = "msc.transpose"(%dy) {perm = [0, 2, 1, 3]} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %5:3 = "msc.flash_attention_grad"(%0, %1, %v, %2#0, %2#1, %4) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>)
    %6 = "msc.transpose"(%5#0) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %7 = "msc.transpose"(%5#1) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    "msc.return"(%3, %6, %7, %5#1, %5#2) : (tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%q: tensor<2x4x2x8xbf16>, %k: tensor<2x4x2x8xbf16>, %v: tensor<2x2x4x8xbf16>, %dy: tensor<2x4x2x8xbf16>):
    %0 = "msc.transpose"(%q) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %1 = "msc.transpose"(%k) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %2:2 = "msc.flash_attention"(%0, %1, %v) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
    %3 = "msc.transpose"(%2#0) {perm = [0, 2, 1, 3], view = true} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %4 = "msc.transpose"(%dy) {perm = [0, 2, 1, 3], view = true} : (tensor<2x4x2x8xbf16>) -> tensor<2x2x4x8xbf16>
    %5:3 = "msc.flash_attention_grad"(%0, %1, %v, %2#0, %2#1, %4) {library = true} : (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>, tensor<2x2x4x8xbf16>) -> (tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>)
    %6 = "msc.transpose"(%5#0) {perm = [0, 2, 1, 3], view = true} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    %7 = "msc.transpose"(%5#1) {perm = [0, 2, 1, 3]} : (tensor<2x2x4x8xbf16>) -> tensor<2x4x2x8xbf16>
    "msc.return"(%3, %6, %7, %5#1, %5#2) : (tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x2x4x8xbf16>, tensor<2x2x4x8xbf16>) -> ()
  }) {sym_name = "main"} : () -> ()
}
