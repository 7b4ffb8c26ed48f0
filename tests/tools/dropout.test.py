#!/usr/bin/env python3
"""Dropout in whole runs: the same losses for any number of ranks and threads and any layout; other masks for other
seeds, steps and ops; none in evaluation."""
import json
import struct

from expect import Expect, write

# Two dropouts of one value: they must not become one.
MODEL = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32>, %y: tensor<8xi32>, %w: tensor<12x16xf32>, %v: tensor<16x4xf32>):
    %0 = "msc.matmul"(%x, %w) CUT : (tensor<8x12xf32>, tensor<12x16xf32>) -> tensor<8x16xf32>
    %1 = "msc.relu"(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = "msc.dropout"(%1) {rate = RATE : f64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = "msc.dropout"(%1) {rate = RATE : f64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %4 = "msc.add"(%2, %3) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %5 = "msc.matmul"(%4, %v) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %6 = "msc.softmax_cross_entropy"(%5, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.3"}, {msc.name = "v", msc.role = "parameter", msc.init = "normal:0.3"}],
      optimizer = {kind = "KIND", lr = LR : f32}} : () -> ()
}
"""


def model(name, rate="0.4", strategy="", kind="sgd", lr="0.1"):
    write(name, MODEL.replace("RATE", rate).replace("CUT", strategy).replace("KIND", kind).replace("LR", lr))


def losses(plan, words):
    out = expect(f"run {plan} --data x=x.idx y=y.idx --trust-native --in-order --json {words}", 0, None).stdout.decode()
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["loss"] for line in lines
            if "step" in line and "loss" in line], [line for line in lines if "eval" in json.dumps(line)]


def close(a, b):
    return len(a) == len(b) > 0 and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b))


def idx(name, data, *shape):
    with open(name, "wb") as f:
        f.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(data))


expect = Expect()
idx("x.idx", [(i * 31 + j * 17) % 190 for i in range(32) for j in range(12)], 32, 12)
idx("y.idx", [i * 7 % 4 for i in range(32)], 32)
model("net.mlir")
model("cut.mlir", strategy="{in_strategy = [[2, 1], [1, 2]]}")
model("adam.mlir", kind="adam", lr="0.01")
model("still.mlir", lr="0.0")
model("whole.mlir", rate="0.0")
for name, source, ranks, mode in [("net1", "net", 1, "stand_alone"), ("net2", "net", 2, "data_parallel"),
                                  ("net4", "net", 4, "semi_auto_parallel"), ("cut4", "cut", 4, "semi_auto_parallel"),
                                  ("adam1", "adam", 1, "stand_alone"), ("still1", "still", 1, "stand_alone"),
                                  ("whole1", "whole", 1, "stand_alone")]:
    expect(
        f"compile {source}.mlir -o {name}.bin --set device_num={ranks} --set parallel_mode={mode} --set "
        f"gradients_mean={'true' if mode == 'data_parallel' else 'false'}",
        0, None)

one, _ = losses("net1.bin", "-n 1 --threads 1 --steps 12 --seed 5 --save w.safetensors")
for plan, words in [("net1", "-n 1 --threads 3"), ("net2", "-n 2"), ("net4", "-n 4"), ("cut4", "-n 4")]:
    expect.check(f"{plan} {words}: the losses of one rank",
                 close(losses(f"{plan}.bin", f"{words} --steps 12 --seed 5")[0], one))
whole, _ = losses("whole1.bin", "-n 1 --steps 12 --seed 5")
expect.check("something is dropped", not close(one, whole))
expect.check("beside another optimizer's step", len(losses("adam1.bin", "-n 1 --steps 3")[0]) == 3)

# Weights that stay, and the same samples every four steps: only masks differ.
first, _ = losses("still1.bin", "-n 1 --steps 8 --seed 1 --init w.safetensors")
again, _ = losses("still1.bin", "-n 1 --steps 8 --seed 1 --init w.safetensors")
other, _ = losses("still1.bin", "-n 1 --steps 8 --seed 2 --init w.safetensors")
expect.check("the same seed, the same masks", first == again)
expect.check("another seed, other masks", all(a != b for a, b in zip(first, other)))
expect.check("another step, other masks", all(a != b for a, b in zip(first[:4], first[4:])))

# Evaluation keeps everything, and doubles it as the two dropouts of rate 0 do.
_, dropped = losses("net1.bin", "-n 1 --steps 0 --eval 0:32 --init w.safetensors")
_, kept = losses("whole1.bin", "-n 1 --steps 0 --eval 0:32 --init w.safetensors")
expect.check("evaluation without dropout", dropped == kept and dropped)
expect.done()
