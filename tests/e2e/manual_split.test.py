#!/usr/bin/env python3
"""manual_split: a table of 64 rows in parts of 10, 20, 30 and 4, looked up by four columns, on four ranks: columns
that are aligned to the parts (no sums), any columns (partial sums), and the whole table on one rank train alike; a
column that names a row of another part is told, and so are parts that do not add up."""
import array
import json
import os
import subprocess
import sys
import tempfile

from network import write_npy

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
PARTS = [10, 20, 30, 4]
BATCH, STEPS = 6, 5


def model(given):
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%t: tensor<{BATCH}x4xi32>, %y: tensor<{BATCH}x3xf32>, %table: tensor<64x3xf32>):
    %0 = "msc.gather"(%table, %t) {given}: (tensor<64x3xf32>, tensor<{BATCH}x4xi32>) -> tensor<{BATCH}x4x3xf32>
    %1 = "msc.tanh"(%0) : (tensor<{BATCH}x4x3xf32>) -> tensor<{BATCH}x4x3xf32>
    %2 = "msc.reduce_sum"(%1) {{dims = [1]}} : (tensor<{BATCH}x4x3xf32>) -> tensor<{BATCH}x3xf32>
    %3 = "msc.sub"(%2, %y) : (tensor<{BATCH}x3xf32>, tensor<{BATCH}x3xf32>) -> tensor<{BATCH}x3xf32>
    %4 = "msc.mul"(%3, %3) : (tensor<{BATCH}x3xf32>, tensor<{BATCH}x3xf32>) -> tensor<{BATCH}x3xf32>
    %5 = "msc.reduce_mean"(%4) {{dims = [0, 1]}} : (tensor<{BATCH}x3xf32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "t", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}}, {{msc.init = "normal:0.5", msc.name = "table", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = 3.0e-01 : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def compiled(folder, name, ranks, given):
    path, plan = os.path.join(folder, name + ".mlir"), os.path.join(folder, name + ".bin")
    with open(path, "w") as file:
        file.write(model(given))
    mode = "stand_alone" if ranks == 1 else "semi_auto_parallel"
    code, _, errors = call(
        [MSC, "compile", path, "-o", plan, "--set", f"device_num={ranks}", "--set", f"parallel_mode={mode}"])
    return plan if code == 0 else errors


def train(plan, ranks, data):
    code, out, errors = call(
        [MSC, "run", plan, "-n",
         str(ranks), "--in-order", "--steps",
         str(STEPS), "--json", "--data"] + data)
    if code:
        return errors
    return [json.loads(line)["loss"] for line in out.splitlines() if '"step"' in line and '"loss"' in line]


def check(what, ok, seen=""):
    print(("ok: " if ok else "FAILED: ") + what, "" if ok else seen)
    if not ok:
        failures.append(what)


def near(a, b):
    return isinstance(a, list) and len(a) == len(b) and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b))


failures = []
split = f"manual_split = {PARTS}"
with tempfile.TemporaryDirectory() as folder:
    firsts = [sum(PARTS[:i]) for i in range(4)]
    rows = [firsts[c] + (7 * s + s // 3) % PARTS[c] for s in range(BATCH * STEPS) for c in range(4)]
    files = {name: os.path.join(folder, name + ".npy") for name in ("t", "y", "bad")}
    write_npy(files["t"], array.array("i", rows), [BATCH * STEPS, 4])
    write_npy(files["y"], array.array("f", [(i * 37 % 11) / 5 - 1 for i in range(BATCH * STEPS * 3)]),
              [BATCH * STEPS, 3])
    data = [f"t={files['t']}", f"y={files['y']}"]
    want = train(compiled(folder, "one", 1, ""), 1, data)
    check("one rank trains", isinstance(want, list) and len(want) == STEPS)
    aligned = compiled(folder, "aligned", 4, f"{{in_strategy = [[4, 1], [1, 4]], {split}}} ")
    any_column = compiled(folder, "any", 4, f"{{in_strategy = [[4, 1], [1, 1]], {split}}} ")
    got = train(aligned, 4, data)
    check("columns that are aligned", near(got, want), (aligned, got, want))
    check("any columns", near(train(any_column, 4, data), want))
    rows[4 * 9 + 3] = 59  # the last row of part 2, in column 3
    write_npy(files["bad"], array.array("i", rows), [BATCH * STEPS, 4])
    bad = [f"t={files['bad']}", data[1]]
    check("a row of another part, aligned", "index" in str(train(aligned, 4, bad)))
    check("a row of another part, any columns", isinstance(train(any_column, 4, bad), list))
    wrong = compiled(folder, "wrong", 4, "{in_strategy = [[4, 1], [1, 4]], manual_split = [10, 20, 30, 5]} ")
    check("parts that do not add up", "manual_split: the parts have 65 rows together, the table has 64" in wrong)
    few = compiled(folder, "few", 4, "{in_strategy = [[2, 1], [1, 2]], " + split + "} ")
    check("other numbers of parts", "manual_split" in few and "E0109" in few)
sys.exit(len(failures) > 0)
