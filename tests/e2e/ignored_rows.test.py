#!/usr/bin/env python3
"""ignored_rows: a classifier whose labels are partly ignore_index, spread unevenly: the mean is over the rows that are
kept on all ranks, so losses and trained weights are those of the formula in f64, on one rank and on four that hold 0 to
3 kept rows each; also beside a second mean over other kept rows, a mean with weights and one over all rows."""
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
         ("auto_parallel", 4, "", {"micro_size": 2, "pipeline_stages": 2}),
         ("semi_auto_parallel", 2, "", {"micro_size": 4, "pipeline_stages": 2, "pipeline_scheduler": "zb-h1"})]


# Beside the mean over the kept rows of y: one over those of z, a mean with the weights u, at least 1 in sum, and one
# over all rows: four divisors, of which micro-batches know none but the last.
BESIDE = f"""
    %2 = "msc.softmax_cross_entropy"(%0, %z) {{ignore_index = -1 : i64}} : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>
    %3 = "msc.mul"(%0, %0) : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}x{CLASSES}xf32>) -> tensor<{BATCH}x{CLASSES}xf32>
    %4 = "msc.reduce_mean"(%3) {{dims = [0, 1]}} : (tensor<{BATCH}x{CLASSES}xf32>) -> tensor<f32>
    %5 = "msc.reduce_sum"(%3) {{dims = [1]}} : (tensor<{BATCH}x{CLASSES}xf32>) -> tensor<{BATCH}xf32>
    %6 = "msc.mul"(%5, %u) : (tensor<{BATCH}xf32>, tensor<{BATCH}xf32>) -> tensor<{BATCH}xf32>
    %7 = "msc.reduce_sum"(%6) {{dims = [0]}} : (tensor<{BATCH}xf32>) -> tensor<f32>
    %8 = "msc.reduce_sum"(%u) {{dims = [0]}} : (tensor<{BATCH}xf32>) -> tensor<f32>
    %9 = "msc.constant"() {{value = dense<1.0> : tensor<f32>}} : () -> tensor<f32>
    %10 = "msc.max"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "msc.div"(%7, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = "msc.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %13 = "msc.add"(%12, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %14 = "msc.add"(%13, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>"""


