#!/usr/bin/env python3
"""hybrid_parallel: a model of one rank's batch trains as the whole batch does in data_parallel; a layerwise
parameter, behind a collective of the user's, trains as a simulation of the ranks says; masks are those that one
device draws for the whole batch, where ranks hold parts of it, and the same where they hold the same."""
import json
import os
import random
import struct
import subprocess
import sys

import msc

from expect import Expect, write

expect = Expect()
os.environ["XDG_CACHE_HOME"] = "/dev/null"
random.seed(3)
RANKS, STEPS = 4, 4


def npy(path, code, shape, values):
    head = f"{{'descr': '<{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    write(path,
          b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{code[0]}", *values))


def losses(plan, data, ranks=RANKS, *more):
    run = expect([
        "run", plan, "-n",
        str(ranks), "--data", *data, "--steps",
        str(STEPS), "--json", "--trust-native", "--in-order", *more
    ], 0, None)
    return [json.loads(line)["loss"] for line in run.stdout.decode().splitlines()[:STEPS]]


# ---- without collectives: data_parallel ----

npy("x.npy", "f4", [128, 784], [random.random() for _ in range(128 * 784)])
npy("y.npy", "i4", [128], [random.randrange(10) for _ in range(128)])
for name, batch, mode in (("hybrid", 8, "hybrid_parallel"), ("data", 32, "data_parallel")):
    subprocess.run([
        sys.executable, "-m", "msc.models", "ffn", "-o", f"{name}.fbs", "--flat", "--batch",
        str(batch), "--lr", "0.05"
    ], check=True)
    for mean in ("true", "false"):
        expect(
            f"compile {name}.fbs -o {name}.{mean} --set device_num={RANKS} --set parallel_mode={mode} --set "
            f"gradients_mean={mean}",
            0, None)
for mean in ("true", "false"):
    pairs = list(zip(losses(f"hybrid.{mean}", ["x=x.npy", "y=y.npy"]), losses(f"data.{mean}", ["x=x.npy", "y=y.npy"])))
    expect.check(f"gradients_mean {mean}: {pairs}", pairs and all(abs(a - b) <= 1e-6 * abs(b) for a, b in pairs))

# ---- the parallel optimizer: each rank keeps a part of a parameter and its state, and trains the same bits ----


def kept(optimizer, zero, more="", ranks=RANKS):
    """Losses, what is saved, and the bytes of parameters and state of a rank, with the parallel optimizer."""
    report = json.loads(expect(
        f"compile {optimizer}.mlir -o kept.bin --set device_num={ranks} --set parallel_mode=hybrid_parallel --set "
        f"zero={zero} --json {more}", 0, None).stdout)
    run = losses("kept.bin", ["x=x.npy", "y=y.npy"], ranks, "--save", "kept.safetensors")
    return run, open("kept.safetensors", "rb").read(), report["memory"]["parameters"] + report["memory"]["state"]


for optimizer in ("adam", "lamb"):
    subprocess.run([
        sys.executable, "-m", "msc.models", "ffn", "-o", "kept.fbs", "--flat", "--batch", "8", "--optimizer", optimizer
    ], check=True)
    write(f"{optimizer}.mlir", expect("dump kept.fbs").stdout.decode())
text = open("adam.mlir").read()
write("clipped.mlir", text.replace('kind = "adam"', 'clip_norm = 1.0e-02 : f64, kind = "adam"'))
for optimizer, settings, more, ranks in (("adam", (1, 2, 3), "", RANKS), ("lamb", (1,), "", RANKS),
                                         ("clipped", (1,), "", RANKS),
                                         ("adam", (1,), "--set pipeline_stages=2 --set micro_size=2", 2 * RANKS),
                                         ("adam", (3,), "--set compute_type=bf16 --set gradient_fp32_sync=false "
                                          "--set loss_scale=dynamic", RANKS)):
    whole = kept(optimizer, 0, more, ranks)
    for zero in settings:
        parts = kept(optimizer, zero, more, ranks)
        what = f"{optimizer}, zero {zero} {more}"
        expect.check(f"{what}: losses {parts[0]}, {whole[0]}", parts[0] == whole[0])
        expect.check(f"{what}: the same is saved", parts[1] == whole[1])
        expect.check(f"{what}: {parts[2]} of {whole[2]} bytes", parts[2] < whole[2] * 1.1 / RANKS)
