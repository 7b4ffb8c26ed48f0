#!/usr/bin/env python3
"""ucx: a small GPT whose ranks exchange collectives through UCX has the losses, the evaluation and the weights of ranks
that share memory, bit for bit: replicas, tensor parallelism, the parallel optimizer, a pipeline. A killed rank is named
by the others; what UCX cannot do, and a library that is none, are refused."""
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from network import PLANS_OF_RANKS as PLANS
from network import write_gpt
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 12, 8, 32, 48
DATA = ["--trust-native", "--data", "x=x.npy", "y=y.npy"]
RUN = ["--threads", "1", "--steps", str(STEPS), "--seed", "5", "--json", "--save", "w.safetensors", "--train",
       f"0:{SAMPLES}", "--eval", f"0:{BATCH}", *DATA]


def run(ranks, plan, *options, **env):
    return subprocess.run([MSC, "run", plan, "-n", str(ranks), *RUN, *options], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=120)


def check_refusals():
    p = run(3, "plan0.bin", "--comm", "ucx", "--replace", "1")
    assert p.returncode and "no rank can take the place of a lost one with ucx" in p.stderr, p.stderr
    p = run(3, "plan0.bin", "--comm", "ucx", MSC_UCX_LIBRARY="libnone.so")
    assert p.returncode and "--comm ucx needs the library of UCX, libnone.so" in p.stderr, p.stderr
    p = run(3, "plan0.bin", "--comm", "ucx", MSC_UCX_LIBRARY="libm.so.6")
    assert p.returncode and "libm.so.6 is not UCX: it has no function ucp_config_read" in p.stderr, p.stderr


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def check_killed_rank():
    p = subprocess.Popen([MSC, "run", "plan0.bin", "-n", "3", "--comm", "ucx", "--steps", "1000000", 
                          "--timeout", "100", *DATA], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        p.stdout.readline()
    os.kill(children_of(p.pid)[1], signal.SIGKILL)
    begin = time.monotonic()
    _, err = p.communicate(timeout=120)
    took = time.monotonic() - begin
    assert p.returncode == 3 and "was ended by signal 9" in err and took < 60, (p.returncode, took, err)


def main():
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError as e:
        print(f"skipped: {e}")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_gpt(random.Random(2), 3, SAMPLES, SEQ, BATCH, VOCAB)
        for i, (ranks, keys) in enumerate(PLANS):
            call(MSC, "compile", "gpt.fbs", "-o", f"plan{i}.bin", "--set", f"device_num={ranks}", *settings(keys))
            wanted = losses_and_weights(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), *RUN), STEPS)
            p = run(ranks, f"plan{i}.bin", "--comm", "ucx")
            assert p.returncode == 0, (keys, p.stderr)
            have = losses_and_weights(p.stdout, STEPS)
            if have != wanted:
                sys.exit(f"{keys}: other bits: {have[0]} and {wanted[0]}")
        check_refusals()
        check_killed_rank()
    print(f"{len(PLANS)} plans with the same bits through UCX")


main()
