// RUN: msc opt --passes=host --verify-diagnostics %s
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>):
    // expected-error @below {{gemm: primitive_target = "CPU": the host has no kernel for it beside the ones of cuda}}
    %0 = "msc.gemm"(%x, %w) {primitive_target = "CPU"} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    "msc.return"(%0) : (tensor<4x2xf32>) -> ()
  }) {sym_name = "forward"} : () -> ()
}