expect.check("the norm is that of whole gradients", kept("clipped", 1)[0] != kept("adam", 1)[0])
kept("adam", 1, '--set parallel_optimizer_config={"parallel_optimizer_threshold":0}')
told = [p["optimizer"] for p in json.loads(expect("explain kept.bin --json").stdout)["parameters"]]
cut = [t for t in told if t.startswith("parameter, update and state: dimension 0 over 4 ranks, ")]
expect.check(f"explain tells {told}", len(told) == 10 and len(cut) == 9 and
             "whole: no dimension can be cut into as many equal parts as there are ranks" in told)

# ---- in stages of a pipeline: every stage's ranks cut the batch alike ----

for micro in (1, 2):
    expect(
        f"compile hybrid.fbs -o staged --set device_num={2 * RANKS} --set parallel_mode=hybrid_parallel --set "
        f"gradients_mean=true --set pipeline_stages=2 --set micro_size={micro}", 0, None)
    pairs = list(zip(losses("staged", ["x=x.npy", "y=y.npy"], 2 * RANKS),
                     losses("hybrid.true", ["x=x.npy", "y=y.npy"])))
    expect.check(f"two stages, {micro} micro-batches: {pairs}",
                 pairs and all(abs(a - b) <= 1e-6 * abs(b) for a, b in pairs))

# ---- running statistics, which ranks renew from their parts of the batch ----

NORM = """module {
  "msc.func"() ({
  ^bb0(%x: TYPE, %g: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>):
    %0:3 = "msc.batch_norm"(%x, %g, %b, %m, %v) {training = true}
           : (TYPE, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (TYPE, tensor<4xf32>, tensor<4xf32>)
    %1 = "msc.mul"(%0#0, %0#0) : (TYPE, TYPE) -> TYPE
    %2 = "msc.mul"(%1, %0#0) : (TYPE, TYPE) -> TYPE
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1, 2, 3]} : (TYPE) -> tensor<f32>
    "msc.return"(%3, %0#1, %0#2) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.init = "ones", msc.name = "g", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "m", msc.role = "state"},
                   {msc.init = "ones", msc.name = "v", msc.role = "state"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.1 : f32}, results = ["loss", "m.new", "v.new"],
      ties = [-1, 3, 4], sym_name = "forward"} : () -> ()
}
"""
npy("images.npy", "f4", [32, 4, 3, 3], [random.random() for _ in range(32 * 36)])
for batch, mode in ((2, "hybrid_parallel"), (8, "data_parallel")):
    write(f"norm{batch}.mlir", NORM.replace("TYPE", f"tensor<{batch}x4x3x3xf32>"))
    expect(f"compile norm{batch}.mlir -o norm{batch}.bin --set device_num={RANKS} --set parallel_mode={mode}", 0, None)
pairs = list(zip(losses("norm2.bin", ["x=images.npy"]), losses("norm8.bin", ["x=images.npy"])))
expect.check(f"batch_norm: {pairs}", pairs and all(abs(a - b) <= 1e-6 for a, b in pairs))

# ---- a parameter of every rank: out = sum over the ranks of x w_r, loss of a rank = mean |out + b - y| ----

LAYERWISE = """module attributes {msc.mesh = #msc.mesh<"d=4">} {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %w: tensor<3x1xf32>, %b: tensor<1xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32> loc("dense")
    %1 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<2x1xf32>) -> tensor<2x1xf32> loc("mixed")
    %2 = "msc.add"(%1, %b) : (tensor<2x1xf32>, tensor<1xf32>) -> tensor<2x1xf32> loc("bias")
    %3 = "msc.mean_absolute_error"(%2, %y) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.init = "ones", msc.layerwise_parallel = true, msc.name = "w", msc.role = "parameter"},
                   {msc.init = "zeros", msc.name = "b", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = 1.0e-02 : f64}, results = ["loss"], sym_name = "forward"} : () -> ()
}
"""
x = [[random.random() for _ in range(3)] for _ in range(2 * RANKS)]
y = [4 * random.random() for _ in range(2 * RANKS)]
npy("u.npy", "f4", [2 * RANKS * STEPS, 3], [v for row in x for v in row] * STEPS)
npy("v.npy", "f4", [2 * RANKS * STEPS, 1], y * STEPS)

