// RUN: msc opt --set device_num=6 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  // expected-error @below {{the mesh dp=2,tp=4 has 8 devices, device_num is 6}}
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>):
    "msc.return"(%x) : (tensor<32x784xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
