#!/usr/bin/env python3
"""bench: the figures that msc promises, measured on this machine, each beside its goal and beside the libraries that
one of BENCH_PYTHON can import (a list with colons; default: this Python).  Rounds of all contestants alternate, so
that a busy machine hits all alike."""
import json
import math
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import products
import scale
import sharding

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
PYTHONS = os.environ.get("BENCH_PYTHON", sys.executable).split(":")
PEERS = ("torch", "jax", "numpy")
ROUNDS, STEPS = 3, 300
STRATEGIES = ["--strategy", "dense1=((2,4),(4,1))", "--strategy", "dense3=((1,8),(8,1))"]
BYTES_OF_PARAMETERS = 4 * sum(i * o + o for i, o in zip((784, 512, 256, 128, 64), (512, 256, 128, 64, 10)))


def measured(*command):
    """(stdout, seconds, peak resident MB) of a whole process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: {' '.join(command)} failed with exit code {process.returncode}")
    return text, time.perf_counter() - begin, usage.ru_maxrss / 1024


def write_digits(folder, samples):
    rng = random.Random(0)
    for name, shape, data in (("x", (samples, 28, 28), rng.randbytes(samples * 784)),
                              ("y", (samples, ), bytes(rng.randrange(10) for _ in range(samples)))):
        with open(os.path.join(folder, name + ".idx"), "wb") as out:
            out.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + data)


def compile_ffn(batch, ranks, *options):
    model, plan = f"ffn-{batch}.fbs", f"ffn-{batch}-{ranks}.bin"
    subprocess.run([
        sys.executable, "-m", "msc.models", "ffn", "--batch",
        str(batch), "-o", model, *(STRATEGIES if ranks > 1 else [])
    ], check=True)
    return plan, measured(MSC, "compile", model, "-o", plan, "--set", f"device_num={ranks}", "--json", *options)


def msc_step(plan):
    text, _, rss = measured(MSC, "run", plan, "-n", "1", "--data", "x=x.idx", "y=y.idx", "--steps", str(STEPS),
                            "--json")
    times = [line["ms"] for line in map(json.loads, text.splitlines()) if "step" in line and "ms" in line]
    return {"ms": statistics.median(times[len(times) // 10:]), "rss_mb": rss}


def peer_step(name, batch):
    for python in PYTHONS:
        text = subprocess.run(
            [python, os.path.join(ROOT, "tests/bench/peers.py"), name,
             str(batch), str(STEPS)], check=True, stdout=subprocess.PIPE, text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}).stdout
        found = json.loads(text)
        if "version" in found:
            break
    return found


def step_times(batch, goal):
    plan, _ = compile_ffn(batch, 1)
    runs = {"msc": []}
    versions = {}
    for _ in range(ROUNDS):
        runs["msc"].append(msc_step(plan))
        for name in PEERS:
            if name in versions and versions[name] is None:
                continue
            found = peer_step(name, batch)
            versions[name] = found.get("version")
            if versions[name] is None:
                print(f"  skipped: {name}: {found['missing']}")
            else:
                runs.setdefault(name, []).append(found)
    best = {name: statistics.median(r["ms"] for r in rounds) for name, rounds in runs.items()}
    print(f"FFN train step, 1 rank, batch {batch}:")
    for name, ms in best.items():
        print(
            f"  {name:<8} {ms:8.3f} ms   {max(r['rss_mb'] for r in runs[name]):6.0f} MB peak   {versions.get(name, '')}"
        )
    fastest = min((ms for name, ms in best.items() if name in ("torch", "jax")), default=None)
    if fastest:
        print(f"  {fastest / best['msc']:.2f} times as fast as the faster of PyTorch and JAX (goal {goal})")
    return max(r["rss_mb"] for r in runs["msc"])


def compile_figures():
    for ranks in (1, 8):
        options = ["--set", "parallel_mode=auto_parallel", "--set", "search_mode=sharding_propagation"
                   ] if ranks > 1 else []
        results = [compile_ffn(32, ranks, *options)[1] for _ in range(5)]
        print(f"msc compile of the FFN for {ranks} rank(s), whole process: {min(r[1] for r in results) * 1e3:.0f} ms, "
              f"{max(r[2] for r in results):.0f} MB (goal 150 ms, 150 MB)")
    return json.loads(results[-1][0])


# reduce_scatter f32[32,512] [{d:(1)2},{}] partial={d:(2)4} -> [{d:(1)2},{d:(2)4}]
CHANGE = re.compile(r"^ +\d+  (\w+) (f32\[.*?)  \(", re.M)  # several values of one collective: with " & " between
VALUE = re.compile(r"f32\[([\d,]*)\] (\[.*\].*) -> (\[.*)")


def parts(layout, size=8):
    """(parts that dimensions are cut into, terms of pending sums) of a layout on the one axis d."""
    digits = lambda text: math.prod(int(n) if n else size for n in re.findall(r"d(?::\(\d+\)(\d+))?", text))
    dims, _, partial = layout.partition(" partial=")
    return digits(dims), digits(partial)


def gathered_bytes(elements, before):
    """What finishing sums by all_reduce and gathering everything would receive; the slice that follows is free."""
    cut, terms = parts(before)
    local = 4 * elements // cut
    return 2 * (local - local // terms) + 4 * elements - local


def planned_bytes(shape, before, after):
    command = [
        MSC, "reshard", "--mesh", "d=8", "--shape", shape, "--bytes", "4", "--from", before, "--to", after, "--json"
    ]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["bytes"]


def moved_bytes(report):
    print(
        "layout changes of the FFN on 8 ranks, bytes received by a rank per step: emitted, optimum of msc reshard, "
        "gather and slice:"
    )
    dump = subprocess.run([MSC, "dump", "ffn-32-8.bin"], check=True, stdout=subprocess.PIPE, text=True).stdout
    train = dump[dump.index("section train"):dump.index("section forward")]
    emitted = {(c["op"], c["bytes"]) for c in report["collectives"]}
    total = [0, 0]
    for verb, text in CHANGE.findall(train):
        values = [v for v in (VALUE.fullmatch(piece) for piece in text.split(" & ")) if v and v[1]]
        best = sum(planned_bytes(*v.groups()) for v in values)
        naive = sum(gathered_bytes(math.prod(map(int, v[1].split(","))), v[2]) for v in values)
        known = "as emitted" if (verb, best) in emitted else "free" if best == 0 else "NOT as emitted"
        print(f"  {verb:<15} {' & '.join(f'[{v[1]}] {v[2]} -> {v[3]}' for v in values)}: {best} ({known}), {naive}")
        total = [total[0] + best, total[1] + naive]
    print(f"  together {report['comm_bytes_per_rank']} emitted, {total[0]} optimum, {total[1]} gather and slice")


def library_size():
    copy = "libmscrt.so"
    shutil.copy(os.path.join(ROOT, "build/libmscrt.so"), copy)
    subprocess.run(["strip", copy], check=True)
    print(f"libmscrt.so, stripped: {os.path.getsize(copy) / 1024:.0f} KB (goal 300 KB)")


def networks():
    """Training steps of PyTorch's networks beside PyTorch's own, by a Python that has it."""
    script = os.path.join(ROOT, "tests/bench/networks.py")
    for python in PYTHONS:
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return subprocess.run([python, script], check=True)
    print("networks: skipped: no Python of BENCH_PYTHON has torch")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_digits(folder, 4096)
        report = compile_figures()
        rss = [step_times(batch, goal) for batch, goal in ((32, 2.0), (512, 1.1))]
        print(f"msc run, 1 rank, batch 32: {rss[0]:.0f} MB resident (goal {60 + 2 * BYTES_OF_PARAMETERS / 1e6:.0f} MB)")
        moved_bytes(report)
        library_size()
        sharding.figures()
        scale.figures()
        os.chdir(ROOT)
        products.main()
        networks()


main()
