// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --passes=strategies --verify-diagnostics %s
module attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">} {
  // expected-error @below {{argument x is tensor<32x784xf32> and cannot have the layout [{dp}]}}
  // expected-error @below {{argument y is tensor<3x6xf32> and cannot have the layout [{tp},{}]}}
  // expected-error @below {{layout "[{xp},{}]": the mesh has no axis 'xp'; did you mean 'dp'?}}
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %y: tensor<3x6xf32>, %z: tensor<32x4xf32>):
    "msc.return"(%x, %y, %z) : (tensor<32x784xf32>, tensor<3x6xf32>, tensor<32x4xf32>) -> ()
  }) {arg_attrs = [{msc.layout = "[{dp}]", msc.name = "x", msc.role = "data"},
                   {msc.layout = "[{tp},{}]", msc.name = "y", msc.role = "data"},
                   {msc.layout = "[{xp},{}]", msc.name = "z", msc.role = "data"}],
      sym_name = "forward"} : () -> ()
}
