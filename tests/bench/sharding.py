#!/usr/bin/env python3
"""sharding: time of the searches for strategies, and how far digit by digit is from exact; each figure beside its
goal."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
ROUNDS = 3
NETWORK = {"layers": 24, "hidden": 1024, "heads": 16, "seq": 128, "batch": 128, "vocab": 8192}
GPT3 = {"layers": 96, "hidden": 12288, "heads": 96, "seq": 2048, "batch": 1024, "vocab": 51200}
EXACT = (("exact, 8x8", {}, [8, 8], 10), ("exact, 128x8", {}, [128, 8], 10), ("exact, 128x8, batch 4096", {
    "batch": 4096
}, [128, 8], 10), ("exact, 16x8x8", {}, [16, 8, 8], 50), ("exact, 16x8x8, batch 4096", {"batch": 4096}, [16, 8, 8], 50),
         ("exact, 4x8x4x8", {}, [4, 8, 4, 8], 1000), ("mesh free, 1024 devices", {}, 1024, 1000),
         ("mesh free, 4096 devices", {}, 4096, 2000), ("96 layers", {"layers": 96}, [16, 8, 8], None), ("384 layers", {
             "layers": 384
         }, [16, 8, 8], None), ("GPT-3 175B, 4096 devices", GPT3, 4096, 3000))


def model(**sizes):
    flags = [x for key, value in {**NETWORK, **sizes}.items() for x in (f"--{key}", str(value))]
    subprocess.run([sys.executable, "-m", "msc.models", "gpt", *flags, "-o", "model.fbs"], check=True,
                   env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
    with open("model.mlir", "w") as out:
        subprocess.run([MSC, "dump", "model.fbs"], check=True, stdout=out)


def searched(mesh, mode="dynamic_programming"):
    """(ms of the pass, CPU s and peak MB of the process, ns of a step, ns at least)"""
    axes = f"device_num={mesh}" if isinstance(mesh, int) else "mesh=" + json.dumps(dict(zip("wxyz", mesh)))
    command = [
        MSC, "opt", "model.mlir", "--until", "search", "--verify", "0", "--timing", "-o", "out.mlir", "--cluster",
        "h100", "--set", "parallel_mode=auto_parallel", "--set", f"search_mode={mode}", "--set", axes
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r" *([0-9.]+) +[0-9.]+ +search: .* ns (\d+), ns at least (\d+)", text)
    if process.returncode or not found:
        sys.exit(f"sharding: {' '.join(command)} failed:\n{text}")
    return float(found[1]), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, int(found[2]), int(found[3])


def times():
    print("search for the least time of a step, GPT with 24 layers of 1024: the pass, the whole process:")
    for what, sizes, mesh, goal in EXACT:
        model(**sizes)
        runs = [searched(mesh) for _ in range(ROUNDS)]
        ms, cpu, mb, ns, least = min(runs)
        proof = "proven" if ns == least else f"at most {100 * (ns - least) / ns:.2f} % above the best"
        print(
            f"  {what:<28} {ms:8.1f} ms{f' (goal {goal})' if goal else '':<12} {cpu:6.2f} s CPU {mb:6.0f} MB   step "
            f"{ns / 1e6:.3f} ms, {proof}"
        )


def gaps():
    worst = 0
    for hidden, heads in ((512, 8), (1024, 16)):
        for batch in (32, 512, 4096):
            model(layers=4, hidden=hidden, heads=heads, batch=batch)
            for mesh in ([8, 8], [128, 8], [16, 8, 8]):
                exact, pieces = (searched(mesh, mode)[3] for mode in ("dynamic_programming", "recursive_programming"))
                worst = max(worst, (pieces - exact) / exact)
    print(f"recursive_programming on 18 settings: at most {100 * worst:.2f} % above exact (goal 1)")


def figures():
    times()
    gaps()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        figures()
        os.chdir(ROOT)
