#!/usr/bin/env python3
"""early: kernels that follow a kernel are launched so that they may begin before it has ended, where GPU and driver
can do it and the plan allows it, with the losses of a plan whose kernels begin one after the other.  The stand-in ends
the process where a kernel that begins early follows no kernel, or does not wait before all that it reads and writes."""
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_gpt  # noqa: E402
from program import call, run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
WAIT = "griddepcontrol.wait;"


def run(plan, ranks=1, **env):
    """The exit code, the losses, and how many kernels were launched to begin early and after all before them."""
    if os.path.exists("log"):
        os.unlink("log")
    kernels = os.path.abspath(f"{plan}.dump/kernels.ll")
    env = {**os.environ, "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": kernels, "MSC_STANDIN_LOG": "log",
           "MSC_STANDIN_SEED": "3", **env}
    done = subprocess.run([MSC, "run", plan, "-n", str(ranks), "--threads", "1", "--steps", "3", "--seed", "5",
                           "--json", "--data", "x=x.npy", "y=y.npy"], capture_output=True, text=True, env=env)
    calls = [line.split()[1] for line in open("log")]
    early, other = calls.count("cuLaunchKernelEx"), calls.count("cuLaunchKernel")
    return done, re.findall(r'"loss":([^,}]+)', done.stdout), early, other


def demand(holds, *what):
    if not holds:
        sys.exit(" ".join(map(str, what)))


def compile_plan(plan, *keys):
    call(MSC, "compile", "gpt.fbs", "-o", plan, "--target", "cuda", "--dump-dir", f"{plan}.dump", *keys)


def check_launches():
    compile_plan("early.bin")
    compile_plan("late.bin", "--set", "early_launch=false")
    done, wanted, early, late = run("late.bin")
    demand(done.returncode == 0 and len(wanted) == 3 and early == 0 < late, "early_launch=false:", done, early, late)
    shutil.copytree(STANDIN, "older", symlinks=True)
    os.symlink("libcublasLt.so.13", "older/libcublasLt.so.12")
    older = {"MSC_STANDIN_DRIVER": "12020", "LD_LIBRARY_PATH": os.path.abspath("older")}
    for env in ({}, {"MSC_STANDIN_ARCH": "80"}, older):
        done, losses, early, other = run("early.bin", **env)
        demand(done.returncode == 0 and losses == wanted, env, done, wanted)
        demand(early + other == late, env, early, "and", other, "launches, not", late)
        demand(early == 0 if env else early > late / 4, env, early, "kernels of", late, "begin early")


def check_waits():
    """Every kernel of the code for sm_90 waits, once.  None reads by the cache for values that nobody writes while the
    kernel runs: one that begins early runs while the kernel before it writes."""
    text = open("early.bin.dump/kernels.sm_90.ptx").read()
    demand("ld.global" in text and "ld.global.nc" not in text, "a kernel that may begin early loads by ld.global.nc")
    entries = re.findall(r"\.entry .*?\n\{(.*?)\n\}", text, re.S)
    demand(entries and all(e.count(WAIT) == 1 for e in entries), "a kernel does not wait once")
    demand(WAIT not in open("early.bin.dump/kernels.sm_80.ptx").read(), "a kernel for sm_80 waits")


def check_ranks():
    """Between two kernels there may be a product, a collective of NCCL, or the copies of one through the host."""
    keys = ["--set", "device_num=2", "--set", "parallel_mode=data_parallel", "--set", "deterministic=true"]
    for name, more in (("early.bin", []), ("late.bin", ["--set", "early_launch=false"])):
        compile_plan(name, *keys, *more)
    for gpus in ("1", "2"):
        _, wanted, none, _ = run("late.bin", 2, MSC_STANDIN_GPUS=gpus)
        done, losses, early, _ = run("early.bin", 2, MSC_STANDIN_GPUS=gpus)
        demand(done.returncode == 0 and losses == wanted and none == 0 < early, gpus, "GPUs:", done, wanted)


def main():
    write_gpt(random.Random(3), 1, 16, 8, 8, 32)
    check_launches()
    check_waits()
    check_ranks()


run_on_standin(main)
