// RUN: msc opt --split-input-file --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>):
    // expected-error @+1 {{matmul: inner sizes differ: 8}}
    %0 = "msc.matmul"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "msc.return"(%0) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "shapes"} : () -> ()
}
// -----
// All unknown ops are one diagnostic.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{unknown ops: 'msc.ned' (2, first at line 16; did you mean msc.neg?), 'arith.addf' (1, first at line 17)}}
    %0 = "msc.ned"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "arith.addf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "msc.ned"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%2) : (tensor<4xf32>) -> ()
  }) {sym_name = "unknown"} : () -> ()
}
// -----
// Faults of several ops are all found; what follows from them is not reported.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.neg"(%x : (tensor<4xf32>) -> tensor<4xf32>  // expected-error {{expected ',' or ')', not ':'}}
    // expected-error @+1 {{expected an element type such as f32, not 'f3'}}
    %1 = "msc.neg"(%0) : (tensor<4xf32>) -> tensor<4xf3>
    %2 = "msc.neg"(%1) : (tensor<4xf32>) -> tensor<4xf64>
    // expected-error @above {{result 0 of neg is tensor<4xf32>, not tensor<4xf64>}}
    "msc.return"(%2) : (tensor<4xf64>) -> ()
  }) {sym_name = "several"} : () -> ()
}
// -----
// expected-error @unknown {{matmul: operands must}}
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "msc.matmul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("dense1"("model.py":3:4))
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "elsewhere"} : () -> ()
}
// -----
module attributes {msc.mesh = #msc.mesh<"x=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{comm: verb "all_redoos" is not one of: all_reduce all_gather reduce_scatter all_to_all permute exchange broadcast pairs halo shard; did you mean 'all_reduce'?}}
    %0 = "msc.comm"(%x) {dims = [4], from = ["[{}] partial={x}"], shape = [4], to = ["[{}]"], verb = "all_redoos"} : (tensor<4xf32>) -> tensor<4xf32>
    "msc.return"(%0) : (tensor<4xf32>) -> ()
  }) {sym_name = "misspelt_verb"} : () -> ()
}
