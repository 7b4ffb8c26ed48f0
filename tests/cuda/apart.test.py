#!/usr/bin/env python3
"""apart: products whose library only multiplies, and kernels do the rest: with a library that refuses all else, told
once, with the losses of one that does not; and where this was measured to be faster, of each product by itself, once
and alike on all ranks.  The stand-in plays the library."""
import array
import json
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_gpt, write_npy  # noqa: E402
from program import call, run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
TOLERANCE = {"f32": 2e-5, "bf16": 1e-2}  # relative
APART = re.compile(r"epilogue (\d+) .*\|0 0 0 0 0 0 0 0$", re.M)
SUM_OF_B = "256"


def demand(holds, *what):
    if not holds:
        sys.exit(" ".join(map(str, what)))


def write_ffn(rng, samples, batch):
    """ffn.fbs, layers of 64 to 512 columns with a relu, and x.npy and y.npy with random images and numbers."""
    write_npy("x.npy", array.array("f", [rng.random() for _ in range(samples * 784)]), [samples, 784])
    write_npy("y.npy", array.array("i", [rng.randrange(10) for _ in range(samples)]), [samples])
    call(sys.executable, "-m", "msc.models", "ffn", "--flat", "--batch", str(batch), "--optimizer", "adam", "-o",
         "ffn.fbs")


def compile_plan(*keys, model="gpt"):
    words = [word for key in keys for word in ("--set", key)]
    call(MSC, "compile", f"{model}.fbs", "-o", "plan.bin", "--target", "cuda", "--dump-dir", "dump", *words)


def run(*options, ranks=1, **env):
    """The losses, what is said besides, and the calls of the driver and of the library."""
    if os.path.exists("log"):
        os.unlink("log")
    env = {**os.environ, "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"),
           "MSC_STANDIN_LOG": "log", **env}
    done = subprocess.run([MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", "3", "--seed", "5",
                           "--json", "--data", "x=x.npy", "y=y.npy", *options], capture_output=True, text=True, env=env)
    demand(done.returncode == 0, done)
    losses = [json.loads(line)["loss"] for line in done.stdout.splitlines() if '"loss"' in line]
    return losses, done.stderr, [line.split()[1] for line in open("log")]


def check_refused(dtype, *keys, model="gpt"):
    compile_plan(f"compute_type={dtype}", *keys, model=model)
    wanted, said, calls = run()
    losses, told, more = run(MSC_STANDIN_EPILOGUES="0")
    worst = max(abs(a - b) / abs(a) for a, b in zip(wanted, losses))
    demand(len(wanted) == len(losses) == 3 and worst < TOLERANCE[dtype], dtype, keys, losses, "not", wanted)
    demand(not said and len(re.findall("with what is done to their results", told)) == 1, said, told)
    launches = [sum(c.startswith("cuLaunchKernel") for c in list) for list in (calls, more)]
    demand(launches[0] < launches[1] and calls.count("cublasLtMatmul") == more.count("cublasLtMatmul"), launches)


def measured(**env):
    """What the file of choices says of products that are apart: their epilogues; and the losses."""
    shutil.rmtree("cache/msc/products", ignore_errors=True)
    losses, said, calls = run("--autotune", **env)
    demand("cuEventElapsedTime" in calls and not said, "nothing is measured:", said)
    with open("cache/msc/products/choices") as file:
        epilogues = APART.findall(file.read())
    again, said, calls = run(**env)
    demand(again == losses and not said, again, "not", losses, said)
    demand(not {"cuEventElapsedTime", "cublasLtMatmulAlgoGetHeuristic"} & set(calls), "what is known is measured again")
    return epilogues, losses


def check_measured(ranks):
    compile_plan("compute_type=f32", *(["device_num=2", "parallel_mode=data_parallel"] if ranks == 2 else []))
    wanted = run(ranks=ranks)[0]
    epilogues, losses = measured(ranks=ranks, MSC_STANDIN_SLOW="kernel:2000")
    demand(not epilogues and losses == wanted, "slow kernels are taken for", epilogues, losses, wanted)
    epilogues, losses = measured(ranks=ranks, MSC_STANDIN_SLOW="whole:2000")
    worst = max(abs(a - b) / abs(a) for a, b in zip(wanted, losses))
    demand(SUM_OF_B in epilogues and len(set(epilogues)) > 2 and worst < TOLERANCE["f32"], epilogues, losses, wanted)


def main():
    os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
    write_gpt(random.Random(3), 1, 16, 8, 8, 32)
    check_refused("f32")
    check_refused("bf16", "micro_size=2")
    check_measured(1)
    check_measured(2)
    write_gpt(random.Random(4), 1, 128, 16, 128, 16)  # sums over so many rows are two kernels, the workspace between
    check_refused("f32")
    demand("tile+0:" in call(MSC, "dump", "plan.bin"), "no kernel has the workspace")
    write_ffn(random.Random(5), 12, 4)  # bits that tell where a relu is positive
    check_refused("f32", model="ffn")
    check_refused("bf16", model="ffn")


run_on_standin(main)
