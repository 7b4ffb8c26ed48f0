#!/usr/bin/env python3
"""scale: time of every pass over ten thousand ops with all features of training at scale, and plans for sixty
thousand buffers; each figure beside its goal."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
SIZES = "--layers 360 --hidden 128 --heads 4 --seq 32 --vocab 512 --batch 64 --dropout 0.1".split(
)  # 10,086 ops; training has three times as many
STAGES = {
    "device_num": 8, "parallel_mode": "semi_auto_parallel", "pipeline_stages": 2, "micro_size": 4, "zero": 2,
    "micro_batch_interleaved": 2
}
FEATURES = (("stages, micro-batches, zero 2, two copies",
             STAGES), ("the same, interleaved", {**STAGES, "pipeline_scheduler": "interleaved", "pipeline_chunks": 2}),
            ("zero 3, micro-batches", {
                "device_num": 8, "parallel_mode": "semi_auto_parallel", "micro_size": 4, "zero": 3
            }), ("recompute=auto in a quarter of the memory", {"recompute": "auto", "memory_limit": 1_500_000_000}))
MANY, TIME = 60_000, 120_000


def passes():
    subprocess.run([sys.executable, "-m", "msc.models", "gpt", *SIZES, "-o", "scale.fbs"], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
    for name, keys in FEATURES:
        words = [w for key, value in keys.items() for w in ("--set", f"{key}={value}")]
        begin = time.perf_counter()
        process = subprocess.run([MSC, "compile", "scale.fbs", "-o", "scale.bin", "--timing", *words], check=True,
                                 stderr=subprocess.PIPE, text=True)
        whole = time.perf_counter() - begin
        slowest = sorted(((float(ms), p) for ms, p in re.findall(r"^ *([\d.]+) ms  (\w+)$", process.stderr, re.M)),
                         reverse=True)[:3]
        print(f"GPT of 10,086 ops, {name}: " + ", ".join(f"{p} {ms:.0f} ms" for ms, p in slowest) +
              f" (goal 1000 ms each); whole process {whole:.1f} s")


# ---- buffers ----

def training(rng):
    for _ in range(MANY):
        at = rng.random() * TIME
        yield (at / 2, TIME - at / 2, 1024 * rng.choice(
            (1, 4, 4, 16, 64))) if rng.random() < 0.5 else (at, at + rng.expovariate(1 / 4), 1024 * rng.choice(
                (1, 4, 16, 64, 256)))


def pipeline(rng, kept=50, in_flight=200):
    size = [1024 * rng.randint(1, 64) for _ in range(kept)]
    for i in range(MANY):
        begin = i // kept * 2 * kept
        yield begin + i % kept, begin + 2 * kept * (in_flight + 1) - i % kept, size[i % kept]


def random_times(rng, time, size):
    for _ in range(MANY):
        at = rng.random() * TIME
        yield at, at + time(rng), size(rng)


BUFFERS = {
    "training": training,
    "a sixth live at once, as 1F1B's": pipeline,
    "exponential": lambda rng: random_times(rng, lambda r: r.expovariate(1 / 40), lambda r: r.expovariate(1 / 2**18)),
    "heavy-tailed": lambda rng: random_times(rng, lambda r: 2 * r.paretovariate(1.1), lambda r: 64 * min(
        r.paretovariate(1), 1e6)),
    "twelve sizes": lambda rng: random_times(rng, lambda r: r.expovariate(1 / 60), lambda r: 4096 * 1.7**r.randint(
        0, 11)),
    "long-lived": lambda rng: random_times(rng, lambda r: r.random() * TIME / 10, lambda r: r.randint(1, 2**20)),
}


def buffers():
    for name, make in BUFFERS.items():
        with open("buffers.csv", "w") as out:
            out.write("id,lower,upper,size\n")
            out.writelines(f"b{i},{int(lower)},{max(int(lower) + 1, int(upper))},{max(1, int(size))}\n"
                           for i, (lower, upper, size) in enumerate(make(random.Random(1))))
        begin = time.perf_counter()
        plan = json.loads(
            subprocess.run([MSC, "memplan", "buffers.csv", "--json"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout)
        print(
            f"60,000 buffers, {name}: {plan['size'] / plan['lower_bound']:.5f} times what is live at once (goal "
            f"1.003), {time.perf_counter() - begin:.2f} s (goal 2)"
        )


def figures():
    passes()
    buffers()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        figures()
        os.chdir(ROOT)
