#!/usr/bin/env python3
"""saving: what checkpoints cost a training of a GPT that goes on meanwhile, on one rank: how long the state's copy
keeps the next step from beginning, the goal, and by how much the steps beside the writing are longer than others.

    python3 tests/bench/saving.py"""
import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
STEPS, EVERY = 19, 3
SIZES = {"layers": 4, "hidden": 512, "heads": 8, "seq": 128, "batch": 16, "vocab": 2048}
GOAL = 0.05


def train():
    """Per step: its milliseconds, and those between its end and the next one's beginning."""
    run = subprocess.Popen([MSC, "run", "plan.bin", "--trust-native", "--data", "x=x.bin:i32", "y=x.bin:i32", "--steps",
                            str(STEPS), "--json", "--ckpt-dir", "kept", "--ckpt-every", str(EVERY)],
                           stdout=subprocess.PIPE, text=True)
    steps, ends = [], []
    for line in run.stdout:
        ends.append(1e3 * time.monotonic())
        steps.append(json.loads(line).get("ms", 0))
    if run.wait():
        sys.exit(f"saving: msc run ended with exit code {run.returncode}")
    return steps[:STEPS], [b - a - ms for a, b, ms in zip(ends, ends[1:], steps[1:])]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]
        subprocess.run([sys.executable, os.path.join(ROOT, "tests/bench/gpt.py"), "-o", "model.fbs", *sizes],
                       check=True)
        subprocess.run([MSC, "compile", "model.fbs", "-o", "plan.bin"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        rng = random.Random(1)
        with open("x.bin", "wb") as out:
            array.array("i", (rng.randrange(SIZES["vocab"]) for _ in range(SIZES["seq"] * 64 + 1))).tofile(out)
        steps, gaps = train()
        saved = range(EVERY, STEPS - 1, EVERY)
        beside = [steps[i] for i in saved]  # the step behind each
        step = statistics.median(ms for i, ms in enumerate(steps) if i and i not in saved)
        stall = [gaps[i - 1] for i in saved]
        state = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(f"kept/step-{STEPS:012}")
                    for name in names)
    late, longer = statistics.median(stall), statistics.median(beside) - step
    print(f"checkpoints of {state / 1e6:.0f} MB, steps of {step:.0f} ms: the next step begins {late:.0f} ms later, "
          f"{late / step:.1%} of a step (goal {GOAL:.0%}; the first, which makes room for the copy, {stall[0]:.0f} ms)"
          f"; a step beside the writing is {longer:.0f} ms longer, {longer / step / EVERY:.1%} of all time with a "
          f"checkpoint every {EVERY} steps")


main()
