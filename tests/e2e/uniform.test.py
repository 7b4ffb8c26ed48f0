#!/usr/bin/env python3
"""uniform: weights of a loss that are drawn anew in every step: the same losses and trained weights on 2 and 4 ranks as
on one, however the ranks are arranged, and a share of elements below 0.3 as it should be."""
import array
import json
import os
import sys
import tempfile

from network import write_npy
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS, WIDTH = 48, 4, 64
RUNS = [{"parallel_mode": "auto_parallel", "mesh": {"d": 2}}, {"parallel_mode": "data_parallel", "mesh": {"d": 4}},
        {"parallel_mode": "semi_auto_parallel", "mesh": {"x": 2, "y": 2}, "cut": '{in_strategy = [[2, 2]]} '},
        {"parallel_mode": "stand_alone", "micro_size": 1}]


def model(cut):
    x, one = f"tensor<{BATCH}x{WIDTH}xf32>", "tensor<f32>"
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%x: {x}, %w: tensor<{WIDTH}xf32>):
    %0 = "msc.mul"(%x, %w) : ({x}, tensor<{WIDTH}xf32>) -> {x}
    %1 = "msc.uniform"(%0) {cut}: ({x}) -> {x}
    %2 = "msc.constant"() {{value = dense<3.0e-01> : {one}}} : () -> {one}
    %3 = "msc.compare"(%1, %2) {{predicate = "lt"}} : ({x}, {one}) -> tensor<{BATCH}x{WIDTH}xi1>
    %4 = "msc.cast"(%3) {{dtype = "f32"}} : (tensor<{BATCH}x{WIDTH}xi1>) -> {x}
    %5 = "msc.mul"(%0, %4) : ({x}, {x}) -> {x}
    %6 = "msc.reduce_mean"(%5) {{dims = [0, 1]}} : ({x}) -> {one}
    %7 = "msc.reduce_mean"(%4) {{dims = [0, 1]}} : ({x}) -> {one}
    "msc.return"(%6, %7) : ({one}, {one}) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.init = "ones", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = 1.0e+00 : f64}}, results = ["loss", "share"], sym_name = "forward"}} : () -> ()
}}
"""


def train(folder, keys):
    path, plan, weights = (os.path.join(folder, "u" + end) for end in (".mlir", ".bin", ".safetensors"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(model(keys.pop("cut", "")))
    ranks = 1
    for size in keys.get("mesh", {}).values():
        ranks *= size
    if keys["parallel_mode"] == "data_parallel":
        keys["gradients_mean"] = "true"
    words = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in keys.items()]
    call(MSC, "compile", path, "-o", plan, *[word for key in words for word in ("--set", key)])
    lines = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--seed", "7", "--data",
                 f"x={folder}/x.npy", "--save", weights).splitlines()
    with open(weights, "rb") as file:
        blob = file.read()
    steps = [line for line in map(json.loads, lines) if "loss" in line]
    trained = array.array("f", blob[8 + int.from_bytes(blob[:8], "little"):][:4 * WIDTH])
    return [line["loss"] for line in steps], list(trained)


def near(a, b):
    return len(a) == len(b) and all(abs(u - v) <= 1e-5 for u, v in zip(a, b))


with tempfile.TemporaryDirectory() as folder:
    write_npy(os.path.join(folder, "x.npy"), array.array("f", [1.0] * BATCH * STEPS * WIDTH), [BATCH * STEPS, WIDTH])
    losses, trained = train(folder, {"parallel_mode": "stand_alone"})
    if len(losses) != STEPS or len(set(losses)) != STEPS or abs(losses[0] - 0.3) > 0.03:
        sys.exit(f"of all ones a share of about 0.3, another one in each step, should be kept: {losses}")
    for keys in RUNS:
        got, weights = train(folder, dict(keys))
        if not near(got, losses) or not near(weights, trained):
            sys.exit(f"{keys}: losses {got}, on one rank {losses}")
        print(f"{keys}: {len(got)} losses and {len(weights)} weights as on one rank")