def model(smoothing, beside):
    more_arguments = f", %z: tensor<{BATCH}xi32>, %u: tensor<{BATCH}xf32>" if beside else ""
    more_roles = """{msc.name = "z", msc.role = "label"}, {msc.name = "u", msc.role = "data"},""" if beside else ""
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%x: tensor<{BATCH}x{WIDTH}xf32>, %y: tensor<{BATCH}xi32>{more_arguments}, %w: tensor<{WIDTH}x{CLASSES}xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<{BATCH}x{WIDTH}xf32>, tensor<{WIDTH}x{CLASSES}xf32>) -> tensor<{BATCH}x{CLASSES}xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) {{ignore_index = -100 : i64, label_smoothing = {smoothing} : f64}} : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>{BESIDE if beside else ""}
    "msc.return"(%{14 if beside else 1}) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}}, {more_roles}
      {{msc.init = "zeros", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = {RATE} : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def samples():
    x = [[math.sin(7 * i + 3 * k) for k in range(WIDTH)] for i in range(BATCH * STEPS)]
    y = [(3 * i + i // 4) % CLASSES if i % BATCH in KEPT[i // BATCH] else -100 for i in range(BATCH * STEPS)]
    z = [(i + i // 3) % CLASSES if i % 5 in (0, 3, 4) else -1 for i in range(BATCH * STEPS)]
    # of the weights of a step the sum is below 1 at first
    u = [0.75 * (i % 7 == 2) if i < BATCH else (i % 4) / 2 for i in range(BATCH * STEPS)]
    return x, y, z, u


def mean_of_kept(logits, labels, smoothing):
    """The mean of the cross entropy over rows with a label, and its slope by the logits."""
    kept = [i for i, label in enumerate(labels) if label >= 0]
    loss, slope = 0.0, [[0.0] * CLASSES for _ in logits]
    for i in kept:
        e = [math.exp(v) for v in logits[i]]
        p = [v / sum(e) for v in e]
        label = [(1 - smoothing) * (c == labels[i]) + smoothing / CLASSES for c in range(CLASSES)]
        loss -= sum(t * math.log(v) for t, v in zip(label, p)) / len(kept)
        slope[i] = [(v - t) / len(kept) for t, v in zip(label, p)]
    return loss, slope


def mean_of_squares(logits, weights, divisor):
    loss = sum(u * v * v for u, row in zip(weights, logits) for v in row) / divisor
    return loss, [[2 * u * v / divisor for v in row] for u, row in zip(weights, logits)]


def by_formula(x, y, z, u, smoothing, beside):
    """Losses and trained weights: gradient descent on the sum of the terms."""
    w, losses = [[0.0] * CLASSES for _ in range(WIDTH)], []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        logits = [[sum(row[k] * w[k][c] for k in range(WIDTH)) for c in range(CLASSES)] for row in x[rows]]
        terms = [mean_of_kept(logits, y[rows], smoothing)]
        if beside:
            terms += [mean_of_kept(logits, z[rows], 0), mean_of_squares(logits, [1] * BATCH, BATCH * CLASSES),
                      mean_of_squares(logits, u[rows], max(1, sum(u[rows])))]
        losses.append(sum(loss for loss, _ in terms))
        w = [[w[k][c] - RATE * sum(slope[i][c] * x[rows][i][k] for _, slope in terms for i in range(BATCH))
              for c in range(CLASSES)] for k in range(WIDTH)]
    return losses, [v for row in w for v in row]


def train(folder, mode, ranks, axis, more, smoothing, beside):
    path, plan, weights = (os.path.join(folder, "rows" + end) for end in (".mlir", ".bin", ".safetensors"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(model(smoothing, beside))
    keys = [f"parallel_mode={mode}"] + ([f"mesh={json.dumps({axis: ranks})}"] if axis and ranks > 1 else
                                        [f"device_num={ranks}"])
    keys += ["gradients_mean=true"] if mode == "data_parallel" else []
    keys += [f"{key}={value}" for key, value in more.items()]
    call(MSC, "compile", path, "-o", plan, *[word for key in keys for word in ("--set", key)])
    data = [f"{name}={folder}/{name}.npy" for name in ("xyzu" if beside else "xy")]
    lines = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--data", *data, "--save",
                 weights).splitlines()
    with open(weights, "rb") as file:
        blob = file.read()
    trained = array.array("f", blob[8 + int.from_bytes(blob[:8], "little"):])
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line], list(trained)


def near(a, b):
    return len(a) == len(b) and all(abs(u - v) <= 1e-5 for u, v in zip(a, b))


with tempfile.TemporaryDirectory() as folder:
    x, y, z, u = samples()
    write_npy(os.path.join(folder, "x.npy"), array.array("f", [v for row in x for v in row]), [BATCH * STEPS, WIDTH])
    for name, kind, values in (("y", "i", y), ("z", "i", z), ("u", "f", u)):
        write_npy(os.path.join(folder, name + ".npy"), array.array(kind, values), [BATCH * STEPS])
    for smoothing, beside in ((0.0, False), (SMOOTHING, False), (0.0, True)):
        want, trained = by_formula(x, y, z, u, smoothing, beside)
        for mode, ranks, axis, more in RUNS:
            losses, weights = train(folder, mode, ranks, axis, more, smoothing, beside)
            if not near(losses, want) or not near(weights, trained):
                sys.exit(f"{mode} {more}, smoothing {smoothing}, {'beside other means' if beside else 'alone'}: losses "
                         f"{losses}, by the formula {want}; weights {weights}, by the formula {trained}")
            print(f"{mode} on {ranks} {more}: {len(losses)} losses and {len(weights)} weights by the formula")
