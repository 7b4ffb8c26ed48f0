#!/usr/bin/env python3
"""short_io: ranks whose connections carry a few bytes at a time, with interruptions, refusals and delays at every call,
meet all the same, and have the losses and weights of ranks that share memory, bit for bit: over TCP, and over TCP with
shared memory between some of them; with a token, whose frames carry codes."""
import os
import random
import secrets
import subprocess
import sys
import tempfile

from network import PLANS_OF_RANKS, write_gpt
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
PRELOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "short_io", "preload.h")
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 2, 12, 8, 32, 48
PLANS = [PLANS_OF_RANKS[i] for i in (0, 2, 3)]
RUN = ["--threads", "1", "--steps", str(STEPS), "--seed", "5", "--json", "--save", "w.safetensors", "--train",
       f"0:{SAMPLES}", "--eval", f"0:{BATCH}", "--trust-native", "--timeout", "60", "--data", "x=x.npy", "y=y.npy"]


def main():
    if "asan" in MSC or "tsan" in MSC:  # their runtime wants to be the first library
        print("skipped: no library is preloaded before a sanitizer's")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-x", "c", PRELOAD, "-o", "preload.so"], check=True)
        write_gpt(random.Random(2), 3, SAMPLES, SEQ, BATCH, VOCAB)
        with open("token", "w") as f:
            f.write(secrets.token_hex(16))
        for i, (ranks, keys) in enumerate(PLANS):
            call(MSC, "compile", "gpt.fbs", "-o", f"plan{i}.bin", "--set", f"device_num={ranks}", *settings(keys))
            wanted = losses_and_weights(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), *RUN), STEPS)
            for comm, most, token in (("tcp", 1000, False), ("tcp", 7 if i == 0 else 400, True), ("hosts", 50, True)):
                env = {**os.environ, "LD_PRELOAD": os.path.abspath("preload.so"), "MSC_SHORT_BYTES": str(most)}
                if token:
                    env["MSC_TOKEN_FILE"] = os.path.abspath("token")
                p = subprocess.run([MSC, "run", f"plan{i}.bin", "-n", str(ranks), *RUN, "--comm", comm], env=env,
                                   capture_output=True, text=True, timeout=300)
                assert p.returncode == 0, (keys, comm, p.stderr)
                have = losses_and_weights(p.stdout, STEPS)
                if have != wanted:
                    sys.exit(f"{keys}, {comm}: other bits: {have[0]} and {wanted[0]}")
    print(f"{len(PLANS)} plans with the same bits over connections that carry a few bytes at a time")


main()
