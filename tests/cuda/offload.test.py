#!/usr/bin/env python3
"""offload: a small GPT on GPUs, which the stand-in plays: with parameters, optimizer state or values of a step in the
host's memory or on disk it has the losses and weights of one that has them on the GPU, bit for bit, call by call and as
a graph, with several ranks and pipelines; its GPU needs less. With updates on the host, whose kernels round otherwise,
losses are as near as that lets them be, a step moves less, and a run that goes on from a checkpoint has the bits of one
that was never interrupted. A file that cannot be read ends the run."""
import array
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_npy  # noqa: E402
from program import attempt, call, finish, run_on_standin, settings  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests/cuda/standin")
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 8, 8, 64, 32
HOMES = [
    {"offload": {"optimizer": "cpu"}},
    {"offload": {"param": "cpu", "optimizer": "cpu"}},
    {"offload": {"param": "disk", "optimizer": "disk"}, "offload_path": ".", "host_mem_block_size": 4096},
]
VALUES = [
    {"offload": {"activation": "cpu"}},
    {"offload": {"activation": "disk", "optimizer": "disk", "param": "cpu"}, "offload_path": "."},
]
UPDATES = {"offload": {"param": "cpu", "optimizer": "cpu", "update": "cpu"}}
SEMI = {"parallel_mode": "semi_auto_parallel"}
CUT = {"parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
BF16 = {"compute_type": "bf16"}
# ranks, GPUs, keys
JOBS = [
    (1, 1, BF16),
    (1, 1, {"micro_size": 2}),
    (2, 2, {**SEMI, **BF16, "mesh": {"dp": 2}, "zero": 3, **CUT}),
    (2, 1, {**SEMI, "mesh": {"dp": 2}}),  # ranks that share a GPU: no graph
    (2, 2, {**SEMI, **BF16, "pipeline_stages": 2, "micro_size": 2}),
]


def write_model():
    rng = random.Random(3)
    tokens = [rng.randrange(VOCAB) for _ in range(SAMPLES * SEQ)]
    write_npy("x.npy", array.array("i", tokens), [SAMPLES, SEQ])
    write_npy("y.npy", array.array("i", [(t * 5 + 1) % VOCAB for t in tokens]), [SAMPLES, SEQ])
    call(sys.executable, "-m", "msc.models", "gpt", "--layers", "2", "--hidden", "64", "--heads", "2", "--seq",
         str(SEQ), "--batch", str(BATCH), "--vocab", str(VOCAB), "--optimizer", "adam", "--lr", "0.01", "-o", "gpt.fbs")


def compiled(ranks, keys, *words):
    return json.loads(call(MSC, "compile", "gpt.fbs", "-o", "plan.bin", "--json", "--target", "cuda", *words,
                           *settings({"device_num": ranks, **keys})))


def machine_of(gpus, keys):
    return {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"),
            "MSC_STANDIN_GPUS": str(gpus), "MSC_STANDIN_SEED": str(len(keys))}


def run(ranks, gpus, keys, *words, steps=STEPS):
    out = call(MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(steps), "--seed", "5",
               "--json", "--data", "x=x.npy", "y=y.npy", *words, env=machine_of(gpus, keys))
    return [json.loads(line) for line in out.splitlines()]


def train(ranks, gpus, keys):
    shutil.rmtree("dump", ignore_errors=True)
    report = compiled(ranks, keys, "--dump-dir", "dump")
    lines = run(ranks, gpus, keys, "--save", "w.safetensors", "--train", f"0:{SAMPLES}", "--eval", f"0:{BATCH}")
    with open("w.safetensors", "rb") as file:
        return report, ([line["loss"] for line in lines if "loss" in line],
                        [line["eval"]["loss"] for line in lines if "eval" in line], file.read())


def check_same_bits(ranks, gpus, keys, homes):
    before, want = train(ranks, gpus, keys)
    assert len(want[0]) == STEPS and want[0][-1] < want[0][0], want[0]
    for home in homes:
        report, have = train(ranks, gpus, {**keys, **home})
        assert have[0] == want[0], f"{ranks} ranks, {keys}, {home}: losses {have[0]}, not {want[0]}"
        assert have == want, f"{ranks} ranks, {keys}, {home}: other weights or evaluation"
        for place, name in (("host", "cpu"), ("disk", "disk")):
            assert (report["offload"][place] > 0) == (name in home["offload"].values()), (home, report["offload"])
        if "activation" not in home["offload"]:
            assert report["memory_bytes_per_rank"] < before["memory_bytes_per_rank"], (keys, home)


def check_attention():
    """What attention makes in the order of a transpose waits in the host's memory, too."""
    compiled(1, {**BF16, **VALUES[0]})
    rows = re.findall(r"stow (\d+) bytes to host  \(layer\d.attention\)", call(MSC, "dump", "plan.bin"))
    assert rows == [str(2 * BATCH * SEQ * 64)] * 2, rows


def moved_bytes():
    return sum(s["moved_bytes"] for s in json.loads(call(MSC, "explain", "plan.bin", "--json"))["offload"])


def check_updates(ranks, gpus, keys):
    what, least = f"{ranks} ranks, {keys}", 2e-2 if "compute_type" in keys else 1e-4
    want = train(ranks, gpus, {**keys, **HOMES[1]})[1]
    moved = moved_bytes()
    report, have = train(ranks, gpus, {**keys, **UPDATES})
    assert all(abs(a - b) <= least * abs(a) for a, b in zip(want[0] + want[1], have[0] + have[1])), (what, want, have)
    assert "on the host: kernel" in call(MSC, "dump", "plan.bin"), what
    assert moved_bytes() < 0.7 * moved, (what, moved_bytes(), moved)
    shutil.rmtree("c", ignore_errors=True)
    losses = [line["loss"] for steps, word in ((STEPS // 2, "--json"), (STEPS, "--resume"))
              for line in run(ranks, gpus, keys, "--ckpt-dir", "c", word, steps=steps) if "loss" in line]
    whole = [line["loss"] for line in run(ranks, gpus, keys) if "loss" in line]
    assert losses == whole, (what, losses, whole)


def check_auto():
    before, want = train(1, 1, BF16)
    most = before["memory_bytes_per_rank"] - 200000
    report, have = train(1, 1, {**BF16, "memory_limit": most, "auto_offload": True})
    assert report["memory_bytes_per_rank"] <= most and report["offload"]["host"] > 0, report
    assert have == want
    keys = {**BF16, "memory_limit": most, "auto_offload": True, "offload": {"update": "cpu"}}
    report, have = train(1, 1, keys)
    assert report["memory_bytes_per_rank"] <= most and "on the host: kernel" in call(MSC, "dump", "plan.bin"), report
    assert all(abs(a - b) <= 2e-2 * abs(a) for a, b in zip(want[0], have[0])), (want[0], have[0])
    numbers = [name.split("-")[0] for name in os.listdir("dump") if name.endswith(".mlir")]
    assert len(set(numbers)) == len(numbers), "files of two plans in one folder"


def cut_until_ended(running, files):
    """What is written meanwhile makes a file longer again."""
    while running.poll() is None:
        for file in files:
            try:
                os.truncate(file, 0)
            except OSError:
                return
        time.sleep(0.001)


def check_lost_file():
    """The file is cut while steps run: what can no longer be read is named, and the run ends."""
    compiled(1, HOMES[2], "--dump-dir", "dump")
    with subprocess.Popen([MSC, "run", "plan.bin", "--steps", "1000000", "--json", "--data", "x=x.npy", "y=y.npy"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **machine_of(1, {})}) as running:
        for _ in range(5):
            running.stdout.readline()
        with open(f"/proc/{running.pid}/task/{running.pid}/children") as children:
            ranks = [running.pid, *children.read().split()]
        files = [fd for pid in ranks for fd in (f"/proc/{pid}/fd/{n}" for n in os.listdir(f"/proc/{pid}/fd"))
                 if os.path.realpath(".") in os.readlink(fd) and "(deleted)" in os.readlink(fd)]
        assert files, ranks
        threading.Thread(target=cut_until_ended, args=(running, files)).start()
        _, said = running.communicate(timeout=120)
    assert running.returncode == 3 and "cannot be read from the file in .: " in said, (running.returncode, said)


def check_refused():
    for target, keys, said in (("cuda", {"offload": {"update": "cpu"}}, "says nothing without"),
                               ("cpu", UPDATES, "in a plan for cpu all run there")):
        done = subprocess.run([MSC, "compile", "gpt.fbs", "-o", "no.bin", "--target", target, *settings(keys)],
                              capture_output=True, text=True)
        assert done.returncode == 1 and "offload.update" in done.stderr and said in done.stderr, done
    assert not os.path.exists("no.bin")


def main():
    write_model()
    for i, (ranks, gpus, keys) in enumerate(JOBS):
        attempt(check_same_bits, ranks, gpus, keys, [*HOMES, *VALUES] if i == 0 else HOMES[1:])
    for ranks, gpus, keys in JOBS:
        attempt(check_updates, ranks, gpus, keys)
    attempt(check_attention)
    attempt(check_auto)
    attempt(check_lost_file)
    attempt(check_refused)
    finish()
    print(f"{len(JOBS)} jobs with the bits of their like on the GPU")


run_on_standin(main)
