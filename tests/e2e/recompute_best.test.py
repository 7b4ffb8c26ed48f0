#!/usr/bin/env python3
"""recompute=auto against every set of ops: random small models whose ops are marked by hand in all ways; for each
size of plan that comes of it, and one byte less, the plan keeps within the limit and takes at most 2 % longer than
the best of those that do, and never longer with more memory."""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.abspath("tools/python"))
import msc  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
SEEDS = range(20, 30) if os.environ.get("MSC_TEST_SLOW") else (1,)


def make(path, seed, ops, marked=()):
    rng = random.Random(seed)
    g = msc.Graph()
    batch, width = rng.choice([64, 256]), rng.choice([64, 128])
    x, y = g.input("x", "f32", [batch, width]), g.input("y", "f32", [batch, width], role="label")
    values = [x]
    for i in range(ops):
        h, hints = values[-1], {"recompute": True} if i in marked else {}
        kind = rng.choice(["matmul", "matmul", "relu", "tanh", "exp", "add", "mul"])
        if kind == "matmul":
            h = g.matmul(
                h, g.parameter(f"w{i}", "f32", [h.shape[1], width * rng.choice([1, 1, 2, 4])], init="normal:0.02"),
                **hints)
        elif kind in ("add", "mul"):
            h = getattr(g, kind)(h, rng.choice([v for v in values if v.shape == h.shape]), **hints)
        else:
            h = getattr(g, kind)(h, **hints)
        values.append(h)
    h = g.matmul(h, g.parameter("w", "f32", [h.shape[1], width], init="normal:0.02"))
    g.loss(g.mean_squared_error(h, y))
    g.optimizer("sgd", lr=0.1)
    g.save(path)


def plan(*keys):
    """Bytes per rank and milliseconds, or None where nothing fits."""
    run = subprocess.run(
        [MSC, "compile", "m.fbs", "-o", "plan.bin", "--json", *(w for key in keys for w in ("--set", key))],
        capture_output=True, text=True)
    if run.returncode == 1 and "E0118" in run.stderr:
        return None
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    return told["memory_bytes_per_rank"], told["predicted_step_ms"]


def check_memory():
    """The memory of hundreds of trials is that of one."""
    make("many.fbs", 3, 12)
    run = subprocess.run([MSC, "compile", "many.fbs", "-o", "many.bin",
                          "--set", "recompute=auto", "--max-memory", "64M"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def judge(seed):
    ops = 6 if os.environ.get("MSC_TEST_SLOW") else 4
    every = []
    for number in range(2 ** ops):
        make("m.fbs", seed, ops, [i for i in range(ops) if number >> i & 1])
        every.append(plan())
    make("m.fbs", seed, ops)
    before, worst = None, 0
    for limit in sorted({bytes - less for bytes, _ in every for less in (0, 1)}):
        got = plan("recompute=auto", f"memory_limit={limit}")
        best = min((ms for bytes, ms in every if bytes <= limit), default=None)
        if got:
            assert got[0] <= limit, f"seed {seed}: {got[0]} bytes within {limit}"
            assert before is None or got[
                1] <= before, f"seed {seed}: {got[1]} ms within {limit} bytes, {before} ms within less"
            before = got[1]
        if best is None:
            continue
        assert got, f"seed {seed}: nothing within {limit} bytes, where {best} ms can be"
        worst = max(worst, got[1] / best)
        assert got[1] <= 1.02 * best, f"seed {seed}: {got[1]} ms within {limit} bytes, where {best} ms can be"
    print(f"seed {seed}: {len(every)} sets, {len({b for b, _ in every})} sizes, at most {worst:.4f} times the best")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    check_memory()
    for seed in SEEDS:
        judge(seed)
