// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %w: tensor<784x512xf32>, %c: tensor<30x6xf32>, %small: tensor<3x6xf32>):
    // expected-error @below {{in_layout must be a list with one layout for each operand, such as ["[{dp},{}]"]}}
    %0 = "msc.matmul"(%x, %w) {in_layout = "[{dp},{}]"} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("list")
    // expected-error @below {{in_layout must have one layout for each of the 2 operands of matmul, not 1}}
    %1 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{}]"]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("entries")
    // expected-error @below {{in_layout: the entry of operand 1 (b) must be the text of a layout, such as "[{dp},{}]"}}
    %2 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{}]", 3]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("number")
    // expected-error @below {{layout "[{},{tq}]": the mesh has no axis 'tq'; did you mean 'tp'?}}
    %3 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{}]", "[{},{tq}]"]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("unknown")
    // expected-error @below {{layout "[{dp},{dp}]": axis 'dp' is used twice}}
    %4 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{dp}]", ""]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("twice")
    // expected-error @below {{in_layout: axis 'dp' cuts dimension 0 of operand 0 (a) and dimension 1 of operand 1 (b), which are different letters of matmul}}
    %5 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{}]", "[{},{dp}]"]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("two operands")
    // expected-error @below {{in_layout: dimension 1 of operand 0 (a) and dimension 0 of operand 1 (b) are the same letter 'k' of matmul, but are cut by {tp} and {}}}
    %6 = "msc.matmul"(%x, %w) {in_layout = ["[{dp},{tp}]", "[{},{}]"]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("disagree")
    // expected-error @below {{in_layout: operand 0 (a) has rank 2, its layout [{dp}] has rank 1}}
    %7 = "msc.matmul"(%x, %w) {in_layout = ["[{dp}]", ""]} : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32> loc("rank")
    // expected-error @below {{in_layout: operand 0 (x) cannot be wanted as a partial sum, [{},{}] partial={dp}; which sums stay unfinished follows from the layouts}}
    %8 = "msc.relu"(%0) {in_layout = ["[{},{}] partial={dp}"]} : (tensor<32x512xf32>) -> tensor<32x512xf32> loc("partial")
    // expected-error @below {{in_layout: dimension 0 of operand 0 (x) has 3 elements, fewer than {tp} has parts}}
    %9 = "msc.relu"(%small) {in_layout = ["[{tp},{}]"]} : (tensor<3x6xf32>) -> tensor<3x6xf32> loc("sizes")
    // expected-error @below {{in_layout: dimension 1 of operand 0 must stay whole in concat, not be cut by {tp}}}
    %10 = "msc.concat"(%x) {dim = 1 : i64, in_layout = ["[{dp},{tp}]"]} : (tensor<32x784xf32>) -> tensor<32x784xf32> loc("whole")
    // expected-error @below {{in_layout: reshape cannot be cut like that: of dimensions that it merges, a minor one is cut only when those before it are cut into single elements}}
    %11 = "msc.reshape"(%c) {in_layout = ["[{},{dp}]"], shape = [5, 36]} : (tensor<30x6xf32>) -> tensor<5x36xf32> loc("merged")
    // expected-error @below {{layout "[{dp},{}": ends where ',' or ']' is expected}}
    %12 = "msc.relu"(%x) {in_layout = ["[{dp},{}"]} : (tensor<32x784xf32>) -> tensor<32x784xf32> loc("syntax")
    "msc.return"(%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12) : (tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x512xf32>, tensor<3x6xf32>, tensor<32x784xf32>, tensor<5x36xf32>, tensor<32x784xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "w", msc.role = "parameter"},
                   {msc.name = "c", msc.role = "data"},
                   {msc.name = "small", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
