// RUN: msc opt --set device_num=4 --set parallel_mode=semi_auto_parallel --from=expand --until=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%i: tensor<8xi32>, %t: tensor<16x4xf32>, %u: tensor<32x4xf32>, %y: tensor<8x4xf32>):
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (table) must stay whole in gather because of its gradient, not be cut into 4 parts}}
    // expected-note @below {{a legal strategy: [[1, 1], [1]]}}
    %0 = "msc.gather"(%t, %i) {in_strategy = [[4, 1], [1]]} : (tensor<16x4xf32>, tensor<8xi32>) -> tensor<8x4xf32> loc("embedding")
    // expected-error @below {{in_layout: dimension 0 of operand 0 (table) must stay whole in gather because of its gradient, not be cut by {d}}}
    %1 = "msc.gather"(%u, %i) {in_layout = ["[{d},{}]", "[{}]"]} : (tensor<32x4xf32>, tensor<8xi32>) -> tensor<8x4xf32> loc("positions")
    %2 = "msc.add"(%0, %1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc("added")
    %3 = "msc.mean_absolute_error"(%2, %y) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter"},
                   {msc.name = "u", msc.role = "parameter"},
                   {msc.name = "y", msc.role = "label"}],
      loss = 0 : i64,
      optimizer = {kind = "sgd", lr = 1.0e-01 : f64},
      results = ["loss"],
      sym_name = "forward"} : () -> ()
}
