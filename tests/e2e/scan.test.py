#!/usr/bin/env python3
"""scan: running sums, running products and the largest k along a dimension that is cut: the same losses and trained
parameters on 2, 4 and 6 ranks as on one, and only totals and candidates travel, never the dimension itself."""
import array
import json
import math
import os
import re
import sys
import tempfile

from network import write_npy
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS, ROWS, WIDTH, K, CLASSES = 4, 5, 13, 24, 3, 5
SAMPLES = BATCH * STEPS
ROW, COLUMN = "[{},{%s}]", "[{%s},{}]"
RUNS = [("d=2", "d"), ("d=4", "d"), ("d=6", "d"), ("x=2,y=2", "x,y"), ("x=2,y=2", "y")]


def model(axes):
    cut = f'in_layout = ["{ROW % axes}"]' if axes else ""
    given = f"{{{cut}}} " if axes else ""
    along = f"{{{', '.join(filter(None, ['axis = 1 : i64', cut]))}}} "
    backwards = f"{{{', '.join(filter(None, ['axis = 1 : i64, exclusive = true, reverse = true', cut]))}}} "
    best = f"{{{', '.join(filter(None, [f'k = {K} : i64', cut]))}}} "
    x, k = f"tensor<{BATCH}x{WIDTH}xf32>", f"tensor<{BATCH}x{K}xf32>"
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%t: tensor<{BATCH}xi32>, %y: tensor<{BATCH}xi32>, %table: tensor<{ROWS}x{WIDTH}xf32>, %w: tensor<{K}x{CLASSES}xf32>):
    %0 = "msc.gather"(%table, %t) : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{BATCH}xi32>) -> {x}
    %1 = "msc.cumsum"(%0) {along}: ({x}) -> {x}
    %2 = "msc.tanh"(%1) {given}: ({x}) -> {x}
    %3 = "msc.cumsum"(%2) {backwards}: ({x}) -> {x}
    %4:2 = "msc.topk"(%3) {best}: ({x}) -> ({k}, tensor<{BATCH}x{K}xi32>)
    %5 = "msc.cast"(%4#1) {{dtype = "f32"}} : (tensor<{BATCH}x{K}xi32>) -> {k}
    %6 = "msc.sin"(%5) : ({k}) -> {k}
    %7 = "msc.add"(%4#0, %6) : ({k}, {k}) -> {k}
    %8 = "msc.matmul"(%7, %w) : ({k}, tensor<{K}x{CLASSES}xf32>) -> tensor<{BATCH}x{CLASSES}xf32>
    %9 = "msc.softmax_cross_entropy"(%8, %y) : (tensor<{BATCH}x{CLASSES}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>
    "msc.return"(%9) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "t", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
      {{msc.init = "normal:0.5", msc.name = "table", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = 2.0e-01 : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def sizes_of(mesh):
    return {axis: int(size) for axis, size in (part.split("=") for part in mesh.split(","))}


def train(folder, data, mesh, axes):
    path, plan, weights = (os.path.join(folder, "scan" + end) for end in (".mlir", ".bin", ".safetensors"))
    with open(path, "w") as file:
        file.write(model(axes))
    keys = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation", "mesh=" +
            json.dumps(sizes_of(mesh))] if mesh else ["parallel_mode=stand_alone"]
    call(MSC, "compile", path, "-o", plan, *[word for key in keys for word in ("--set", key)])
    ranks = str(math.prod(sizes_of(mesh).values())) if mesh else "1"
    lines = call(MSC, "run", plan, "-n", ranks, "--in-order", "--json", "--data", *data, "--save", weights).splitlines()
    with open(weights, "rb") as file:
        blob = file.read()
    trained = array.array("f", blob[8 + int.from_bytes(blob[:8], "little"):])
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line], list(trained), call(MSC, "dump", plan)


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-4 * max(1e-2, abs(y)) for x, y in zip(a, b))


with tempfile.TemporaryDirectory() as folder:
    data = []
    for name, rows, factor in (("t", ROWS, 5), ("y", CLASSES, 3)):
        path = os.path.join(folder, name + ".npy")
        write_npy(path, array.array("i", [(factor * i + i // 4) % rows for i in range(SAMPLES)]), [SAMPLES])
        data.append(f"{name}={path}")
    losses, weights, _ = train(folder, data, None, None)
    for mesh, axes in RUNS:
        got, trained, plan = train(folder, data, mesh, axes)
        if not near(got, losses) or not near(trained, weights):
            sys.exit(f"mesh {mesh}, cut over {axes}: losses {got}, on one rank {losses}")
        whole = re.search(rf"(all_\w+|reduce_scatter|exchange|permute) \w+\[{BATCH},{WIDTH}\].*", plan)
        if whole:
            sys.exit(f"mesh {mesh}, cut over {axes}: the dimension itself travels: {whole[0]}")
        print(f"{mesh} over {axes}: {len(got)} losses and {len(trained)} weights as on one rank")
