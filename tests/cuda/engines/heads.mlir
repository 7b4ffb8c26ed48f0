// attention as models have it: positions come before heads in memory, and transposes are around it
module {
  "msc.func"() ({
  ^bb0(%x: tensor<16384x768xf32>, %wq: tensor<768x768xf32>, %wk: tensor<768x768xf32>, %wv: tensor<768x768xf32>, %wy: tensor<768x768xf32>, %t: tensor<16384x768xf32>):
    %q = "msc.matmul"(%x, %wq) : (tensor<16384x768xf32>, tensor<768x768xf32>) -> tensor<16384x768xf32>
    %qh = "msc.reshape"(%q) {shape = [16, 1024, 12, 64]} : (tensor<16384x768xf32>) -> tensor<16x1024x12x64xf32>
    %qt = "msc.transpose"(%qh) {perm = [0, 2, 1, 3]} : (tensor<16x1024x12x64xf32>) -> tensor<16x12x1024x64xf32>
    %k = "msc.matmul"(%x, %wk) : (tensor<16384x768xf32>, tensor<768x768xf32>) -> tensor<16384x768xf32>
    %kh = "msc.reshape"(%k) {shape = [16, 1024, 12, 64]} : (tensor<16384x768xf32>) -> tensor<16x1024x12x64xf32>
    %kt = "msc.transpose"(%kh) {perm = [0, 2, 1, 3]} : (tensor<16x1024x12x64xf32>) -> tensor<16x12x1024x64xf32>
    %v = "msc.matmul"(%x, %wv) : (tensor<16384x768xf32>, tensor<768x768xf32>) -> tensor<16384x768xf32>
    %vh = "msc.reshape"(%v) {shape = [16, 1024, 12, 64]} : (tensor<16384x768xf32>) -> tensor<16x1024x12x64xf32>
    %vt = "msc.transpose"(%vh) {perm = [0, 2, 1, 3]} : (tensor<16x1024x12x64xf32>) -> tensor<16x12x1024x64xf32>
    %y = "msc.attention"(%qt, %kt, %vt) {causal = true} : (tensor<16x12x1024x64xf32>, tensor<16x12x1024x64xf32>, tensor<16x12x1024x64xf32>) -> tensor<16x12x1024x64xf32>
    %yt = "msc.transpose"(%y) {perm = [0, 2, 1, 3]} : (tensor<16x12x1024x64xf32>) -> tensor<16x1024x12x64xf32>
    %yr = "msc.reshape"(%yt) {shape = [16384, 768]} : (tensor<16x1024x12x64xf32>) -> tensor<16384x768xf32>
    %z = "msc.matmul"(%yr, %wy) : (tensor<16384x768xf32>, tensor<768x768xf32>) -> tensor<16384x768xf32>
    %loss = "msc.mean_squared_error"(%z, %t) : (tensor<16384x768xf32>, tensor<16384x768xf32>) -> tensor<f32>
    "msc.return"(%loss) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      optimizer = {kind = "sgd", lr = 0.1 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.name = "wq", msc.role = "parameter"},
                   {msc.name = "wk", msc.role = "parameter"},
                   {msc.name = "wv", msc.role = "parameter"},
                   {msc.name = "wy", msc.role = "parameter"},
                   {msc.name = "t", msc.role = "label"}]} : () -> ()
}
