// RUN: msc opt --passes=lanes --verify-diagnostics --split-input-file %s
// Every value lies in its space, apart from all that is still read.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{log: result 0 lies in bytes 256 to 512 of scratch, which has 448}}
    %1 = "msc.log"(%0) {place = [256]} : (tensor<64xf32>) -> tensor<64xf32>
    "msc.return"(%1) : (tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], scratch = 448 : i64, sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>, %s: tensor<32xf32>):
    // expected-error @+1 {{exp: result 0 lies in bytes 16 to 272 of scratch, which does not begin at a multiple of 64}}
    %0 = "msc.exp"(%x) {place = [16]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{sin: result 0 lies in argument 2, but there are 2}}
    %1 = "msc.sin"(%0) {place = [-3]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{cos: result 0 lies in bytes 0 to 256 of argument 1 s, which has 128}}
    %2 = "msc.cos"(%0) {place = [-2]} : (tensor<64xf32>) -> tensor<64xf32>
    "msc.return"(%1, %2) : (tensor<64xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "s", msc.role = "data"}], scratch = 512 : i64, sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{log: has no places for its 1 results}}
    %1 = "msc.log"(%0) : (tensor<64xf32>) -> tensor<64xf32>
    "msc.return"(%1) : (tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], scratch = 512 : i64, sym_name = "forward"} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32> loc("first")
    // expected-note @+1 {{overwritten here}}
    %1 = "msc.log"(%x) {place = [192]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{add: reads operand 0, result 0 of exp first, in bytes 0 to 256 of scratch, which log has overwritten}}
    %2 = "msc.add"(%0, %1) {place = [512]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    "msc.return"(%2) : (tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], scratch = 768 : i64, sym_name = "forward"} : () -> ()
}
// -----
// A parameter is updated before it is read for the last time, through a reshape.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>, %w: tensor<64xf32>, %g: tensor<64xf32>):
    %0 = "msc.reshape"(%w) {place = [-2], shape = [8, 8]} : (tensor<64xf32>) -> tensor<8x8xf32>
    // expected-note @+1 {{overwritten here}}
    %1 = "msc.sgd"(%w, %g) {lr = 1.0e+00 : f64, place = [-2]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{gemm: reads a value that sgd has overwritten; use its result}}
    %2 = "msc.gemm"(%x, %0) {place = [0]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%2, %1) : (tensor<8x8xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}, {msc.name = "g", msc.role = "data"}],
      scratch = 256 : i64, sym_name = "train", ties = [-1, 1]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>, %m: tensor<64x64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-error @+1 {{reshape: result 0 lies in bytes 256 to 512 of scratch, but shares the place of what lies in bytes 0 to 256 of scratch, 0 elements behind its begin}}
    %1 = "msc.reshape"(%0) {place = [256], shape = [1, 64]} : (tensor<64xf32>) -> tensor<1x64xf32>
    "msc.return"(%1) : (tensor<1x64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "m", msc.role = "data"}], scratch = 512 : i64, sym_name = "forward"} : () -> ()
}
// -----
// Only some ops may write where they read.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<1x64xf32>, %m: tensor<64x64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %1 = "msc.log"(%0) {place = [0]} : (tensor<1x64xf32>) -> tensor<1x64xf32>
    // expected-error @+1 {{gemm: result 0 lies in bytes 0 to 256 of scratch, over operand 0, which it still reads}}
    %2 = "msc.gemm"(%1, %m) {place = [0]} : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
    %3 = "msc.reshape"(%2) {place = [0], shape = [8, 8]} : (tensor<1x64xf32>) -> tensor<8x8xf32>
    // expected-error @+1 {{transpose: result 0 lies in bytes 0 to 256 of scratch, over operand 0, which it still reads}}
    %4 = "msc.transpose"(%3) {perm = [1, 0], place = [0]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%4) : (tensor<8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "m", msc.role = "data"}], scratch = 512 : i64, sym_name = "forward"} : () -> ()
}
// -----
// A collective still reads its operand beside other work.
module attributes {msc.mesh = #msc.mesh<"dp=2">} {
  "msc.func"() ({
  ^bb0(%x: tensor<64xf32>):
    %0 = "msc.exp"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32>
    // expected-note @+1 {{read here, until that one is done}}
    %1 = "msc.comm"(%0) {beside = 1 : i64, dims = [128], from = ["[{dp}]"], place = [256], shape = [128], to = ["[{}]"], verb = "all_gather"} : (tensor<64xf32>) -> tensor<128xf32>
    // expected-error @+1 {{sin: writes to bytes 0 to 256 of scratch, where comm still reads result 0 of exp}}
    %2 = "msc.sin"(%x) {place = [0]} : (tensor<64xf32>) -> tensor<64xf32>
    "msc.return"(%1, %2) : (tensor<128xf32>, tensor<64xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], scratch = 768 : i64, sym_name = "forward"} : () -> ()
}
// -----
// Tiles go to a kernel: a view takes none.
module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x8xf32>):
    // expected-error @+1 {{gemm: no kernel behind it takes its tiles}}
    %0 = "msc.gemm"(%x, %x) {place = [0], tile = 2 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "msc.reshape"(%0) {place = [0], shape = [8, 8]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "msc.exp"(%1) {place = [0]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%2) : (tensor<8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], scratch = 256 : i64, sym_name = "forward"} : () -> ()
}
