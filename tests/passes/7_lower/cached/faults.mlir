// RUN: msc opt --passes=cached --split-input-file --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xf32>, %a: tensor<6xi32>):
    %0 = "msc.gather"(%t, %a) : (tensor<100x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    // expected-error @below {{cache_rows of 't': exp reads the table too; it may only be looked up, along its first dimension, and updated lazily}}
    %1 = "msc.exp"(%t) : (tensor<100x4xf32>) -> tensor<100x4xf32>
    "msc.return"(%0, %1) : (tensor<6x4xf32>, tensor<100x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "t", msc.role = "parameter", msc.cache_rows = 20 : i64}, {msc.name = "a", msc.role = "data"}]} : () -> ()
}
// -----
module {
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xi32>, %a: tensor<6xi32>):
    // expected-error @below {{cache_rows of 't': what is looked up depends on what was looked up before}}
    %0 = "msc.gather"(%t, %a) : (tensor<100x4xi32>, tensor<6xi32>) -> tensor<6x4xi32>
    %1 = "msc.gather"(%t, %0) : (tensor<100x4xi32>, tensor<6x4xi32>) -> tensor<6x4x4xi32>
    "msc.return"(%1) : (tensor<6x4x4xi32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "t", msc.role = "parameter", msc.cache_rows = 20 : i64}, {msc.name = "a", msc.role = "data"}]} : () -> ()
}
// -----
module {
  // expected-error @below {{cache_rows of 't': it lives on a parameter server, or in host memory with a cache}}
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xf32>, %a: tensor<6xi32>):
    %0 = "msc.gather"(%t, %a) : (tensor<100x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    "msc.return"(%0) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "t", msc.role = "parameter", msc.cache_rows = 20 : i64, msc.parameter_server = true}, {msc.name = "a", msc.role = "data"}]} : () -> ()
}
// -----
module attributes {msc.target = "cuda"} {
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xf32>, %a: tensor<6xi32>):
    // expected-error @below {{cache_rows of 't': with primitive_target = "CPU" the table stays in host memory, and so do its rows}}
    %0 = "msc.gather"(%t, %a) {primitive_target = "CPU"} : (tensor<100x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    "msc.return"(%0) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "t", msc.role = "parameter", msc.cache_rows = 20 : i64}, {msc.name = "a", msc.role = "data"}]} : () -> ()
}
