// RUN: msc opt --set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --passes=strategies --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w1: tensor<512x784xf32>, %w2: tensor<256x512xf32>):
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a) and dimension 1 of operand 1 (b) are the same letter 'k' of matmul, but are cut into 4 and 1 parts}}
    // expected-note @below {{a legal strategy: [[2, 4], [1, 4]]}}
    // expected-note @below {{operand 1 (b) is stored transposed, [n, k]: its entry gives the parts of n, then those of k; stored as [k, n] the given strategy would be legal}}
    %0 = "msc.matmul"(%x, %w1) {in_strategy = [[2, 4], [4, 1]], transpose_b = true} : (tensor<32x784xf32>, tensor<512x784xf32>) -> tensor<32x512xf32> loc("dense1")
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a) and dimension 1 of operand 1 (b) are the same letter 'k' of matmul, but are cut into 8 and 1 parts}}
    // expected-note @below {{a legal strategy: [[1, 8], [1, 8]]}}
    // expected-note @below {{operand 1 (b) is stored transposed, [n, k]: its entry gives the parts of n, then those of k; stored as [k, n] the given strategy would be legal}}
    %1 = "msc.matmul"(%0, %w2) {in_strategy = [[1, 8], [8, 1]], transpose_b = true} : (tensor<32x512xf32>, tensor<256x512xf32>) -> tensor<32x256xf32> loc("dense2")
    "msc.return"(%1) : (tensor<32x256xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w1", msc.role = "parameter"},
                   {msc.name = "w2", msc.role = "parameter"}],
      sym_name = "forward"} : () -> ()
}
