// RUN: msc opt --passes=lanes --verify-diagnostics --split-input-file %s
// After lowering, collectives are still those that the layouts ask for.
// A sum of parts that is not summed.
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>):
    %0 = "msc.gemm"(%x, %x) {part_of = [tensor<4x4xf32, #msc.layout<"[{},{}] partial={d}">>], transpose_a = true} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{relu: operand 'x' [{},{}] partial={d} is partial, and relu is not linear in it: reduce it first}}
    %1 = "msc.relu"(%0) {part_of = [tensor<4x4xf32, #msc.layout<"[{},{}]">>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "msc.return"(%1) : (tensor<4x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 4]}, {msc.layout = "[{},{}]", msc.name = "w", msc.role = "parameter", msc.shape = [4, 6]}],
      result_layouts = ["[{},{}]"], result_shapes = [[4, 4]], sym_name = "forward"} : () -> ()
}
// -----
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>):
    %0 = "msc.reduce_sum"(%x) {dims = [0], part_of = [tensor<4xf32, #msc.layout<"[{}] partial={d}">>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{comm: reduces by max, but operand 0 is a partial sum}}
    %1 = "msc.comm"(%0) {dims = [4], from = ["[{}] partial={d}"], part_of = [tensor<4xf32, #msc.layout<"[{}]">>], reduction = "max", shape = [4], to = ["[{}]"], verb = "all_reduce"} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{comm: all_gather from [{d}], but operand 0 is a part of tensor<4xf32, #msc.layout<"[{}]">>}}
    %2 = "msc.comm"(%1) {dims = [16], from = ["[{d}]"], part_of = [tensor<16xf32, #msc.layout<"[{}]">>], shape = [16], to = ["[{}]"], verb = "all_gather"} : (tensor<4xf32>) -> tensor<16xf32>
    // expected-error @+1 {{return: result 1 is a part of tensor<4xf32, #msc.layout<"[{}] partial={d}">>, and must be of tensor<4xf32, #msc.layout<"[{}]">>}}
    "msc.return"(%1, %0) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [8, 4]}],
      result_layouts = ["[{}]", "[{}]"], result_shapes = [[4], [4]], sym_name = "forward"} : () -> ()
}
// -----
// A parameter must come back as it is kept.
module attributes {msc.mesh = #msc.mesh<"a=2,b=2">} {
  "msc.func"() ({
  ^bb0(%w: tensor<4xf32>, %g: tensor<4xf32>):
    // expected-error @+1 {{sgd: dimension 0 of operand 'w' [{a}] is cut by {a} and dimension 0 of operand 'g' [{b}] by {b}; both are A of A,A->A}}
    %0 = "msc.sgd"(%w, %g) {lr = 1.0e+00 : f64, part_of = [tensor<8xf32, #msc.layout<"[{b}]">>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{return: result 0 is a part of tensor<8xf32, #msc.layout<"[{b}]">>, but argument 0, which it becomes, of tensor<8xf32, #msc.layout<"[{a}]">>}}
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{a}]", msc.name = "w", msc.role = "parameter", msc.shape = [8]}, {msc.layout = "[{b}]", msc.name = "g", msc.role = "data", msc.shape = [8]}],
      result_layouts = ["[{b}]"], result_shapes = [[8]], sym_name = "train", ties = [0]} : () -> ()
}
// -----
module attributes {msc.mesh = #msc.mesh<"d=4">} {
  // expected-error @+1 {{forward: argument 0, tensor<2x4xf32>, is no part of tensor<9x4xf32, #msc.layout<"[{d},{}]">>}}
  "msc.func"() ({
  ^bb0(%x: tensor<2x4xf32>):
    "msc.return"(%x) : (tensor<2x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{d},{}]", msc.name = "x", msc.role = "data", msc.shape = [9, 4]}],
      result_layouts = ["[{d},{}]"], result_shapes = [[8, 4]], sym_name = "forward"} : () -> ()
}
