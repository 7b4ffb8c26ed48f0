#!/usr/bin/env python3
"""A reshape that merges cut dimensions gathers nothing: a layer on [batch, positions, width] that works on [batch *
positions, width] between two reshapes, with both dimensions cut by the user, moves no byte, for every way to cut
them over 6, 8, 12 and 48 ranks; and trains with dropout as one rank does, which merges."""
import array
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))
from network import write_npy  # noqa: E402


from msc import Graph  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))

MODES = ("--set", "parallel_mode=auto_parallel", "--set")


def msc(*args):
    run = subprocess.run([MSC, *map(str, args)], capture_output=True, text=True)
    assert run.returncode == 0, (args, run.stderr)
    return run.stdout


def layer(batch, positions, width, parts):
    """first and last are told how to cut; everything between them is free."""
    g = Graph("layer")
    told = {"in_strategy": [parts]} if parts else {}
    h = g.relu(g.input("x", "f32", [batch, positions, width]), name="first", **told)
    h = g.reshape(h, [batch * positions, width], name="merge")
    w = g.parameter("w", "f32", [width, 2 * width], init="normal:0.1")
    h = g.relu(g.matmul(h, w, name="dense"), name="act")
    h = g.reshape(h, [batch, positions, 2 * width], name="back")
    return g, g.relu(h, name="last", **told)


def cuts(devices, batch, positions):
    return [(b, devices // b) for b in range(1, devices + 1)
            if devices % b == 0 and batch % b == 0 and positions % (devices // b) == 0]


def moves_nothing(devices, batch, positions, search):
    for b, s in cuts(devices, batch, positions):
        g, y = layer(batch, positions, 8, [b, s, 1])
        g.output("y", y)
        g.save("layer.fbs")
        plan = json.loads(
            msc("compile", "layer.fbs", "-o", "layer.bin", "--json", "--set", f"device_num={devices}", *MODES,
                f"search_mode={search}"))
        assert plan["comm_bytes_per_rank"] == 0, (devices, b, s, search, plan["collectives"])
        yield b, s


def losses(ranks, *sets):
    msc("compile", "train.fbs", "-o", "train.bin", *(x for s in (f"device_num={ranks}", *sets) for x in ("--set", s)))
    out = msc("run", "train.bin", "-n", ranks, "--steps", 4, "--seed", 3, "--data", "x=x.npy", "y=y.npy", "--json")
    return [json.loads(line)["loss"] for line in out.splitlines() if '"step"' in line]


def trains_alike():
    g, y = layer(4, 6, 8, None)
    y = g.reshape(y, [24, 16], name="rows")
    y = g.dropout(y, rate=0.5, name="drop")
    labels = g.reshape(g.input("y", "i32", [4, 6], role="label"), [24], name="labels")
    g.loss(g.softmax_cross_entropy(y, labels, name="loss"))
    g.optimizer("sgd", lr=0.1)
    g.save("train.fbs")
    write_npy("x.npy", array.array("f", [math.sin(i) for i in range(16 * 6 * 8)]), [16, 6, 8])
    write_npy("y.npy", array.array("i", [i * 7 % 16 for i in range(16 * 6)]), [16, 6])
    one = losses(1)
    many = losses(4, "parallel_mode=semi_auto_parallel"), losses(6, "parallel_mode=auto_parallel")
    assert len(one) == 4 and all(abs(a - b) < 1e-5 for m in many for a, b in zip(one, m)), (one, many)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    num = sum(1 for d, b, s in ((6, 6, 12), (8, 4, 16), (12, 6, 20), (48, 12, 96))
              for search in ("sharding_propagation", "dynamic_programming") for _ in moves_nothing(d, b, s, search))
    trains_alike()
print(f"{num} cuts without a byte moved")
sys.exit(0)
