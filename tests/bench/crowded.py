#!/usr/bin/env python3
"""crowded: a GPT of 4 layers x 256 by more ranks than this machine has cores, on one thread each, beside as many ranks
as it has cores, by turns: a step's time and the CPU time of all ranks in it, as multiples, medians of the rounds; also
with the parallel optimizer, where every rank updates a part of each parameter.

    python3 tests/bench/crowded.py [RANKS [ROUNDS]]     default 8, 5"""
import array
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
MODEL = {"layers": 4, "hidden": 256, "heads": 4, "seq": 128, "batch": 16, "vocab": 1024}
FEW, MANY = 2, 8  # steps; the difference of two runs has no start and no end in it
GOAL = 1.15


def compile_plan(name, ranks, parallel):
    keys = {"device_num": ranks, "parallel_mode": "data_parallel", "enable_parallel_optimizer": str(parallel).lower()}
    words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([MSC, "compile", "gpt.fbs", "-o", name, *words], check=True, capture_output=True)


def run(plan, steps):
    """(seconds, seconds of CPU time) of a whole run."""
    begin = time.perf_counter()
    process = subprocess.Popen([MSC, "run", plan, "--trust-native", "--threads", "1", "--steps", str(steps), "--data",
                                "x=x.bin:i32", "y=x.bin:i32"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"crowded: {plan} failed with exit code {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def step_of(plan):
    few, many = run(plan, FEW), run(plan, MANY)
    return [1e3 * (b - a) / (MANY - FEW) for a, b in zip(few, many)]


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rng = random.Random(1)
        with open("x.bin", "wb") as out:
            array.array("i", (rng.randrange(MODEL["vocab"]) for _ in range(MODEL["seq"] * 512 + 1))).tofile(out)
        sizes = [word for name, size in MODEL.items() for word in (f"--{name}", str(size))]
        subprocess.run([sys.executable, "-m", "msc.models", "gpt", "-o", "gpt.fbs", "--optimizer", "adam", *sizes],
                       check=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
        plans = {"few.bin": (cores, False), "many.bin": (ranks, False), "zero.bin": (ranks, True)}
        for name, (num, parallel) in plans.items():
            compile_plan(name, num, parallel)
        steps = {name: [] for name in plans}
        for _ in range(rounds):
            for name in plans:
                steps[name].append(step_of(name))
        for name, what in (("many.bin", ""), ("zero.bin", ", parallel optimizer")):
            pairs = [*zip(steps[name], steps["few.bin"])]
            time_ratio, cpu_ratio = (statistics.median(own[i] / few[i] for own, few in pairs) for i in range(2))
            print(f"{ranks} ranks on {cores} cores{what}: step {time_ratio:.2f} times that of {cores} ranks "
                  f"(goal {GOAL}), CPU time {cpu_ratio:.2f} times", flush=True)


main()
