#!/usr/bin/env python3
"""bandwidth: what `ninja bench-cuda` runs, on the stand-in: every network is compiled, loaded and executed, and has
a line; the figures are the stand-in's.  Without a driver it says why it skips."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from program import run_on_standin  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ.get("MSC", "build/msc")))
BENCH = os.path.join(BUILD, "tests", "bench", "cuda_kernels")
STANDIN = os.path.join(BUILD, "tests", "cuda", "standin")
NETWORKS = 9


def run(*words, **env):
    done = subprocess.run([BENCH, *words], capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode:
        sys.exit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def main():
    lines = run("262144", os.getcwd(), LD_LIBRARY_PATH=STANDIN)
    assert "copies" in lines[0] and len(lines) == 1 + NETWORKS and all("GB/s" in line for line in lines), lines
    assert run("262144", LD_LIBRARY_PATH=STANDIN, MSC_STANDIN_GPUS="0") == ["skipped: the driver finds no GPU"]


run_on_standin(main)
