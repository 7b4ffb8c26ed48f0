#!/usr/bin/env python3
"""Every rank with files of its own, which hold its part of every batch: the losses of the whole files, bit by bit,
for inputs cut along their batch, along other dimensions, not at all, or into parts of which some are empty; batches
are permuted; what does not fit is told."""
import json
import os
import struct

from expect import Expect, write

expect = Expect()
os.environ["XDG_CACHE_HOME"] = "/dev/null"
STEPS = 5
MODEL = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<Nx6xf32>, %y: tensor<Nxi32>, %w: tensor<6x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<Nx6xf32>, tensor<6x3xf32>) -> tensor<Nx3xf32> loc("dense")
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<Nx3xf32>, tensor<Nxi32>) -> tensor<f32>
    "msc.return"(%1, %0) : (tensor<f32>, tensor<Nx3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.init = "normal:0.3", msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = LR : f64}, results = ["loss", "out"], sym_name = "forward"} : () -> ()
}
"""


def npy(path, code, shape, values):
    head = f"{{'descr': '<{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    write(path,
          b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{code[0]}", *values))


def run(plan, ranks, data, *words):
    out = expect(["run", plan, "-n", str(ranks), "--data", *data, "--json", "--trust-native", *words], 0,
                 None).stdout.decode()
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["loss"] for line in lines if "step" in line], [line["eval"] for line in lines if "eval" in line]


def compile_model(name, rows, *keys, lr="0.1"):
    write(f"{name}.mlir", MODEL.replace("N", str(rows)).replace("LR", lr))
    expect(["compile", f"{name}.mlir", "-o", f"{name}.bin", *[word for key in keys for word in ("--set", key)]], 0,
           None)


# Of `batch` samples and 6 columns: the rows and columns of x that each rank reads; of y it reads the rows.
SEMI = "parallel_mode=semi_auto_parallel"
CASES = {
    "rows": (8, 8, [f"device_num=4", "parallel_mode=data_parallel"], [(2 * r, 2 * r + 2, 0, 6) for r in range(4)]),
    "grid": (8, 8, ["device_num=4", SEMI,
                    "dataset_strategy=[[2,2],[2]]"], [(r // 2 * 4, r // 2 * 4 + 4, r % 2 * 3, r % 2 * 3 + 3)
                                                      for r in range(4)]),
    "whole": (8, 8, ["device_num=2", SEMI, "full_batch=true"], [(0, 8, 0, 6)] * 2),
    "uneven": (5, 5, ["device_num=4", "parallel_mode=data_parallel"], [(0, 2, 0, 6), (2, 4, 0, 6), (4, 5, 0, 6),
                                                                       (5, 5, 0, 6)]),
    "hybrid": (8, 2, ["device_num=4", "parallel_mode=hybrid_parallel"], [(2 * r, 2 * r + 2, 0, 6) for r in range(4)]),
}
for name, (batch, rows, keys, boxes) in CASES.items():
    x = [[(7 * i + 3 * k) % 11 / 11 for k in range(6)] for i in range(batch * STEPS)]
    y = [i * i % 3 for i in range(batch * STEPS)]
    npy(f"{name}.x.npy", "f4", [len(x), 6], [v for row in x for v in row])
    npy(f"{name}.y.npy", "i4", [len(y)], y)
    for r, (begin, end, left, right) in enumerate(boxes):
        mine = [b * batch + i for b in range(STEPS) for i in range(begin, end)]
        if not mine:
            continue
        npy(f"{name}.x{r}.npy", "f4", [len(mine), right - left], [v for i in mine for v in x[i][left:right]])
        npy(f"{name}.y{r}.npy", "i4", [len(mine)], [y[i] for i in mine])
    compile_model(name, rows, *keys)
    whole = run(f"{name}.bin", len(boxes), [f"x={name}.x.npy", f"y={name}.y.npy"], "--in-order", "--epochs", "2",
                "--eval", f"{batch}:")
    parts = run(f"{name}.bin", len(boxes), [f"x={name}.x%r.npy", f"y={name}.y%r.npy"], "--in-order", "--epochs", "2",
                "--eval", f"{batch}:")
    expect.check(f"{name}: {parts} {whole}", parts[0] == whole[0] and len(whole[0]) == 2 * STEPS and
                 parts[1][0]["loss"] == whole[1][0]["loss"])
    expect.check(f"{name}: without the labels of the others no accuracy", "accuracy" in whole[1][0] and
                 "accuracy" not in parts[1][0])

# Stages: the first reads x, the last y, of every micro-batch; files that a rank does not read need not be there.
write(
    "stages.mlir",
    MODEL.replace("N", "8").replace("LR", "0.1").replace(' loc("dense")', "").replace(
        "-> tensor<8x3xf32>\n", """-> tensor<8x3xf32> STAGE0
    %2 = "msc.tanh"(%0) STAGE1 : (tensor<8x3xf32>) -> tensor<8x3xf32>
