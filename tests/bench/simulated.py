#!/usr/bin/env python3
"""simulated: how far `msc simulate` is from measured steps of GPTs on A100s (figures of the vTrain project,
../shared/data/vtrain): mean, median and worst error on one node beside the goal of 6 %, on 8 to 64 nodes beside that of
7 %, and how much longer than the best measured row of a model the one takes that is predicted to be the fastest.
`--every N` takes each Nth row of those of one node (default 8), `--jobs N` rows at a time (2).

Two device files describe the machines.  What is not data sheet was fitted by least squares of log time to these rows:
of a device (a100_megatron.json and a100_cluster.json alike) what products reach, bytes per second, the time of a
launch, of a collective and of a section (Python drove the GPUs); of a node's links bytes per second, and how long an
all_reduce of eight takes at least; of the larger cluster (a100_cluster.json) bytes per second between nodes, and of
all_reduces of 2, 4 and 8 in a node, where they are slower than on the single one.  Seven and four constants: the
tables of collectives follow from them.  Rows that are predicted from a fit to the others have errors that are larger
by 0.3 % (one node, fifths) and by 0.9 % (many, elevenths) in the mean.

The measured program computes all of a layer again, cuts layers as Megatron does, each stage of a pipeline with as many,
keeps scores in memory, drops, adds gradients of f16, and overlaps nothing; so do these plans."""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
ROWS = os.path.join(os.path.dirname(ROOT), "shared/data/vtrain")
SINGLE, MANY = os.path.join(HERE, "a100_megatron.json"), os.path.join(HERE, "a100_cluster.json")
VOCAB = 51200
sys.path.insert(0, os.path.join(ROOT, "tools/python"))
from msc.models.__main__ import build, parse  # noqa: E402


def megatron(layers, tp, dp):
    """Layouts of the operands of the model's ops: columns, then rows of the weights over tp, all else whole there."""
    d, t = "{dp}" if dp > 1 else "{}", "{tp}" if tp > 1 else "{}"
    x, vector = f"[{d},{{}},{{}}]", "[{}]"
    columns, rows = [x, f"[{{}},{t}]"], [f"[{d},{{}},{t}]", f"[{t},{{}}]"]
    of = {"embedding": [f"[{t},{{}}]", f"[{d},{{}}]"], "position": [x, "[{},{}]"], "norm": [x, vector, vector],
          "head": columns}
    for layer in (f"layer{i}." for i in range(layers)):
        of.update({f"{layer}norm{i}": [x, vector, vector] for i in (1, 2)})
        of.update({f"{layer}{op}": columns for op in ("attention.query", "attention.key", "attention.value", "mlp.up")})
        for part, last in (("attention", "attention.out"), ("mlp", "mlp.down")):
            of.update({f"{layer}{last}": rows, f"{layer}{last}.bias_add": [x, vector], f"{layer}{part}.add": [x, x]})
    return of


def simulated(row, device, folder):
    """What `msc simulate --json` says of one row of the tables."""
    _, batch, micro, hidden, heads, layers, seq, tp, dp, stages = row
    model, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "plan.bin")
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "seq": seq, "batch": batch, "vocab": VOCAB,
             "stages": stages if stages > 1 else 0}
    flags = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
    g = build(parse(["gpt", *flags, *"--recompute 1 --optimizer adam --dropout 0.1 --attention-dropout 0.1".split(),
                     "-o", model]))
    for op, layouts in megatron(layers, tp, dp).items():
        g.annotate(op, in_layout=layouts)
    g.save(model)
    mesh = {name: size for name, size in (("dp", dp), ("tp", tp)) if size > 1} or {"dp": 1}
    keys = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation", f"mesh={json.dumps(mesh)}",
            f"pipeline_stages={stages}", f"micro_size={batch // (micro * dp)}", "compute_type=f16",
            "library_attention=false", "gradient_fp32_sync=false", "overlap=false"]
    subprocess.run([MSC, "compile", model, "-o", plan, "--target", "cuda", "--cluster", "a100",
                    *[word for key in keys for word in ("--set", key)]], check=True, stderr=subprocess.DEVNULL)
    told = subprocess.run([MSC, "simulate", plan, "--cluster", device, "--json"], check=True, stdout=subprocess.PIPE,
                          text=True, stderr=subprocess.DEVNULL)
    return json.loads(told.stdout)


def step_ms(row, device):
    with tempfile.TemporaryDirectory() as folder:
        return simulated(row, device, folder)["step_ms"]


def regrets(rows, predicted):
    """Of each model on each number of GPUs with several rows: how much longer than the best of them the one takes that
    is predicted to be the fastest."""
    sets = {}
    for (row, measured), ms in zip(rows, predicted):
        gpus, batch, _, *model = row
        sets.setdefault((gpus, batch, *model[:4]), []).append((ms, measured))
    return [min(s)[1] / min(measured for _, measured in s) - 1 for s in sets.values() if len(s) > 1]


def compare(what, goal, rows, device, jobs):
    with ThreadPoolExecutor(jobs) as pool:
        predicted = list(pool.map(lambda row: step_ms(row[0], device), rows))
    errors = [ms / measured - 1 for ms, (_, measured) in zip(predicted, rows)]
    for (row, measured), error in zip(rows, errors):
        print(f"  {row}: measured {measured:8.1f} ms, {100 * error:+.1f} %")
    sizes, regret = [abs(e) for e in errors], regrets(rows, predicted)
    print(f"simulate beside {len(rows)} measured steps on {what}: mean error {100 * statistics.mean(sizes):.1f} % "
          f"(goal {goal}), median {100 * statistics.median(sizes):.1f} %, worst {100 * max(sizes):.0f} %, all together "
          f"{100 * statistics.mean(errors):+.1f} %")
    if regret:
        print(f"  of {len(regret)} sets of rows of one model and batch, the one predicted to be the fastest takes "
              f"{100 * statistics.mean(regret):.1f} % longer than the best in the mean, at most "
              f"{100 * max(regret):.0f} %", flush=True)


def read_rows(name, every=1):
    with open(os.path.join(ROWS, name), encoding="utf-8") as file:
        return [([int(x) for x in row[-11:-1]], float(row[-1])) for row in list(csv.reader(file))[1::every]]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--every", type=int, default=8)
    options.add_argument("--jobs", type=int, default=2)
    o = options.parse_args()
    if not os.path.exists(ROWS):
        print(f"skipped: {os.path.relpath(ROWS, ROOT)} is not there")
        return
    compare("one node", 6, read_rows("ground_truth_single.csv", o.every), SINGLE, o.jobs)
    compare("8 to 64 nodes", 7, read_rows("ground_truth_multi.csv"), MANY, o.jobs)


if __name__ == "__main__":
    main()
