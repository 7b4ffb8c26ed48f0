// RUN: msc opt --passes=cached,host %s
// Beside a GPU the host runs admit: the numbers go there, the places come back; the cache and its users stay on the GPU.
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xf32>, %m: tensor<100x4xf32>, %a: tensor<6xi32>, %b: tensor<2x3xi64>, %g: tensor<12x4xf32>):
    %0 = "msc.gather"(%t, %a) : (tensor<100x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %1 = "msc.add"(%b, %b) : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
    %2 = "msc.gather"(%t, %1) : (tensor<100x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
    %3 = "msc.cast"(%a) {dtype = "i64"} : (tensor<6xi32>) -> tensor<6xi64>
    %4 = "msc.reshape"(%1) {shape = [6]} : (tensor<2x3xi64>) -> tensor<6xi64>
    %5 = "msc.concat"(%3, %4) {dim = 0 : i64} : (tensor<6xi64>, tensor<6xi64>) -> tensor<12xi64>
    %6:2 = "msc.sort"(%5) : (tensor<12xi64>) -> (tensor<12xi64>, tensor<12xi32>)
    %7:2 = "msc.lazy_momentum"(%t, %m, %6#0, %6#1, %g) {lr = 5.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<100x4xf32>, tensor<100x4xf32>, tensor<12xi64>, tensor<12xi32>, tensor<12x4xf32>) -> (tensor<100x4xf32>, tensor<100x4xf32>)
    "msc.return"(%0, %2, %7#0, %7#1) : (tensor<6x4xf32>, tensor<2x3x4xf32>, tensor<100x4xf32>, tensor<100x4xf32>) -> ()
  }) {arg_attrs = [{msc.cache_rows = 20 : i64, msc.name = "t", msc.role = "parameter"},
                   {msc.name = "m", msc.owner = "t", msc.role = "state"},
                   {msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.name = "g", msc.role = "data"}],
      sym_name = "train",
      ties = [-1, -1, 0, 1]} : () -> ()
}
// EXPECT
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%t: tensor<20x4xf32>, %m: tensor<20x4xf32>, %a: tensor<6xi32>, %b: tensor<2x3xi64>, %g: tensor<12x4xf32>):
    %0 = "msc.stash"(%a) {home = "cpu"} : (tensor<6xi32>) -> tensor<6xi32> loc("a")
    %1 = "msc.cast"(%a) {dtype = "i64"} : (tensor<6xi32>) -> tensor<6xi64>
    %2 = "msc.add"(%b, %b) : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
    %3 = "msc.stash"(%2) {home = "cpu"} : (tensor<2x3xi64>) -> tensor<2x3xi64>
    %4 = "msc.reshape"(%2) {shape = [6]} : (tensor<2x3xi64>) -> tensor<6xi64>
    %5 = "msc.concat"(%1, %4) {dim = 0 : i64} : (tensor<6xi64>, tensor<6xi64>) -> tensor<12xi64>
    %6:2 = "msc.sort"(%5) : (tensor<12xi64>) -> (tensor<12xi64>, tensor<12xi32>)
    %7 = "msc.stash"(%6#0) {home = "cpu"} : (tensor<12xi64>) -> tensor<12xi64>
    %8:3 = "msc.admit"(%7, %3, %0) {primitive_target = "CPU", table = "t", updates = true} : (tensor<12xi64>, tensor<2x3xi64>, tensor<6xi32>) -> (tensor<12xi32>, tensor<2x3xi32>, tensor<6xi32>) loc("t.rows")
    %9 = "msc.fetch"(%8#0) : (tensor<12xi32>) -> tensor<12xi32> loc("t.rows")
    %10 = "msc.fetch"(%8#1) : (tensor<2x3xi32>) -> tensor<2x3xi32> loc("t.rows")
    %11 = "msc.fetch"(%8#2) : (tensor<6xi32>) -> tensor<6xi32> loc("t.rows")
    %12 = "msc.gather"(%t, %11) {whole = 21 : i64} : (tensor<20x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %13 = "msc.gather"(%t, %10) {whole = 21 : i64} : (tensor<20x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
    %14:2 = "msc.lazy_momentum"(%t, %m, %9, %6#1, %g) {lr = 5.0e-01 : f32, momentum = 9.0e-01 : f32} : (tensor<20x4xf32>, tensor<20x4xf32>, tensor<12xi32>, tensor<12xi32>, tensor<12x4xf32>) -> (tensor<20x4xf32>, tensor<20x4xf32>)
    "msc.return"(%12, %13, %14#0, %14#1) : (tensor<6x4xf32>, tensor<2x3x4xf32>, tensor<20x4xf32>, tensor<20x4xf32>) -> ()
  }) {arg_attrs = [{msc.cache_rows = 20 : i64, msc.cached = 100 : i64, msc.home = "cpu", msc.name = "t", msc.role = "parameter", msc.shape = [100, 4]},
                   {msc.cached = 100 : i64, msc.home = "cpu", msc.name = "m", msc.owner = "t", msc.role = "state", msc.shape = [100, 4]},
                   {msc.name = "a", msc.role = "data"},
                   {msc.name = "b", msc.role = "data"},
                   {msc.name = "g", msc.role = "data"}],
      sym_name = "train",
      ties = [-1, -1, 0, 1]} : () -> ()
}
