#!/usr/bin/env python3
"""recommender: wide_deep and dlrm on made-up clicks, with lazy updates of their tables: the loss falls, and several
ranks, their tables whole, cut by rows, by columns, or as the search finds best, have the losses of one; so have
micro-batches and pipeline stages, tables in host memory with a cache of rows, updates that step every row, where the
optimizer's step of a row without gradient does nothing, and both by a parameter server."""
import json
import os
import subprocess
import sys
import tempfile

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FIELDS, VOCAB, BATCH, STEPS = 6, 40, 32, 40
CACHED = 150  # rows of the table's 240: more than a step names
CUT = {"wide_deep": ["wide", "embedding"], "dlrm": ["embedding"]}


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def model(name, optimizer, lazy, cut=(), cached=0):
    words = [sys.executable, "-m", "msc.models", name, "-o", "m.fbs", "--batch", str(BATCH), "--optimizer", optimizer,
             "--lr", "0.05", "--fields", str(FIELDS), "--vocab", str(VOCAB), "--hidden", "32", "--layers", "2",
             "--cache-rows", str(cached)]
    for op in cut:
        words += ["--strategy", f"{op}={cut[op]}"]
    call(*words, *(["--lazy"] if lazy else []))


def train(name, ranks=1, **keys):
    call(MSC, "compile", "m.fbs", "-o", "m.bin", "--set", f"device_num={ranks}",
         *(word for key, value in keys.items() for word in ("--set", f"{key}={value}")))
    data = ["x=x.npy", "y=y.npy"] + (["numbers=numbers.npy"] if name == "dlrm" else [])
    out = call(MSC, "run", "m.bin", "-n", str(ranks), "--in-order", "--steps", str(STEPS), "--seed", "3", "--json",
               "--data", *data)
    return [line["loss"] for line in map(json.loads, out.splitlines()) if "loss" in line]


def check(what, ok):
    if not ok:
        sys.exit(what)


def near(a, b):
    return len(a) == len(b) == STEPS and all(abs(x - y) <= 2e-5 * (1 + abs(y)) for x, y in zip(a, b))


def run(name, optimizer):
    model(name, optimizer, True)
    one = train(name)
    first, last = sum(one[:5]) / 5, sum(one[-5:]) / 5
    check(f"{name}: losses {one} do not fall", last < 0.97 * first)
    ways = [train(name, 4, parallel_mode="data_parallel", gradients_mean="true"),
            train(name, 2, parallel_mode="auto_parallel"), train(name, 3, parallel_mode="auto_parallel")]
    in_parts = train(name, micro_size=4)
    ways += [in_parts, train(name, 2, parallel_mode="data_parallel", gradients_mean="true", micro_size=2),
             train(name, 2, parallel_mode="semi_auto_parallel", pipeline_stages=2, micro_size=2),
             train(name, 2, parallel_mode="auto_parallel", micro_batch_interleaved=2)]
    for cut in ("((4,1),(1,1))", "((1,4),(1,1))"):
        ops = CUT[name][-1:] if cut.startswith("((1,") else CUT[name]  # the wide table has one column
        model(name, optimizer, True, {op: cut for op in ops})
        ways.append(train(name, 4, parallel_mode="semi_auto_parallel"))
    for number, losses in enumerate(ways):
        check(f"{name}, way {number}: losses {losses}, on one rank {one}", near(losses, one))
    model(name, optimizer, True, cached=CACHED)
    cached = train(name)
    check(f"{name}: losses {cached} with a cache of rows, {one} without", cached == one)
    cached = train(name, micro_size=4)
    check(f"{name}: losses {cached} with a cache and micro-batches, {in_parts} without", cached == in_parts)
    ways.append(train(name, 4, parallel_mode="data_parallel", gradients_mean="true"))
    check(f"{name}: losses {ways[-1]} with a cache on each rank, on one rank {one}", near(ways[-1], one))
    model(name, optimizer, True)
    served = train(name, 2, parallel_mode="data_parallel", gradients_mean="true", parameter_server='{"mode":"sync"}')
    check(f"{name}: losses {served} with rows on a server, {one} on one rank", near(served, one))
    model(name, optimizer, False)
    losses = train(name)
    served = train(name, 2, parallel_mode="data_parallel", gradients_mean="true", parameter_server='{"mode":"sync"}')
    check(f"{name}: losses {served} with tables on a server, {losses} on one rank", near(served, losses))
    if optimizer != "adam":
        check(f"{name}: losses {losses} of updates of all rows, lazily {one}", near(losses, one))
    print(f"{name}, {optimizer}: loss {first:.4f} -> {last:.4f}, alike in {len(ways)} ways to spread it")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    call(sys.executable, "-m", "msc.criteo", "-o", ".", "--samples", str(BATCH * STEPS), "--fields", str(FIELDS),
         "--vocab", str(VOCAB))
    run("wide_deep", "adagrad")
    run("dlrm", "adagrad")
    run("dlrm", "adam")
