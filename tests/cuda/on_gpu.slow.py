#!/usr/bin/env python3
"""on_gpu: what it does on a real GPU, done on the stand-in: every part ends well or says why it is skipped, its
words are in the log, and measured products and the times of kernels are kept.  losses and train are tests of their
own."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from program import run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
PARTS = [
    "versions", "first", "machine", "engines", "tuned", "sanitized", "bandwidth", "launch", "gpt2", "forms",
    "torch_compiled", "torch_tuned", "eight_f32", "eight_bf16", "nccl", "memory", "wild"
]


def main():
    os.mkdir("out")
    standin = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
    done = subprocess.run([sys.executable, os.path.join(HERE, "on_gpu"), *PARTS], capture_output=True, text=True,
                          env={**os.environ, "MSC": MSC, "OUT": os.path.abspath("out"), "LD_LIBRARY_PATH": standin})
    with open("out/log.txt") as log:
        text = log.read()
    ends = text.rpartition("---- all ----")[2].split("\n")
    missing = [part for part in PARTS if not any(line.startswith(f"{part}: ok ") for line in ends)]
    if done.returncode or missing or done.stdout != text or not {"choices", "t.json"} <= set(os.listdir("out")):
        sys.exit(f"exit code {done.returncode}, {missing} not well, {os.listdir('out')}\n{text}{done.stderr}")
    print(f"{len(PARTS)} parts")


run_on_standin(main)
