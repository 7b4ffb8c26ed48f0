#!/usr/bin/env python3
"""simulated: how far `msc simulate` is from measured steps of GPTs on one node of A100s (figures of the vTrain project,
../shared/data/vtrain; `--every N` takes each Nth row, default 8): mean, median and worst error beside the goal of 6 %.

The device file a100_megatron.json is data sheet but for five constants, fitted by least squares of log time to these
rows: what products reach, bytes per second of all that is not fused, the time of a launch (Python drove the GPUs), of a
collective, and bytes per second of a link.  The measured program computes all of a layer again, cuts layers as Megatron
does, and overlaps nothing; so do these plans."""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
ROWS = os.path.join(os.path.dirname(ROOT), "shared/data/vtrain/ground_truth_single.csv")
VOCAB = 51200


def megatron(layers, tp, dp):
    """Strategies of the model's ops: columns, then rows of the weights over tp."""
    columns, rows = f"(({dp},1,1),(1,{tp}))", f"(({dp},1,{tp}),({tp},1))"
    of = {"embedding": f"(({tp},1),({dp},1))", "head": columns}
    for i in range(layers):
        of.update({f"layer{i}.attention.{op}": columns for op in ("query", "key", "value")})
        of.update({f"layer{i}.attention.out": rows, f"layer{i}.mlp.up": columns, f"layer{i}.mlp.down": rows})
    return [word for op, strategy in of.items() for word in ("--strategy", f"{op}={strategy}")]


def predicted_ms(row):
    """The simulated step of one row of the table."""
    _, batch, micro, hidden, heads, layers, seq, tp, dp, stages = row
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "seq": seq, "batch": batch, "vocab": VOCAB}
    flags = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
    flags += ["--recompute", "1", "--optimizer", "adam", "-o", "model.fbs", *megatron(layers, tp, dp)]
    subprocess.run([sys.executable, "-m", "msc.models", "gpt", *flags], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
    mesh = {name: size for name, size in (("dp", dp), ("tp", tp)) if size > 1} or {"dp": 1}
    keys = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation", f"mesh={json.dumps(mesh)}",
            f"pipeline_stages={stages}", f"micro_size={batch // (micro * dp)}", "compute_type=f16"]
    subprocess.run([MSC, "compile", "model.fbs", "-o", "plan.bin", "--target", "cuda", "--cluster", "a100",
                    *[word for key in keys for word in ("--set", key)]], check=True, stderr=subprocess.DEVNULL)
    device = os.path.join(HERE, "a100_megatron.json")
    told = subprocess.run([MSC, "simulate", "plan.bin", "--cluster", device, "--json"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(told.stdout)["step_ms"]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--every", type=int, default=8)
    every = options.parse_args().every
    if not os.path.exists(ROWS):
        print(f"skipped: {os.path.relpath(ROWS, ROOT)} is not there")
        return
    with open(ROWS, encoding="utf-8") as file:
        rows = [([int(x) for x in row[:10]], float(row[10])) for row in list(csv.reader(file))[1::every]]
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for row, measured in rows:
            errors.append(predicted_ms(row) / measured - 1)
            print(f"  {row}: measured {measured:8.1f} ms, {100 * errors[-1]:+.0f} %", flush=True)
    sizes = [abs(e) for e in errors]
    print(f"simulate beside {len(rows)} measured steps: mean error {100 * statistics.mean(sizes):.1f} % (goal 6), "
          f"median {100 * statistics.median(sizes):.1f} %, worst {100 * max(sizes):.0f} %, all together "
          f"{100 * statistics.mean(errors):+.1f} %")


if __name__ == "__main__":
    main()
