#!/usr/bin/env python3
"""Functional sharding: a block with shard=True inside a network, in every mode that finds places: losses of one
rank; its borders are as told, the rest is whole; other modes say that they ignore it; the model file keeps it."""
import array
import json
import os
import re
import subprocess
import sys
import tempfile


MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS = 8, 4
MODES = [
    "parallel_mode=semi_auto_parallel", "parallel_mode=auto_parallel search_mode=sharding_propagation",
    "parallel_mode=auto_parallel search_mode=recursive_programming",
    "parallel_mode=auto_parallel search_mode=dynamic_programming"
]


def call(*words):
    done = subprocess.run([MSC, *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def keys(text):
    return [word for key in text.split() for word in ("--set", key)]


def build(path, **hints):
    import msc

    g = msc.Graph("functional")
    x, y = g.input("x", "f32", [BATCH, 12]), g.input("y", "f32", [BATCH, 4], role="label")
    h = g.tanh(g.dense(x, 8, "first"), name="bend")
    with g.block("ffn", **hints):
        up = g.relu(g.dense(h, 24, "up"))
        with g.block("inner"):
            down = g.dense(up, 8, "down")
    g.loss(g.mean_squared_error(g.dense(g.add(down, h, name="sum"), 4, "last"), y))
    g.optimizer("momentum", lr=0.1, momentum=0.9)
    g.save(path)


def train(model, ranks, data, settings):
    code, out, err = call("compile", model, "-o", "net.bin", "--json", "--set", f"device_num={ranks}", *keys(settings))
    if code:
        return err
    code, out, err = call("run", "net.bin", "-n", str(ranks), "--in-order", "--steps", str(STEPS), "--json",
                          "--trust-native", "--data", *data)
    return err if code else [
        json.loads(line)["loss"] for line in out.splitlines() if '"step"' in line and '"loss"' in line
    ]


def near(a, b, tolerance=1e-5):
    return isinstance(a, list) and len(a) == len(b) == STEPS and all(
        abs(x - y) <= tolerance * abs(y) for x, y in zip(a, b))


def check(what, ok, seen=""):
    print(("ok: " if ok else "FAILED: ") + what, "" if ok else seen)
    if not ok:
        failures.append(what)


def layouts(text, op):
    """Of the first op of that name: the layouts of its operands and results."""
    line = next(line for line in text.splitlines() if f'("{op}"(' in line and '"msc.shard"' not in line)
    return set(re.findall(r'#msc.layout<"([^"]*)">', line.partition("} : ")[2]))


def check_all():
    from network import write_npy

    write_npy("x.npy", array.array("f", [(i * 29 % 17) / 9 - 1 for i in range(BATCH * STEPS * 12)]),
              [BATCH * STEPS, 12])
    write_npy("y.npy", array.array("f", [(i * 31 % 13) / 7 - 1 for i in range(BATCH * STEPS * 4)]), [BATCH * STEPS, 4])
    data = ["x=x.npy", "y=y.npy"]
    build("plain.fbs")
    build("cut.fbs", shard=True, in_strategy=((4, 1),), out_strategy=((2, 2),))
    build("whole.fbs", shard=True)
    build("wrong.fbs", shard=True, in_strategy=((4, 1), (1, 1)))
    want = train("plain.fbs", 1, data, "parallel_mode=stand_alone")
    check("one rank trains", isinstance(want, list) and len(want) == STEPS, want)
    for mode in MODES:
        for model in ("cut.fbs", "whole.fbs"):
            got = train(model, 4, data, mode)
            check(f"{model}, {mode}", near(got, want), got)
    want = train("plain.fbs", 1, data, "parallel_mode=stand_alone compute_type=bf16")
    got = train("cut.fbs", 4, data, MODES[0] + " compute_type=bf16")
    check("borders are where they were in bf16", near(got, want, 2e-3),
          got)  # sums of ranks are rounded before they are added
    got = train("wrong.fbs", 4, data, MODES[0])
    check("one strategy too many", "block ffn: in_strategy must have one entry for each of its 1 arguments: bend"
          in str(got), got)
    code, _, err = call("compile", "cut.fbs", "-o", "net.bin", *keys("device_num=4 parallel_mode=data_parallel"))
    check("other modes say that they ignore it", code == 0 and
          "shard of block ffn is ignored: parallel_mode is data_parallel" in err, err)
    first = call("dump", "cut.fbs")[1]
    with open("cut.mlir", "w") as file:
        file.write(first)
    check("it is in the text", 'shard = {in_strategy = [[4, 1]], name = "ffn", out_strategy = [[2, 2]]}' in first,
          first)
    text = call("opt", "cut.mlir", "--until=redistribute", *keys("device_num=4 " + MODES[0]))[1]
    check("the rest is whole",
          all(layouts(text, op) <= {"[{},{}]", "[{}]"} for op in ("first", "first.bias_add", "bend", "sum", "last")),
          text)
    check(
        "the block is cut", "[{d},{}]" in layouts(text, "up") and '"ffn.in0"' in text and
        'tensor<8x8xf32, #msc.layout<"[{d:(1)2},{d:(2)2}]">' in text, text)
    code, _, err = call("import", "cut.mlir", "-o", "again.fbs")
    check("and in the file again", code == 0 and call("dump", "again.fbs")[1] == first, err)


failures = []
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    check_all()
    os.chdir("/")
sys.exit(len(failures) > 0)
