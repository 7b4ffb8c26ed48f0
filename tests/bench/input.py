#!/usr/bin/env python3
"""input: how fast msc run reads data that need no decoding, beside reading the same file with nothing else to do, and
how long a step waits for data: rows of f32 for a model that only adds them up; digits, tokens and rows of a Parquet
file for models that compute.

    python3 tests/bench/input.py          Parquet: with a Python that has pyarrow"""
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/python"))
import msc  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
ROUNDS = 3
ROWS, WIDTH, BATCH = 65536, 4096, 1024  # 1 GiB of f32
FREE_GOAL, WAIT_GOAL = 2.0, 1.0  # GB/s; percent of a step


def run(plan, data, steps, threads=1):
    """What `msc run --timing` says of a step: its time in ms, ms waited for data, bytes read."""
    words = ["--steps", str(steps), "--timing", "--json", "--trust-native", "--threads", str(threads)]
    out = subprocess.run([MSC, "run", plan, "--data", *data, *words], check=True, capture_output=True, text=True).stdout
    told = json.loads(out.splitlines()[-1])
    return told["step_ms"], told["data_wait_ms"][0], told["data_bytes"][0]


def read_alone(path):
    """GB/s of reading a file into one buffer."""
    room, begin, num = bytearray(16 << 20), time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while n := file.readinto(room):
            num += n
    return num / (time.perf_counter() - begin) / 1e9


def measure_free(path, words, name):
    g = msc.Graph("sum")
    x = g.input("x", "f32", [BATCH, WIDTH])
    w = g.parameter("w", "f32", [1], init="zeros")
    g.loss(g.add(g.reduce_mean(g.slice(x, [0, 0], [1, 1]), [0, 1]), g.reduce_sum(w, [0])))
    g.optimizer("sgd", lr=0.1)
    g.save("sum.fbs")
    subprocess.run([MSC, "compile", "sum.fbs", "-o", "sum.bin"], check=True, capture_output=True)
    rates, alone = [], []
    for _ in range(ROUNDS):
        step, _, read = run("sum.bin", [f"x={words}"], 3 * ROWS // BATCH)
        rates.append(read / step / 1e6)
        alone.append(read_alone(path))
    rate, bare = statistics.median(rates), statistics.median(alone)
    print(f"{name:24} {rate:6.2f} GB/s, read with nothing else {bare:6.2f}   goal {FREE_GOAL} or the disk's",
          flush=True)


def measure_wait(name, model, words, data, steps):
    subprocess.run([sys.executable, "-m", "msc.models", *model, "-o", "m.fbs"], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
    subprocess.run([MSC, "compile", "m.fbs", "-o", "m.bin", *words], check=True, capture_output=True)
    shares, steps_ms = [], []
    for _ in range(ROUNDS):
        step, wait, _ = run("m.bin", data, steps, 2)
        shares.append(100 * wait / step)
        steps_ms.append(step)
    print(f"{name:24} waits {statistics.median(shares):5.2f} % of a step of {statistics.median(steps_ms):.2f} ms"
          f"   goal {WAIT_GOAL} %", flush=True)


def write_idx(path, array):
    with open(path, "wb") as out:
        out.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def main():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        os.chdir(folder)
        rows = rng.random((ROWS, WIDTH), dtype="f4")
        np.save("rows.npy", rows)
        with open("rows.safetensors", "wb") as out:
            entry = {"dtype": "F32", "shape": [ROWS, WIDTH], "data_offsets": [0, rows.nbytes]}
            head = json.dumps({"x": entry}).encode()
            head += b" " * (-len(head) % 8)
            out.write(struct.pack("<Q", len(head)) + head)
            rows.tofile(out)
        measure_free("rows.npy", "rows.npy", "npy, f32")
        measure_free("rows.safetensors", "rows.safetensors", "safetensors, f32")
        write_idx("x.idx", rng.integers(0, 256, (60000, 28, 28), dtype="u1"))
        write_idx("y.idx", rng.integers(0, 10, 60000, dtype="u1"))
        measure_wait("digits, batch 512", ["ffn", "--batch", "512"], [], ["x=x.idx", "y=y.idx"], 300)
        rng.integers(0, 1024, 20000000, dtype="u2").tofile("tokens.bin")
        measure_wait("tokens, 8 x 128", ["gpt", "--layers", "2", "--hidden", "128", "--heads", "4", "--seq", "128",
                                         "--batch", "8", "--vocab", "1024", "--optimizer", "adam"], [],
                     ["x=tokens.bin:u16", "y=tokens.bin:u16"], 60)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            print("Parquet: not measured, pyarrow cannot be imported")
            return
        fields = {f"c{i}": rng.integers(0, 1000, 200000, dtype="i4") for i in range(26)}
        fields["y"] = rng.integers(0, 2, 200000).astype("f4")
        pyarrow.parquet.write_table(pyarrow.table(fields), "rows.parquet", row_group_size=16384)
        names = ",".join(f"c{i}" for i in range(26))
        measure_wait("Parquet, 26 columns", ["wide_deep", "--batch", "1024", "--optimizer", "adam", "--lazy"], [],
                     [f"x=rows.parquet:{names}", "y=rows.parquet:y"], 1000)


main()
