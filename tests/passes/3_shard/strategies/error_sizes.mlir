// RUN: msc opt --set device_num=3 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
// What does not divide on so many devices may be cut on others: it need not stay whole.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x12xf32>):
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (x) has 32 elements, which do not divide into 3 parts; nearest legal: 1}}
    // expected-note @below {{a legal strategy: [[1, 1]]}}
    %0 = "msc.relu"(%x) {in_strategy = [[3, 1]]} : (tensor<32x12xf32>) -> tensor<32x12xf32> loc("sizes")
    "msc.return"(%0) : (tensor<32x12xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], sym_name = "forward"} : () -> ()
}
