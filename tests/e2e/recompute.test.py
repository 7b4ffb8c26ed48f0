#!/usr/bin/env python3
"""recompute: a GPT whose layers the backward computes again, on one rank and on four, with dropout, micro-batches and cut layers: the
losses and weights have the bits of the plan that keeps everything, and the arena is smaller."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from network import write_npy

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
SEQ, VOCAB, BATCH, SAMPLES, STEPS = 32, 50, 8, 32, 6
SIZES = f"--layers 3 --hidden 32 --heads 4 --seq {SEQ} --vocab {VOCAB} --batch {BATCH} --dropout 0.1".split()
AUTO = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"]

# keys, ranks, the most that is left of the arena
RUNS = [
    ([], 1, 0.5),
    (["parallel_mode=data_parallel", "device_num=4"], 4, 0.65),
    (["micro_size=2"], 1, 0.9),
    (["device_num=4", 'mesh={"d":2,"t":2}', "zero=3", *AUTO], 4, 0.9),
]


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def train(keys, ranks, again):
    words = [word for key in keys for word in ("--set", key)]
    plan = json.loads(call(MSC, "compile", f"gpt{again}.fbs", "-o", "plan.bin", "--json", *words))
    out = call(MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(STEPS), "--seed", "5", "--json", "--save", "w.safetensors",
               "--data", "x=x.npy", "y=y.npy")
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return [re.search(r'"loss": ?([^,}]+)', line).group(1) for line in out.splitlines() if '"step"' in line and '"loss"' in line], weights, plan["memory"]["scratch"]


def main():
    os.environ["PYTHONPATH"] = os.path.abspath("tools/python")
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tokens = [rng.randrange(VOCAB) for _ in range(SAMPLES * SEQ)]
        for name, shift in (("x", 0), ("y", 1)):
            write_npy(f"{name}.npy", array.array("i", tokens[shift:] + tokens[:shift]), [SAMPLES, SEQ])
        for again in (0, 1):
            call(sys.executable, "-m", "msc.models", "gpt", *SIZES, "--recompute", str(again), "-o", f"gpt{again}.fbs")
        for keys, ranks, most in RUNS:
            losses, weights, arena = train(keys, ranks, 0)
            other, others, less = train(keys, ranks, 1)
            print(f"{' '.join(keys) or 'one rank'}: arena {arena} -> {less} bytes")
            assert len(losses) == STEPS and len(set(losses)) == STEPS, losses
            assert other == losses, f"{keys}: losses {other} instead of {losses}"
            assert others == weights, f"{keys}: other weights"
            assert less <= most * arena, f"{keys}: the arena has {less} of {arena} bytes"


main()
