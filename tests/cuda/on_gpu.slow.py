#!/usr/bin/env python3
"""on_gpu: what it does on a real GPU, done on the stand-in: every part ends well or says why it is skipped, its
words are in the log, and measured products and the times of kernels are kept.  losses and train are tests of their
own."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
PARTS = [
    "versions", "first", "machine", "engines", "tuned", "sanitized", "bandwidth", "launch", "gpt2", "forms",
    "torch_compiled", "torch_tuned", "eight_f32", "eight_bf16", "nccl", "memory", "wild"
]


def main():
    if not shutil.which("llc-19"):
        print("skipped: llc-19 is missing, which makes GPU kernels run here (package llvm-19)")
        return
    with tempfile.TemporaryDirectory() as out:
        env = {
            **os.environ, "MSC": MSC, "OUT": out, "LD_LIBRARY_PATH": os.path.join(os.path.dirname(MSC), "tests", "cuda",
                                                                                  "standin")
        }
        done = subprocess.run([sys.executable, os.path.join(HERE, "on_gpu"), *PARTS], capture_output=True, text=True,
                              env=env)
        with open(os.path.join(out, "log.txt")) as log:
            text = log.read()
        ends = text.rpartition("---- all ----")[2].split("\n")
        missing = [part for part in PARTS if not any(line.startswith(f"{part}: ok ") for line in ends)]
        if done.returncode or missing or done.stdout != text or not {"choices", "t.json"} <= set(os.listdir(out)):
            sys.exit(f"exit code {done.returncode}, {missing} not well, {os.listdir(out)}\n{text}{done.stderr}")
        print(f"{len(PARTS)} parts")


main()
