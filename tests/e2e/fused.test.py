#!/usr/bin/env python3
"""fused: attention whose queries, keys and values come from one product, and a gate whose halves do, trained on one
rank and on 2 and 4 that cut the columns of every part alike: the same losses, and files of parameters in the model's
shapes that the others read."""
import array
import json
import os
import re
import sys
import tempfile

import msc
from network import write_npy
from program import call, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, TOKENS, WIDTH, HEADS, INSIDE, STEPS = 4, 6, 16, 4, 24, 5
SAMPLES = BATCH * STEPS
TOGETHER = {"parallel_mode": "auto_parallel", "search_mode": "sharding_propagation"}
# The layout of the attention's values decides: heads are cut, and with them the columns of every part.
RUNS = [({"device_num": 1}, {}),
        ({**TOGETHER, "mesh": {"tp": 2}}, {"w": "[{},{},{tp}]", "b": "[{},{tp}]", "gate": "[{},{tp},{}]"}),
        ({**TOGETHER, "mesh": {"dp": 2, "tp": 2}}, {"w": "[{},{},{tp}]", "b": "[{},{tp}]", "gate": "[{},{tp},{}]"})]


def heads(g, x):
    return g.transpose(g.reshape(x, [BATCH, TOKENS, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def model(path, cut):
    """cut: heads, and the gate's columns, on tp and the batch on dp."""
    g = msc.Graph("fused")
    x, y = g.input("x", "f32", [BATCH, TOKENS, WIDTH]), g.input("y", "f32", [BATCH, TOKENS, WIDTH], role="label")
    rows = g.reshape(x, [BATCH * TOKENS, WIDTH])
    product = g.add(g.matmul(rows, g.parameter("w", "f32", [WIDTH, 3 * WIDTH], init="normal:0.3")),
                    g.parameter("b", "f32", [3 * WIDTH], init="uniform:0.1"))
    q, k, v = (heads(g, part)
               for part in g.split(g.reshape(product, [BATCH, TOKENS, 3 * WIDTH]), dim=2, sizes=[WIDTH] * 3))
    a = g.attention(q, k, v, causal=True, **({"in_strategy": [[cut[0], cut[1], 1, 1]] * 3} if cut else {}))
    h = g.reshape(g.transpose(a, [0, 2, 1, 3]), [BATCH, TOKENS, WIDTH])
    out = {"in_strategy": [[cut[0], 1, cut[1]], [cut[1], 1]]} if cut else {}
    h = g.add(x, g.batch_matmul(h, g.parameter("out", "f32", [WIDTH, WIDTH], init="normal:0.3"), **out))
    both = g.batch_matmul(h, g.parameter("gate", "f32", [2 * INSIDE, WIDTH], init="normal:0.3"), transpose_b=True)
    first, second = g.split(both, dim=2, sizes=[INSIDE] * 2)
    h = g.mul(g.silu(first), second, **({"in_strategy": [[cut[0], 1, cut[1]]] * 2} if cut else {}))
    h = g.batch_matmul(h, g.parameter("down", "f32", [INSIDE, WIDTH], init="normal:0.3"))
    d = g.sub(h, y)
    g.loss(g.reduce_mean(g.mul(d, d), dims=[0, 1, 2]))
    g.optimizer("adamw", lr=0.01)
    g.save(path)


def shapes_of(path):
    with open(path, "rb") as file:
        return {name: e["shape"] for name, e in json.loads(file.read(int.from_bytes(file.read(8), "little"))).items()}


def losses_of(plan, ranks, data, *words):
    lines = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--steps", str(STEPS), "--data", *data,
                 *words).splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


def near(a, b):
    return len(a) == len(b) == STEPS and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b))


def check(ok, text):
    if not ok:
        sys.exit(f"fused: {text}")


def write_data():
    for name, seed in (("x", 7), ("y", 5)):
        write_npy(name + ".npy",
                  array.array("f", [((seed * i + i // 3) % 17 - 8) / 8 for i in range(SAMPLES * TOKENS * WIDTH)]),
                  [SAMPLES, TOKENS, WIDTH])
    return [f"{name}={name}.npy" for name in "xy"]


def main():
    data, expected, again = write_data(), None, None
    for keys, layouts in RUNS:
        mesh = keys.get("mesh", {})
        ranks = mesh.get("dp", 1) * mesh.get("tp", 1)
        model("model.fbs", (mesh.get("dp", 1), mesh["tp"]) if mesh else None)
        call(MSC, "compile", "model.fbs", "-o", "plan.bin", *settings(keys))
        for name, layout in layouts.items():
            line = re.search(rf"^parameter {name} .*", call(MSC, "dump", "plan.bin"), re.M)[0]
            check("of the model's" in line and f" {layout} " in line, f"mesh {mesh}: {line}, expected {layout}")
        states = re.findall(r"^state (?:w|b|gate)\..*", call(MSC, "dump", "plan.bin"), re.M) if layouts else []
        check(
            all("of the model's" in line for line in states) and len(states) == 2 * len(layouts),
            f"mesh {mesh}: {states}")
        losses = losses_of("plan.bin", ranks, data, "--save", f"w{ranks}.safetensors")
        expected = expected or losses
        check(near(losses, expected), f"mesh {mesh}: {losses}, on one rank {expected}")
        check(
            shapes_of(f"w{ranks}.safetensors") == shapes_of("w1.safetensors"),
            f"mesh {mesh}: {shapes_of(f'w{ranks}.safetensors')}")
        further = losses_of("plan.bin", ranks, data, "--init", "w1.safetensors")
        again = again or further
        check(near(further, again), f"mesh {mesh}, from the parameters of one rank: {further}, there {again}")
        print(f"{ranks} ranks: {STEPS} losses, and as many from one rank's parameters")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
