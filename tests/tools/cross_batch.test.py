#!/usr/bin/env python3
"""batch_norm over one replica's part of the batch: data_parallel, and cross_batch in semi_auto_parallel, show the
mean of the losses that single devices have on the parts, and train alike."""
import json
import os
import random
import struct

from expect import Expect, write

expect = Expect()
os.environ["XDG_CACHE_HOME"] = "/dev/null"
random.seed(11)


def npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    write(path, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}f", *values))


def model(path, batch, marks=""):
    write(
        path, f"""module {{
  "msc.func"() ({{
  ^bb0(%x: tensor<{batch}x6xf32>, %y: tensor<{batch}x4xf32>, %w: tensor<6x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<{batch}x6xf32>, tensor<6x4xf32>) -> tensor<{batch}x4xf32> loc("dense")
    %1:3 = "msc.batch_norm"(%0, %g, %b, %m, %v) {{{marks}}} : (tensor<{batch}x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<{batch}x4xf32>, tensor<4xf32>, tensor<4xf32>) loc("norm")
    %2 = "msc.mean_absolute_error"(%1#0, %y) : (tensor<{batch}x4xf32>, tensor<{batch}x4xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}}, {{msc.init = "normal:0.5", msc.name = "w", msc.role = "parameter"}},
                   {{msc.init = "ones", msc.name = "g", msc.role = "parameter"}}, {{msc.init = "zeros", msc.name = "b", msc.role = "parameter"}},
                   {{msc.init = "zeros", msc.name = "m", msc.role = "parameter", msc.trainable = false}}, {{msc.init = "ones", msc.name = "v", msc.role = "parameter", msc.trainable = false}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = 1.0e-02 : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
""")


def losses(plan, ranks, steps, x, y):
    run = expect([
        "run", plan, "-n",
        str(ranks), "--data", f"x={x}", f"y={y}", "--steps",
        str(steps), "--json", "--trust-native", "--in-order"
    ], 0, None)
    return [json.loads(line)["loss"] for line in run.stdout.decode().splitlines()[:steps]]


RANKS, BATCH, STEPS = 4, 16, 3
PART = BATCH // RANKS
x, y = [[random.gauss(0, 1) for _ in range(BATCH * STEPS * n)] for n in (6, 4)]
npy("x.npy", [BATCH * STEPS, 6], x)
npy("y.npy", [BATCH * STEPS, 4], y)
model("plain.mlir", BATCH)
model("marked.mlir", BATCH, "cross_batch = true")
model("part.mlir", PART)
expect(
    f"compile plain.mlir -o data.bin --set device_num={RANKS} --set parallel_mode=data_parallel --set "
    f"gradients_mean=true",
    0, None)
expect(f"compile marked.mlir -o semi.bin --set device_num={RANKS} --set parallel_mode=semi_auto_parallel", 0, None)
expect("compile plain.mlir -o whole.bin", 0, None)
expect("compile part.mlir -o part.bin", 0, None)
data, semi, whole = losses("data.bin", RANKS, STEPS, "x.npy",
                           "y.npy"), losses("semi.bin", RANKS, STEPS, "x.npy",
                                            "y.npy"), losses("whole.bin", 1, STEPS, "x.npy", "y.npy")
parts = []
for r in range(RANKS):
    npy("u.npy", [PART, 6], x[r * PART * 6:(r + 1) * PART * 6])
    npy("v.npy", [PART, 4], y[r * PART * 4:(r + 1) * PART * 4])
    parts += losses("part.bin", 1, 1, "u.npy", "v.npy")


def near(a, b):
    return all(abs(p - q) < 1e-5 * abs(q) for p, q in zip(a, b))


expect.check(f"the mean of the parts: {data} {parts}", near(data[:1], [sum(parts) / RANKS]))
expect.check(f"cross_batch trains as data_parallel: {semi} {data}", near(semi, data))
expect.check(f"which is not what the whole batch gives: {whole}", not near(whole[:1], data[:1]))
expect.done()
