#!/usr/bin/env python3
"""uneven: a network none of whose sizes divides, trained on one rank and on 2, 3, 4 and 6: the same losses, the same
trained parameters (written and read again) and the same evaluation, whatever the layouts cut.  A table of 13 rows is
looked up too."""
import array
import json
import os
import subprocess
import sys
import tempfile

from network import read_weights, write_npy

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS, ROWS, WIDTH, HIDDEN, CLASSES = 7, 6, 13, 5, 11, 5
SAMPLES = BATCH * (STEPS + 2)

# Mesh, and in_layout of lookup, dense1, dense2; "" leaves an op to the mode.
RUNS = [
    ("d=2", ["[{d},{}]", "[{}]"], ["[{d},{}]", "[{},{}]"], ["[{d},{}]", "[{},{}]"]),
    ("d=3", ["[{d},{}]", "[{}]"], ["[{},{}]", "[{},{d}]"], ["[{},{d}]", "[{d},{}]"]),
    ("d=3", ["[{},{}]", "[{d}]"], ["[{d},{}]", "[{},{}]"], ["[{d},{}]", "[{},{}]"]),
    ("d=3", ["[{d}/(1,8,4),{}]", "[{}]"], ["[{d}/(2,0,5),{}]", "[{},{}]"], ["[{},{d}/(1,3,7)]", "[{d}/(1,3,7),{}]"]),
    ("x=2,y=2", ["[{x,y},{}]", "[{}]"], ["[{y},{x}]", "[{x},{}]"], ["[{x},{y}]", "[{y},{}]"]),
    ("x=2,y=3", ["[{x},{}]", "[{y}]"], ["[{y,x},{}]", "[{},{}]"], ["[{x},{}]", "[{},{y}]"]),
    ("d=6", ["[{},{}]", "[{d}]"], ["[{d},{}]", "[{},{}]"], ["[{},{d}]", "[{d},{}]"]),
]

# Modes that cut the batch by themselves: 7 samples on so many ranks, of which none has a share that is not another's.
MODES = [("data_parallel", 2), ("data_parallel", 5), ("data_parallel", 6), ("semi_auto_parallel", 5)]


def model(layouts):
    def given(i):
        return f"{{in_layout = {json.dumps(layouts[i])}}} " if layouts else ""

    return f"""module {{
  "msc.func"() ({{
  ^bb0(%t: tensor<{BATCH}xi32>, %y: tensor<{BATCH}xi32>, %table: tensor<{ROWS}x{WIDTH}xf32>, %w1: tensor<{WIDTH}x{HIDDEN}xf32>, %b1: tensor<{HIDDEN}xf32>, %w2: tensor<{HIDDEN}x{CLASSES}xf32>):
    %0 = "msc.gather"(%table, %t) {given(0)}: (tensor<{ROWS}x{WIDTH}xf32>, tensor<{BATCH}xi32>) -> tensor<{BATCH}x{WIDTH}xf32>
    %1 = "msc.matmul"(%0, %w1) {given(1)}: (tensor<{BATCH}x{WIDTH}xf32>, tensor<{WIDTH}x{HIDDEN}xf32>) -> tensor<{BATCH}x{HIDDEN}xf32>
    %2 = "msc.add"(%1, %b1) : (tensor<{BATCH}x{HIDDEN}xf32>, tensor<{HIDDEN}xf32>) -> tensor<{BATCH}x{HIDDEN}xf32>
    %3 = "msc.tanh"(%2) : (tensor<{BATCH}x{HIDDEN}xf32>) -> tensor<{BATCH}x{HIDDEN}xf32>
    %4 = "msc.matmul"(%3, %w2) {given(2)}: (tensor<{BATCH}x{HIDDEN}xf32>, tensor<{HIDDEN}x{CLASSES}xf32>) -> tensor<{BATCH}x{CLASSES}xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>
    "msc.return"(%5, %4) : (tensor<f32>, tensor<{BATCH}x{CLASSES}xf32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "t", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
      {{msc.init = "normal:0.5", msc.name = "table", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "w1", msc.role = "parameter"}},
      {{msc.init = "zeros", msc.name = "b1", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "w2", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "adamw", lr = 5.0e-02 : f64}}, results = ["loss", "logits"], sym_name = "forward"}} : () -> ()
}}
"""


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def train(folder, data, name, ranks, keys, layouts):
    path, plan, weights = (os.path.join(folder, name + end) for end in (".mlir", ".bin", ".safetensors"))
    with open(path, "w") as file:
        file.write(model(layouts))
    call([MSC, "compile", path, "-o", plan] +
         [word for key in [f"device_num={ranks}"] + keys for word in ("--set", key)])
    run = [
        MSC, "run", plan, "-n",
        str(ranks), "--in-order", "--json", "--train", f"0:{BATCH * STEPS}", "--eval", f"{BATCH * STEPS}:{SAMPLES}",
        "--data"
    ] + data
    lines = [json.loads(line) for line in call(run + ["--save", weights]).splitlines()]
    again = [json.loads(line) for line in call(run + ["--init", weights]).splitlines()]
    losses = [line["loss"] for line in lines + again if "loss" in line]
    return losses, [line["accuracy"] for line in lines if "accuracy" in line], read_weights(weights)


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 2e-4 * max(1e-2, abs(y)) for x, y in zip(a, b))


with tempfile.TemporaryDirectory() as folder:
    data = []
    for name, rows, factor in (("t", ROWS, 5), ("y", CLASSES, 3)):
        path = os.path.join(folder, name + ".npy")
        write_npy(path, array.array("i", [(factor * i + i // 4) % rows for i in range(SAMPLES)]), [SAMPLES])
        data.append(f"{name}={path}")
    losses, accuracy, weights = train(folder, data, "one", 1, ["parallel_mode=stand_alone"], None)
    if len(losses) < 2 * STEPS:
        sys.exit(f"{len(losses)} losses of {2 * STEPS} steps")
    def compare(name, ranks, keys, layouts, what):
        got, hits, trained = train(folder, data, name, ranks, keys, layouts)
        if not near(got, losses) or hits != accuracy:
            sys.exit(f"{what}: losses {got} {hits}, on one rank {losses} {accuracy}")
        for n in weights:
            if not near(trained[n], weights[n]):
                sys.exit(f"{what}: parameter {n} is {trained[n]}, on one rank {weights[n]}")
        print(f"{what}: {len(got)} losses and {len(weights)} parameters as on one rank")

    for i, (mesh, *layouts) in enumerate(RUNS):
        axes = dict(axis.split("=") for axis in mesh.split(","))
        ranks = 1
        for size in axes.values():
            ranks *= int(size)
        keys = [
            "parallel_mode=auto_parallel", "search_mode=sharding_propagation",
            "mesh=" + json.dumps({a: int(n) for a, n in axes.items()})
        ]
        compare(f"run{i}", ranks, keys, layouts, f"mesh {mesh}, {layouts}")
    for mode, ranks in MODES:
        keys = [f"parallel_mode={mode}"] + (["gradients_mean=true"] if mode == "data_parallel" else [])
        compare(f"{mode}{ranks}", ranks, keys, None, f"{mode} on {ranks} ranks")
        plan = os.path.join(folder, f"{mode}{ranks}.bin")
        if "every rank computes all" in call([MSC, "explain", plan]):
            sys.exit(f"{mode} on {ranks} ranks: every rank computes the same")