""").replace("STAGE0\n",
             "\n").replace("%w) :",
                           "%w) {pipeline_stage = 0 : i64} :").replace("STAGE1", "{pipeline_stage = 1 : i64}").replace(
                               "(%0, %y) :", "(%2, %y) {pipeline_stage = 1 : i64} :").replace("(%1, %0)", "(%1, %2)"))
expect([
    "compile", "stages.mlir", "-o", "stages.bin",
    *[w for k in ("device_num=2", SEMI, "pipeline_stages=2", "micro_size=2") for w in ("--set", k)]
], 0, None)
x, y = [[(7 * i + 3 * k) % 11 / 11 for k in range(6)] for i in range(8 * STEPS)], [i * i % 3 for i in range(8 * STEPS)]
npy("stages.x0.npy", "f4", [len(x), 6], [v for row in x for v in row])
npy("stages.y1.npy", "i4", [len(y)], y)
whole, _ = run("stages.bin", 2, ["x=stages.x0.npy", "y=stages.y1.npy"], "--in-order", "--epochs", "2")
parts, _ = run("stages.bin", 2, ["x=stages.x%r.npy", "y=stages.y%r.npy"], "--in-order", "--epochs", "2")
expect.check(f"stages: {parts} {whole}", parts == whole and len(whole) == 2 * STEPS)

# Weights that stay: every epoch has the batches of the first, in another order.
compile_model("still", 8, *CASES["grid"][2], lr="0.0")
own = ["x=grid.x%r.npy", "y=grid.y%r.npy"]
ordered, _ = run("still.bin", 4, own, "--in-order", "--steps", str(STEPS))
mixed, _ = run("still.bin", 4, own, "--seed", "0", "--steps", str(2 * STEPS))
epochs = mixed[:STEPS], mixed[STEPS:]
expect.check(f"batches are permuted: {ordered} {mixed}",
             all(sorted(e) == sorted(ordered) for e in epochs) and len(set(map(tuple, (ordered, *epochs)))) == 3)

# A file with one batch less, of a wrong shape, of half a part; a range that cuts a batch.
for r in range(4):
    for what in "xy":
        write(f"short.{what}{r}.npy", open(f"grid.{what}{r}.npy", "rb").read())
npy("short.x1.npy", "f4", [16, 3], [0.0] * 48)
npy("short.y1.npy", "i4", [16], [0] * 16)


def fails(words, *wanted):
    done = expect(f"run grid.bin -n 4 --steps 1 --trust-native {words}", 1, None, None)
    expect.check(f"{words}: {done.stderr}", all(w.encode() in done.stderr for w in wanted))


fails("--data x=short.x%r.npy y=short.y%r.npy", "of all ranks, some hold 4 and some 5")
fails("--data x=grid.x.npy y=grid.y%r.npy", "shape [40,6] does not fit input 'x' of shape [4,3]")
npy("half.npy", "f4", [18, 3], [0.0] * 54)
fails("--data x=half.npy y=grid.y%r.npy",
      "18 samples are no whole number of parts: of every batch rank 0 reads 4 of input 'x'")
fails("--data x=grid.x%r.npy y=grid.y%r.npy --train 4:", "the training range 4:40 cuts a batch of 8 samples")
expect.done()
