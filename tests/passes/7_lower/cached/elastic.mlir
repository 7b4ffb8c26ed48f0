// RUN: msc opt --passes=cached --set elastic=true --set device_num=2 --set parallel_mode=data_parallel --verify-diagnostics %s
module {
  // expected-error @below {{cache_rows of 't': not supported yet with elastic}}
  "msc.func"() ({
  ^bb0(%t: tensor<100x4xf32>, %a: tensor<6xi32>):
    %0 = "msc.gather"(%t, %a) : (tensor<100x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    "msc.return"(%0) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "forward", arg_attrs = [{msc.name = "t", msc.role = "parameter", msc.cache_rows = 20 : i64}, {msc.name = "a", msc.role = "data"}]} : () -> ()
}