def layerwise_losses(limit):
    """Those of every rank's own w and a common b; gradients are clipped by the norm of all of them together."""
    w, b, found = [[1.0] * 3 for _ in range(RANKS)], 0.0, []
    for _ in range(STEPS):
        rows = [[sum(a * c for a, c in zip(x[2 * r + i], w[r])) for i in range(2)] for r in range(RANKS)]
        out = [sum(rows[r][i] for r in range(RANKS)) + b for i in range(2)]
        sign = [[(out[i] > y[2 * r + i]) - (out[i] < y[2 * r + i]) for i in range(2)] for r in range(RANKS)]
        found.append(sum(abs(out[i] - y[2 * r + i]) for r in range(RANKS) for i in range(2)) / 2 / RANKS)
        dout = [sum(sign[r][i] for r in range(RANKS)) / 2 for i in range(2)]  # of the sum of all losses
        dw = [[sum(dout[i] * x[2 * r + i][k] for i in range(2)) for k in range(3)] for r in range(RANKS)]
        rate = 0.01 * min(1, limit / (sum(d * d for row in dw for d in row) + sum(dout)**2)**0.5)
        w = [[w[r][k] - rate * dw[r][k] for k in range(3)] for r in range(RANKS)]
        b -= rate * sum(dout)
    return found


def check_layerwise(what, file, wanted):
    got = losses(file, ["x=u.npy", "y=v.npy"])
    expect.check(f"{what}: {got} {wanted}", all(abs(a - c) < 1e-5 * abs(c) for a, c in zip(got, wanted)))
    return got


for limit in (2.0, 1e9):
    write("layerwise.mlir", LAYERWISE.replace('kind = "sgd"', f'clip_norm = {limit} : f64, kind = "sgd"'))
    expect(f"compile layerwise.mlir -o layerwise.bin --set device_num={RANKS} --set parallel_mode=hybrid_parallel", 0,
           None)
    wanted = layerwise_losses(limit)
    got = check_layerwise(f"layerwise, norm of at most {limit}", "layerwise.bin", wanted)
# A model.fbs that names no mesh: its collectives name the axes of the key mesh, or d.
for axis, words in (("d", ""), ("tp", f'--set mesh={{"tp":{RANKS}}}')):
    g = msc.Graph("layerwise")
    out = g.matmul(g.input("x", "f32", [2, 3]), g.parameter("w", "f32", [3, 1], init="ones", layerwise_parallel=True))
    out = g.add(g.all_reduce(out, axes=f"{{{axis}}}"), g.parameter("b", "f32", [1], init="zeros"))
    g.loss(g.mean_absolute_error(out, g.input("y", "f32", [2, 1], role="label")))
    g.optimizer("sgd", lr=0.01)
    g.save("meshless.fbs")
    expect(
        f"compile meshless.fbs -o meshless.bin --set device_num={RANKS} --set parallel_mode=hybrid_parallel {words}", 0,
        None)
    told = losses("meshless.bin", ["x=u.npy", "y=v.npy"])
    expect.check(f"{axis}: {told} {got}", told == got)
# A sample of every rank at a time: the file lists first the first of each, then the others.
order = [2 * r + i for i in range(2) for r in range(RANKS)]
npy("u.npy", "f4", [2 * RANKS * STEPS, 3], [v for i in order for v in x[i]] * STEPS)
npy("v.npy", "f4", [2 * RANKS * STEPS, 1], [y[i] for i in order] * STEPS)
expect(
    f"compile layerwise.mlir -o micro.bin --set micro_size=2 --set device_num={RANKS} --set "
    f"parallel_mode=hybrid_parallel",
    0, None)
check_layerwise("layerwise, in micro-batches", "micro.bin", wanted)

# ---- masks ----

MASKED = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<Nx6xf32>, %y: tensor<Nx3xf32>, %w: tensor<6x8xf32>, %v: tensor<8x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<Nx6xf32>, tensor<6x8xf32>) -> tensor<Nx8xf32>
    %1 = "msc.dropout"(%0) {rate = RATE : f64} : (tensor<Nx8xf32>) -> tensor<Nx8xf32>
    %2 = "msc.transpose"(%1) {perm = [1, 0]} : (tensor<Nx8xf32>) -> tensor<8xNxf32>
    %3 = "msc.dropout"(%2) {rate = RATE : f64} : (tensor<8xNxf32>) -> tensor<8xNxf32>
    %4 = "msc.dropout"(%v) {rate = RATE : f64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
    %5 = "msc.matmul"(%3, %4) {transpose_a = true} : (tensor<8xNxf32>, tensor<8x3xf32>) -> tensor<Nx3xf32>
    %6 = "msc.constant"() {value = dense<1.0> : tensor<Nx3xf32>} : () -> tensor<Nx3xf32>
    %7 = "msc.dropout"(%6) {rate = RATE : f64} : (tensor<Nx3xf32>) -> tensor<Nx3xf32>
    %8 = "msc.mul"(%5, %7) : (tensor<Nx3xf32>, tensor<Nx3xf32>) -> tensor<Nx3xf32>
    %9 = "msc.mean_absolute_error"(%8, %y) : (tensor<Nx3xf32>, tensor<Nx3xf32>) -> tensor<f32>
    "msc.return"(%9) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.init = "normal:0.3", msc.name = "w", msc.role = "parameter"}, {msc.init = "normal:0.3", msc.name = "v", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = 1.0e-01 : f64}, results = ["loss"], sym_name = "forward"} : () -> ()
}
"""
# Every rank has a w of its own and all samples; their sum is the same everywhere, and so is what is dropped of it.
ALIKE = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8x3xf32>, %w: tensor<6x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    SUM
    %3 = "msc.dropout"(%2) {rate = 0.5 : f64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
    %4 = "msc.mean_absolute_error"(%3, %y) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<f32>
    "msc.return"(%4) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.init = "ones", LAYERWISE msc.name = "w", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = 1.0e-02 : f64}, results = ["loss"], sym_name = "forward"} : () -> ()
}
"""


