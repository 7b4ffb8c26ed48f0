// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
// Every op has a fault of its own, and all are reported.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>, %c: tensor<30x12xf32>, %i: tensor<32x4xi32>):
    // expected-error @below {{in_strategy: the entry of operand 0 (a) must be a list of parts, one for each dimension}}
    // expected-error @below {{in_strategy: the entry of operand 1 (b) must be a list of parts, one for each dimension}}
    %0 = "msc.matmul"(%x, %w) {in_strategy = [2, 4]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("list")
    // expected-error @below {{in_strategy must have one entry for each of the 2 operands of matmul, not 1}}
    %1 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("entries")
    // expected-error @below {{in_strategy: operand 1 (b) has rank 2, its entry has 1 numbers}}
    %2 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [4]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("rank")
    // expected-error @below {{in_strategy: the entry of operand 1 (b) must be a list of parts, one for each dimension}}
    %3 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], 4]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("number")
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a): the number of parts must be an integer of at least 1, not 0}}
    %4 = "msc.matmul"(%x, %w) {in_strategy = [[2, 0], [1, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("zero")
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (a): the number of parts must be an integer of at least 1, not -2}}
    %5 = "msc.matmul"(%x, %w) {in_strategy = [[-2, 1], [1, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("negative")
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (a): the number of parts must be an integer of at least 1, not "2"}}
    %6 = "msc.matmul"(%x, %w) {in_strategy = [["2", 1], [1, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("text")
    // expected-error @below {{in_strategy cuts matmul into 16 parts, more than the 8 devices}}
    // expected-note @below {{a legal strategy: [[4, 2], [2, 1]]}}
    %7 = "msc.matmul"(%x, %w) {in_strategy = [[4, 4], [4, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("many")
    // expected-error @below {{in_strategy cuts matmul into 7 parts, which do not divide the 8 devices}}
    // expected-note @below {{a legal strategy: [[1, 4], [4, 1]]}}
    %8 = "msc.matmul"(%x, %w) {in_strategy = [[1, 7], [7, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("seven")
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a) has 784 elements, which do not divide into 9223372036854775807 parts; nearest legal: 8}}
    // expected-note @below {{a legal strategy: [[1, 8], [8, 1]]}}
    %9 = "msc.matmul"(%x, %w) {in_strategy = [[1, 9223372036854775807], [1, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("huge")
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (x) has 30 elements, which do not divide into 4 parts; nearest legal: 2}}
    // expected-note @below {{a legal strategy: [[2, 1]]}}
    %10 = "msc.relu"(%c) {in_strategy = [[4, 1]]} : (tensor<30x12xf32>) -> tensor<30x12xf32> loc("sizes")
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a) and dimension 0 of operand 1 (b) are the same letter 'k' of matmul, but are cut into 4 and 2 parts}}
    // expected-note @below {{a legal strategy: [[2, 4], [4, 1]]}}
    %11 = "msc.matmul"(%x, %w) {in_strategy = [[2, 4], [2, 1]]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("operands")
    // expected-error @below {{in_strategy: dimension 1 of operand 0 must stay whole in concat, not be cut into 2 parts}}
    // expected-note @below {{a legal strategy: [[4, 1]]}}
    %12 = "msc.concat"(%x) {dim = 1 : i64, in_strategy = [[4, 2]]} : (tensor<32x784xf32>) -> tensor<32x784xf32> loc("whole")
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (x) must stay whole in reshape, not be cut into 8 parts}}
    // expected-note @below {{a legal strategy: [[1, 1]]}}
    %13 = "msc.reshape"(%c) {in_strategy = [[8, 1]], shape = [3, 10, 12]} : (tensor<30x12xf32>) -> tensor<3x10x12xf32> loc("merged")
    // expected-error @below {{in_strategy: dimension 0 of operand 0 (a) and dimension 0 of operand 1 (b) are the same letter 'A' of add, but are cut into 2 and 4 parts}}
    // expected-note @below {{a legal strategy: [[2, 4], [2, 4]]}}
    // expected-error @below {{in_strategy: dimension 1 of operand 0 (a) and dimension 1 of operand 1 (b) are the same letter 'B' of add, but are cut into 4 and 2 parts}}
    %14 = "msc.add"(%0, %11) {in_strategy = [[2, 4], [4, 2]]} : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32> loc("added")
    // expected-error @below {{in_strategy and in_layout are both given; one of them decides}}
    %15 = "msc.relu"(%x) {in_layout = ["[{d},{}]"], in_strategy = [[8, 1]]} : (tensor<32x784xf32>) -> tensor<32x784xf32> loc("both")
    // expected-error @below {{in_strategy: a return has nothing to be cut}}
    "msc.return"(%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15) {in_strategy = [[1]]} : (tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<30x12xf32>, tensor<32x512xf32>, tensor<32x784xf32>, tensor<3x10x12xf32>, tensor<32x512xf32>, tensor<32x784xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "i", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
