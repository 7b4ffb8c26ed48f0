// RUN: msc opt --set device_num=8 --set parallel_mode=semi_auto_parallel --set dataset_strategy=[[8],[4,1],[4,2],[1,4]] --passes=strategies --verify-diagnostics %s
// expected-error @nowhere {{dataset_strategy: input x has rank 2, its entry has 1 numbers}}
// expected-error @nowhere {{dataset_strategy: dimension 0 of input y has 30 elements, which cannot be cut into 4 parts on 8 devices; nearest legal: 2}}
// expected-error @nowhere {{dataset_strategy: dimension 1 of input u has 6 elements, which cannot be cut into 4 parts on 8 devices; nearest legal: 2}}
// expected-error @nowhere {{dataset_strategy has 4 entries for the 5 inputs of the model}}
module {
  "msc.func"() ({
  ^bb0(%x: tensor<32x784xf32>, %y: tensor<30x6xf32>, %z: tensor<24x6xf32>, %u: tensor<32x6xf32>, %v: tensor<32x6xf32>):
    "msc.return"(%x, %y, %z, %u, %v) : (tensor<32x784xf32>, tensor<30x6xf32>, tensor<24x6xf32>, tensor<32x6xf32>, tensor<32x6xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "y", msc.role = "data"},
                   {msc.name = "z", msc.role = "data"},
                   {msc.name = "u", msc.role = "data"},
                   {msc.name = "v", msc.role = "label"}],
      sym_name = "forward"} : () -> ()
}
