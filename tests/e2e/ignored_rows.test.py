#!/usr/bin/env python3
"""ignored_rows: a classifier whose labels are partly ignore_index, spread unevenly: the mean is over the rows that are
kept on all ranks, so losses and trained weights are those of the formula in f64, on one rank and on four that hold 0 to
3 kept rows each."""
import array
import json
import math
import os
import sys
import tempfile

from network import write_npy
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS, WIDTH, CLASSES, RATE, SMOOTHING = 8, 4, 6, 5, 0.5, 0.125
KEPT = [[0, 1, 2, 4], [3], [0, 1, 2, 3, 4, 5, 7], [1, 6]]  # rows of each step
RUNS = [("stand_alone", 1, "d", {}), ("data_parallel", 4, "d", {}), ("semi_auto_parallel", 4, "d", {}),
        ("auto_parallel", 4, "d", {})]
# Of micro-batches, some of which keep no row; both sums are added up before one is divided by the other.
RUNS += [("stand_alone", 1, "d", {"micro_size": 2}), ("stand_alone", 1, "d", {"micro_size": 8}),
         ("stand_alone", 1, "d", {"micro_size": 2, "loss_scale": "dynamic"}),
         ("semi_auto_parallel", 4, "d", {"micro_size": 2}), ("auto_parallel", 4, "d", {"micro_size": 2}),
         ("semi_auto_parallel", 2, "d", {"micro_size": 2, "micro_batch_interleaved": 2}),
         ("semi_auto_parallel", 4, "d", {"micro_size": 2, "zero": 2}),
         ("data_parallel", 2, "d", {"micro_size": 2}), ("data_parallel", 4, "d", {"micro_size": 2, "zero": 2}),
         ("data_parallel", 2, "d", {"micro_size": 2, "micro_batch_interleaved": 2}),
         ("semi_auto_parallel", 2, "", {"micro_size": 4, "pipeline_stages": 2}),
         ("auto_parallel", 4, "", {"micro_size": 2, "pipeline_stages": 2})]


def model(smoothing):
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%x: tensor<{BATCH}x{WIDTH}xf32>, %y: tensor<{BATCH}xi32>, %w: tensor<{WIDTH}x{CLASSES}xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<{BATCH}x{WIDTH}xf32>, tensor<{WIDTH}x{CLASSES}xf32>) -> tensor<{BATCH}x{CLASSES}xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {{ignore_index = -100 : i64, label_smoothing = {smoothing} : f64}} : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
      {{msc.init = "zeros", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = {RATE} : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def samples():
    x = [[math.sin(7 * i + 3 * k) for k in range(WIDTH)] for i in range(BATCH * STEPS)]
    y = [(3 * i + i // 4) % CLASSES if i % BATCH in KEPT[i // BATCH] else -100 for i in range(BATCH * STEPS)]
    return x, y


def by_formula(x, y, smoothing):
    """Losses and trained weights: gradient descent on the mean over kept rows."""
    w, losses = [[0.0] * CLASSES for _ in range(WIDTH)], []
    for step in range(STEPS):
        rows = [i for i in range(step * BATCH, (step + 1) * BATCH) if y[i] >= 0]
        loss, slope = 0.0, [[0.0] * CLASSES for _ in range(WIDTH)]
        for i in rows:
            e = [math.exp(sum(x[i][k] * w[k][c] for k in range(WIDTH))) for c in range(CLASSES)]
            p = [v / sum(e) for v in e]
            label = [(1 - smoothing) * (c == y[i]) + smoothing / CLASSES for c in range(CLASSES)]
            loss -= sum(t * math.log(v) for t, v in zip(label, p)) / len(rows)
            for k in range(WIDTH):
                for c in range(CLASSES):
                    slope[k][c] += (p[c] - label[c]) * x[i][k] / len(rows)
        losses.append(loss)
        w = [[v - RATE * d for v, d in zip(*row)] for row in zip(w, slope)]
    return losses, [v for row in w for v in row]


def train(folder, mode, ranks, axis, more, smoothing):
    path, plan, weights = (os.path.join(folder, "rows" + end) for end in (".mlir", ".bin", ".safetensors"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(model(smoothing))
    keys = [f"parallel_mode={mode}"] + ([f"mesh={json.dumps({axis: ranks})}"] if axis and ranks > 1 else
                                        [f"device_num={ranks}"])
    keys += ["gradients_mean=true"] if mode == "data_parallel" else []
    keys += [f"{key}={value}" for key, value in more.items()]
    call(MSC, "compile", path, "-o", plan, *[word for key in keys for word in ("--set", key)])
    lines = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--data", f"x={folder}/x.npy",
                 f"y={folder}/y.npy", "--save", weights).splitlines()
    with open(weights, "rb") as file:
        blob = file.read()
    trained = array.array("f", blob[8 + int.from_bytes(blob[:8], "little"):])
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line], list(trained)


def near(a, b):
    return len(a) == len(b) and all(abs(u - v) <= 1e-5 for u, v in zip(a, b))


with tempfile.TemporaryDirectory() as folder:
    x, y = samples()
    write_npy(os.path.join(folder, "x.npy"), array.array("f", [v for row in x for v in row]), [BATCH * STEPS, WIDTH])
    write_npy(os.path.join(folder, "y.npy"), array.array("i", y), [BATCH * STEPS])
    for smoothing in (0.0, SMOOTHING):
        want, trained = by_formula(x, y, smoothing)
        for mode, ranks, axis, more in RUNS:
            losses, weights = train(folder, mode, ranks, axis, more, smoothing)
            if not near(losses, want) or not near(weights, trained):
                sys.exit(f"{mode} {more}, smoothing {smoothing}: losses {losses}, by the formula {want}")
            print(f"{mode} on {ranks} {more}: {len(losses)} losses and {len(weights)} weights by the formula")
