#!/usr/bin/env python3
"""kept_copies: casts of weights that a GPU's plan keeps from step to step, in memory of their own: an update stores
them, the program prepare makes them at first and after a change from outside.  A run that goes on from a checkpoint,
whose copies prepare has made, has the bits of one whose copies updates have made; so has a step after other weights
were loaded.  On one rank and on two, with micro-batches and with the parallel optimizer.  Where prepare fails, the step
does, and no later one runs with copies that were not made.  The stand-in plays the GPU."""
import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_gpt  # noqa: E402
from program import call, run_on_standin, settings  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BUILD = os.path.dirname(MSC)
SAMPLES, SEQ, BATCH, STEPS = 32, 8, 8, 4
DATA = {"parallel_mode": "data_parallel", "device_num": 2}
SEMI = {"parallel_mode": "semi_auto_parallel", "mesh": {"dp": 2}, "device_num": 2}
JOBS = [(1, {}), (1, {"micro_size": 2}), (2, {**SEMI, "zero": 1}), (2, {**DATA, "micro_size": 2})]
SCRIPT = """
import array, ctypes, sys
from msc.runtime import Plan
size = %(tokens)d
plan = Plan("plan.bin", library=%(library)r, seed=5, threads=1)
batch = dict(x=array.array("i", (i %% 80 for i in range(size))), y=array.array("i", (i * 7 %% 80 for i in range(size))))
def step():
    print(plan.run("train", **batch).hex())
if "change" in sys.argv:
    step(), step()
    plan._call("mscrt_set_scalar", b"optimizer.lr", ctypes.c_double(0.001))
    step()
plan.load("other.safetensors")
try:
    step()
except Exception as error:
    print("failed:", error)
    try:
        step()
    except Exception as error:
        print("refused:", error)
plan.close()
"""


def demand(holds, *what):
    if not holds:
        sys.exit(" ".join(map(str, what)))


def compile_plan(keys, dtype="bf16"):
    call(MSC, "compile", "gpt.fbs", "-o", "plan.bin", "--target", "cuda", "--dump-dir", "dump", *settings({
        "compute_type": dtype,
        "parallel_optimizer_config": {"parallel_optimizer_threshold": 0},
        **keys
    }))
    return call(MSC, "dump", "plan.bin")


def environment(**more):
    return {**os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "cuda", "standin"),
            "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"), **more}


def run(ranks, steps, *words):
    """Losses by step."""
    done = subprocess.run([MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(steps), "--seed",
                           "5", "--json", "--data", "x=x.npy", "y=y.npy", *words], capture_output=True, text=True,
                          env=environment(MSC_STANDIN_GPUS=str(ranks), MSC_STANDIN_LOG="log"))
    demand(done.returncode == 0, done)
    return [json.loads(line)["loss"] for line in done.stdout.splitlines() if '"loss"' in line]


def section(dump, name):
    found = re.search(rf"^section {re.escape(name)}: .*?(?=^section |\Z)", dump, re.M | re.S)
    return found[0] if found else ""


def check(ranks, keys):
    dump = compile_plan(keys)
    prepare = section(dump, "prepare")
    update = section(dump, "train.U" if "micro_size" in keys else "train")
    demand(prepare.count("cast") > 4, keys, "prepare makes no copies:", dump)
    demand(re.search(r"kernel fused_\w*adam_cast", update), keys, "the copies are made apart:", update)
    losses = run(ranks, 2 * STEPS)
    first = run(ranks, STEPS, "--ckpt-dir", "ckpt")
    then = run(ranks, 2 * STEPS, "--ckpt-dir", "ckpt", "--resume")
    shutil.rmtree("ckpt")
    demand(len(losses) == 2 * STEPS and first + then == losses and losses[-1] < losses[0], keys, losses, first, then)


def run_script(*words, **more):
    """What it prints, losses line by line, and how often a graph was launched."""
    with open("script.py", "w") as file:
        file.write(SCRIPT % {"tokens": BATCH * SEQ, "library": os.path.join(BUILD, "libmscrt.so")})
    if os.path.exists("log"):
        os.unlink("log")
    done = subprocess.run([sys.executable, "script.py", *words], capture_output=True, text=True,
                          env=environment(MSC_STANDIN_LOG="log", **more))
    demand(done.returncode == 0, done)
    with open("log") as file:
        launches = sum("cuGraphLaunch" in line for line in file)
    return done.stdout.splitlines(), launches


def check_loaded():
    """A step after other weights were loaded is one that begins with them; a learning rate changes no copies."""
    compile_plan({"variable_lr": True})
    run(1, 1, "--seed", "77", "--save", "other.safetensors")
    wanted, none = run_script()
    losses, launches = run_script("change")
    demand(len(losses) == 4 and losses[3] == wanted[0] != losses[2], losses, "not", wanted)
    # steps two to four, and prepare once more
    demand(none == 0 and launches == 4, launches, "launches of graphs")


def check_failures():
    """The first launch of all is prepare's, and so is the third one of a graph, after other weights were loaded."""
    for words, fault, said in (((), "cuLaunchKernel:1:1", "the GPU's driver refused cuLaunchKernel"),
                               (("change",), "cuGraphLaunch:3:1", "the GPU's driver refused cuGraphLaunch")):
        lines, _ = run_script(*words, MSC_STANDIN_FAIL=fault)
        demand(len(lines) == (5 if words else 2) and lines[-2].startswith("failed:") and said in lines[-2], lines)
        demand(lines[-1].startswith("refused:") and "failed before" in lines[-1], lines)


def main():
    write_gpt(random.Random(3), 1, SAMPLES, SEQ, BATCH, 80, "--optimizer", "momentum")
    for ranks, keys in JOBS:
        check(ranks, keys)
    check_loaded()
    check_failures()


run_on_standin(main)
