// RUN: msc opt --passes=annotations --verify-diagnostics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6xi32>, %w: tensor<8x4xf32>):
    // expected-error @below {{gather: annotation primitive_target = "CPU" is not supported yet}}
    %0 = "msc.gather"(%w, %x) {primitive_target = "CPU"} : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
    "msc.return"(%0) : (tensor<4x6x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}], sym_name = "forward"} : () -> ()
}