def close(a, b):
    return len(a) == len(b) == STEPS and all(abs(p - q) <= 1e-5 * abs(q) for p, q in zip(a, b))


npy("p.npy", "f4", [8 * STEPS, 6], [random.random() for _ in range(8 * STEPS * 6)])
npy("q.npy", "f4", [8 * STEPS, 3], [random.random() for _ in range(8 * STEPS * 3)])
got = {}
for name, ranks, rows, rate in (("one", 1, 8, "0.5"), ("four", RANKS, 2, "0.5"), ("whole", 1, 8, "0.0")):
    write(f"{name}.mlir", MASKED.replace("N", str(rows)).replace("RATE", rate))
    expect(
        f"compile {name}.mlir -o {name}.bin --set device_num={ranks} --set "
        f"parallel_mode={'stand_alone' if ranks == 1 else 'hybrid_parallel'} --set "
        f"gradients_mean={'true' if ranks > 1 else 'false'}",
        0, None)
    got[name] = losses(f"{name}.bin", ["x=p.npy", "y=q.npy"], ranks)
expect.check(f"masks of the whole batch: {got}", close(got["four"], got["one"]) and not close(got["one"], got["whole"]))
for name, ranks, rows in ("one", 1, 8), ("four", RANKS,
                                         2):  # without a mask made of a constant: micro-batches refuse it
    write(f"{name}.micro.mlir",
          MASKED.replace('"msc.dropout"(%6)', '"msc.dropout"(%5)').replace("N", str(rows)).replace("RATE", "0.5"))
    expect(
        f"compile {name}.micro.mlir -o {name}.micro.bin --set micro_size=2 --set device_num={ranks} --set "
        f"parallel_mode={'stand_alone' if ranks == 1 else 'hybrid_parallel'} --set "
        f"gradients_mean={'true' if ranks > 1 else 'false'}",
        0, None)
    got[name + ".micro"] = losses(f"{name}.micro.bin", ["x=p.npy", "y=q.npy"], ranks)
expect.check(f"masks of the whole micro-batch: {got}",
             close(got["four.micro"], got["one.micro"]) and not close(got["one.micro"], got["one"]))
expect.check("the same masks again", losses("four.bin", ["x=p.npy", "y=q.npy"]) == got["four"])

# The gradient of each w comes through the sum from four equal losses: four times that of one, as that of w in 4 x w.
SUM = {1: """%1 = "msc.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
    %2 = "msc.mul"(%0, %1) : (tensor<8x3xf32>, tensor<f32>) -> tensor<8x3xf32>""",
       RANKS: """%2 = "msc.all_reduce"(%0) {axes = "{d}"} : (tensor<8x3xf32>) -> tensor<8x3xf32>"""}
for ranks, mode, attributes, layerwise in (1, "stand_alone", "",
                                           ""), (RANKS, "hybrid_parallel", 'attributes {msc.mesh = #msc.mesh<"d=4">} ',
                                                 "msc.layerwise_parallel = true,"):
    write(
        f"alike{ranks}.mlir",
        ALIKE.replace("module {", f"module {attributes}{{").replace("SUM", SUM[ranks]).replace("LAYERWISE", layerwise))
    expect(
        f"compile alike{ranks}.mlir -o alike{ranks}.bin --set full_batch=true --set device_num={ranks} --set "
        f"parallel_mode={mode}",
        0, None)
    got[ranks] = losses(f"alike{ranks}.bin", ["x=p.npy", "y=q.npy"], ranks)
expect.check(f"masks of what is alike: {got}", close(got[RANKS], got[1]))
expect.done()
