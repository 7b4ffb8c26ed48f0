#!/usr/bin/env python3
"""offload: a GPT whose parameters, state and values of a step live in host memory or on disk, in an arena of less than
a quarter of its state, beside the same GPT that has all on the device, by turns: its step as a multiple of the larger
of two bounds, the step without offload and the time of its transfers, which counts as no longer than a program with
nothing else to do takes for the same bytes on the same disk; the share of the transfers' time that hides behind calls,
beside the share that was predicted for a description of this machine; and what it has in memory beyond its pools.

    python3 tests/bench/offload.py [c.json [BATCH ...]]     the description; default: made by msc calibrate"""
import array
import json
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
SIZES = {"layers": 8, "hidden": 512, "heads": 8, "seq": 128, "vocab": 2048}
BATCHES, ROUNDS, STEPS = (1, 4), 3, 5
STEP_GOAL, HIDDEN_GOAL, RESIDENT_GOAL = 1.25, 0.10, 0.05
BLOCK, DEPTH = 4 << 20, 2  # of transfers from and to the disk
KINDS = ("param", "optimizer", "activation")


def seconds_of_disk(read, written):
    """What moving so many bytes takes, past the page cache, by DEPTH threads."""
    file = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    size = 64 * BLOCK
    os.posix_fallocate(file, 0, size)
    blocks = [mmap.mmap(-1, BLOCK) for _ in range(DEPTH)]
    for at in range(0, size, BLOCK):
        os.pwrite(file, blocks[0], at)
    works = [(os.preadv, at) for at in range(0, read, BLOCK)] + [(os.pwritev, at) for at in range(0, written, BLOCK)]
    random.Random(1).shuffle(works)
    works, lock = iter(works), threading.Lock()

    def work(block):
        while True:
            with lock:
                move, at = next(works, (None, 0))
            if not move:
                return
            move(file, [block], at % size)

    threads = [threading.Thread(target=work, args=(block, )) for block in blocks]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(file)
    return time.perf_counter() - begin


def compile_plan(batch, name, home, cluster):
    keys = [] if not home else ["--set", "offload=" + json.dumps(dict.fromkeys(KINDS, home))]
    keys += ["--set", "offload_path=."] if home == "disk" else []
    done = subprocess.run([MSC, "compile", f"gpt{batch}.fbs", "-o", name, "--json", "--cluster", cluster, *keys],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run(plan):
    """The median step of a run, without the first, and what the run says at its end."""
    done = subprocess.run([MSC, "run", plan, "--trust-native", "--data", "x=x.bin:i32", "y=x.bin:i32", "--steps",
                           str(STEPS), "--timing", "--json"], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return statistics.median(line["ms"] for line in lines[1:-1] if "ms" in line), lines[-1]


def measure(batch, home, cluster):
    plain, away = compile_plan(batch, "plain.bin", None, cluster), compile_plan(batch, "away.bin", home, cluster)
    moved = sum(s["moved_bytes"] for s in json.loads(subprocess.run(
        [MSC, "explain", "away.bin", "--json"], check=True, capture_output=True, text=True).stdout)["offload"])
    state = plain["memory"]["parameters"] + plain["memory"]["state"]
    times = {"plain": [], "away": [], "disk": [], "moving": [], "waits": [], "resident": []}
    for _ in range(ROUNDS):
        step, before = run("plain.bin")
        times["plain"].append(step)
        step, totals = run("away.bin")
        times["away"].append(step)
        times["moving"].append(totals["transfer_ms"][0])
        times["waits"].append(totals["transfer_wait_ms"][0])
        times["disk"].append(1e3 * seconds_of_disk(moved // 2, moved // 2) if home == "disk" else 0)
        pools = totals["planned_bytes"] + totals["host_bytes"] + (DEPTH * BLOCK if home == "disk" else 0)
        times["resident"].append((totals["rss_bytes"] - pools - before["rss_bytes"] + before["planned_bytes"]) / pools)
    middle = {name: statistics.median(t) for name, t in times.items()}
    moving = min(middle["moving"], middle["disk"]) if home == "disk" else middle["moving"]
    bound = max(middle["plain"], moving)
    hidden = max(0, 1 - middle["waits"] / middle["moving"])
    print(f"batch {batch}, all on {home}: arena {away['memory_bytes_per_rank'] / state:.0%} of the state; step "
          f"{middle['away']:.0f} ms, {middle['plain']:.0f} on the device, disk {middle['disk']:.0f}: "
          f"{middle['away'] / bound:.2f} (goal {STEP_GOAL}); transfers {middle['moving']:.0f} ms, "
          f"{totals['predicted_transfer_ms'][0]:.0f} predicted, hidden {hidden:.0%}, "
          f"{totals['predicted_hidden'][0]:.0%} predicted (goal +-{HIDDEN_GOAL:.0%}); memory beside the pools "
          f"{middle['resident']:+.1%} of them (goal +{RESIDENT_GOAL:.0%})", flush=True)


def main():
    cluster = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "c.json"
    batches = [int(word) for word in sys.argv[2:]] or BATCHES
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        os.chdir(folder)
        if len(sys.argv) < 2:
            subprocess.run([MSC, "calibrate", "--ranks", "1", "--offload-path", ".", "-o", cluster], check=True,
                           stdout=subprocess.DEVNULL)
        rng = random.Random(1)
        with open("x.bin", "wb") as out:
            array.array("i", (rng.randrange(SIZES["vocab"]) for _ in range(SIZES["seq"] * 64 + 1))).tofile(out)
        for batch in batches:
            sizes = [word for name, size in {**SIZES, "batch": batch}.items() for word in (f"--{name}", str(size))]
            subprocess.run([sys.executable, "-m", "msc.models", "gpt", "-o", f"gpt{batch}.fbs", "--optimizer", "adam",
                            *sizes], check=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python")})
            for home in "cpu", "disk":
                measure(batch, home, cluster)


main()
