#!/usr/bin/env python3
"""random: random models, as tests/passes/random_graph.h makes them, compiled and run: on a CPU and on GPUs, which
the stand-in plays, by one rank and by several, two steps have the losses that one rank of a CPU finds."""
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from program import attempt, finish, run_on_standin, settings  # noqa: E402
from random_model import MSC, OF_ONE_RANK, are_close, generate, write_inputs  # noqa: E402

BUILT = os.path.dirname(MSC)
STANDIN = os.path.join(BUILT, "tests/cuda/standin")
SLOW = "MSC_TEST_SLOW" in os.environ
FIRST, LAST = map(int, os.environ.get("RANDOM_PROGRAMS", "1:400" if SLOW else "80:100").split(":"))
MOST_RANKS = 8 if SLOW else 4


def program(seed):
    """Writes the random model of this seed to model.mlir; returns the facts about it."""
    facts, model = generate(seed)
    with open("model.mlir", "w") as out:
        out.write(model)
    return facts


def losses(target, ranks, keys, words, seed):
    """None: the compiler refuses it, with a reason of the user's."""
    done = subprocess.run(
        [MSC, "compile", "model.mlir", "-o", "p.bin", "--target", target, "--dump-dir", "dump", *settings(keys)],
        capture_output=True, text=True, timeout=300)
    if done.returncode == 1:
        return None
    assert done.returncode == 0, f"seed {seed}, {target}, {keys}: compile: {done.stderr}"
    machine = {} if target == "cpu" else {
        "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"),
        "MSC_STANDIN_SEED": str(seed), "MSC_STANDIN_GPUS": str(ranks)
    }
    done = subprocess.run([
        MSC, "run", "p.bin", "-n",
        str(ranks), "--threads", "1", "--steps", "2", "--seed", "5", "--json", "--data", *words
    ], capture_output=True, text=True, timeout=300, env={**os.environ, **machine})
    assert done.returncode == 0, f"seed {seed}, {target}, {keys}: run: {done.stderr}"
    return [json.loads(line)["loss"] for line in done.stdout.splitlines() if '"loss"' in line]


def check(seed, tally):
    facts = program(seed)
    keys = dict(s.split("=", 1) for s in facts["settings"])
    if not facts["trains"] or facts["mode"] == "data_parallel":
        return  # another mean than one rank's
    keys.pop("gradients_mean", None)
    words, ranks, one = write_inputs(facts, random.Random(seed)), int(
        keys["device_num"]), {k: v for k, v in keys.items() if k in OF_ONE_RANK}
    want = losses("cpu", 1, one, words, seed)
    if want is None:
        tally["refused"] += 1
        return
    tolerance = 8e-2 if facts["narrow"] or "compute_type" in keys else 1e-7 if facts["dtype"] == "f64" else 2e-3
    runs = [("cuda", 1, one)] + ([("cpu", ranks, keys), ("cuda", ranks, keys)] if 1 < ranks <= MOST_RANKS else [])
    for target, num, own in runs:
        got = losses(target, num, own, words, seed)
        tally["refused" if got is None else "run"] += 1
        assert got is None or len(got) == 2 and are_close(want, got, tolerance), (
            f"seed {seed}: {target}, {num} ranks, {own}: losses {got}, of one rank on the CPU {want}")


def main():
    tally = {"run": 0, "refused": 0}
    for seed in range(FIRST, LAST):
        attempt(check, seed, tally)
    finish()
    assert tally["run"] > 4 * tally["refused"], tally
    print(f"{tally['run']} runs have the losses of one rank on a CPU, {tally['refused']} were refused")


run_on_standin(main)
