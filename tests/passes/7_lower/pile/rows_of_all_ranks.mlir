// RUN: msc opt --passes=pile %s
// Two ranks have two of four rows each, which are too many: the products stay, as they do on one rank.
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x6xf32>, %a1: tensor<2x6xf32>, %a2: tensor<2x6xf32>, %a3: tensor<2x6xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>):
    %0 = "msc.matmul"(%a0, %b0) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %1 = "msc.matmul"(%a1, %b1) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %2 = "msc.matmul"(%a2, %b2) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %3 = "msc.matmul"(%a3, %b3) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %4 = "msc.add"(%0, %1) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %5 = "msc.add"(%4, %2) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %6 = "msc.add"(%5, %3) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    "msc.return"(%6) : (tensor<6x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
// EXPECT
module attributes {msc.mesh = #msc.mesh<"d=2">} {
  "msc.func"() ({
  ^bb0(%a0: tensor<2x6xf32>, %a1: tensor<2x6xf32>, %a2: tensor<2x6xf32>, %a3: tensor<2x6xf32>, %b0: tensor<2x6xf32>, %b1: tensor<2x6xf32>, %b2: tensor<2x6xf32>, %b3: tensor<2x6xf32>):
    %0 = "msc.matmul"(%a0, %b0) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %1 = "msc.matmul"(%a1, %b1) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %2 = "msc.matmul"(%a2, %b2) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %3 = "msc.matmul"(%a3, %b3) {blocks = 2 : i64, part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %4 = "msc.add"(%0, %1) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %5 = "msc.add"(%4, %2) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %6 = "msc.add"(%5, %3) {part_of = [tensor<6x6xf32, #msc.layout<"[{},{}] partial={d}">>]} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    "msc.return"(%6) : (tensor<6x6xf32>) -> ()
  }) {sym_name = "main"} : () -> ()
}
