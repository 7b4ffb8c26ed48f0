// RUN: msc opt --set device_num=2 --set parallel_mode=semi_auto_parallel --passes=hybrid --verify-diagnostics %s
module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x3xf32>):
    // expected-error @below {{total: a model says in parallel_mode hybrid_parallel what each rank does, not in semi_auto_parallel}}
    %0 = "msc.all_reduce"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("total")
    "msc.return"(%0) : (tensor<4x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], sym_name = "forward"} : () -> ()
}
