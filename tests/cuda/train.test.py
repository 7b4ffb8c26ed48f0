#!/usr/bin/env python3
"""train: plans for GPUs trained where there is no GPU, on the stand-in that executes their kernels: the losses of
the same program compiled for the CPU, with one rank and several, through the host and by NCCL, in micro-batches and
stages, in every legal order."""
import ctypes
import json
import math
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_gpt  # noqa: E402
from program import attempt, call, finish, run_on_standin, settings  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests/cuda/standin")
REAL = "MSC_TEST_GPU" in os.environ  # a GPU is there: see on_gpu
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 8, 8, 32, 32
TOLERANCE = 2e-5  # relative: sums are in another order

# ranks, keys, and on what: seed and order of threads, GPUs and the way between them
ORDERS = [("0", "up"), ("3", "down"), ("7", "shuffled")]
REPLICAS = {"parallel_mode": "data_parallel", "gradients_mean": True}
RUNS = [
    (1, {}, [{"MSC_STANDIN_SEED": seed, "MSC_STANDIN_WARPS": warps} for seed, warps in ORDERS]),
    (1, {"micro_size": 4}, [{"MSC_STANDIN_SEED": "5"},
                            {"MSC_STANDIN_FAIL": "cuMemHostRegister_v2:1:801"}]),  # the second pins no inputs
    (2, {**REPLICAS, "deterministic": True},
     [{}, {"MSC_STANDIN_GPUS": "2", "MSC_STANDIN_SEED": "2", "MSC_STANDIN_LOG": "calls"}]),
    (4, {**REPLICAS, "zero": 3, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}},
     [{"MSC_STANDIN_GPUS": "4", "MSC_STANDIN_SEED": "9"}]),
]
if REAL or "MSC_TEST_SLOW" in os.environ:
    RUNS += [
        (4, {"parallel_mode": "auto_parallel",
             "mesh": {"dp": 2, "tp": 2}}, [{"MSC_STANDIN_GPUS": "4", "MSC_STANDIN_SEED": "3"}]),
        (2, {"pipeline_stages": 2, "micro_size": 4,
             "parallel_mode": "semi_auto_parallel"}, [{}, {"MSC_STANDIN_GPUS": "2", "MSC_STANDIN_SEED": "6"}]),
    ]


def compiled(target, ranks, keys):
    cpu = ["--mcpu", "x86-64-v3"] if target == "cpu" and REAL else []  # no library of that machine's
    call(MSC, "compile", "gpt.fbs", "-o", f"{target}.bin", "--target", target, *cpu, "--dump-dir", f"dump-{target}",
         *settings({"device_num": ranks, **keys}))


def trained(target, ranks, env=None):
    out = call(MSC, "run", f"{target}.bin", "-n", str(ranks), "--threads", "1", "--steps", str(STEPS), "--seed", "5",
               "--json", "--eval", f"0:{BATCH}", "--data", "x=x.npy", "y=y.npy", env=env)
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["loss"]
            for line in lines if "loss" in line] + [line["eval"]["loss"] for line in lines if "eval" in line]


def compare(ranks, keys, machines):
    compiled("cpu", ranks, keys)
    compiled("cuda", ranks, keys)
    wanted = trained("cpu", ranks)
    for machine in [{}] if REAL else machines:
        got = trained(
            "cuda", ranks, {} if REAL else
            {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump-cuda/kernels.ll"), **machine})
        worst = max(abs(a - b) / abs(a) for a, b in zip(wanted, got))
        if len(wanted) != STEPS + 1 or len(got) != len(wanted) or not worst < TOLERANCE:
            sys.exit(f"{ranks} ranks, {keys}, {machine}: losses {got}, on the CPU {wanted}")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def check_calls():
    """Of the run with a log: graphs were replayed, NCCL was told to keep its order, the next batch went up before
    the step was waited for, and no step allocated or loaded anything."""
    with open("calls") as file:
        lines = [line.split()[:2] for line in file]
    calls = [call for _, call in lines]
    for process in {process for process, _ in lines}:
        own = [call for p, call in lines if p == process]
        launched = [i for i, call in enumerate(own) if call == "cuGraphLaunch"]
        assert all(own[i + 1] == "cuMemcpyHtoDAsync_v2" for i in launched), [own[i + 1] for i in launched]
    after = calls[calls.index("cuGraphLaunch"):]
    assert "Ring,Tree" in calls and calls.count("cuGraphLaunch") >= 2 * (STEPS - 1)
    assert not {"cuMemAlloc_v2", "cuMemHostAlloc", "cuModuleLoadDataEx", "cublasLtMatmulAlgoGetHeuristic"} & set(after)


def check_missing_libraries():
    """A folder with all but one of NVIDIA's libraries, for which empty files stand: the machine itself may have it."""
    needed = [
        ("libcublasLt.so.13", {}, [],
         "to multiply matrices on a GPU libcublasLt.so.13 is needed, which cannot be loaded; install CUDA's package "
         "libcublas"
         ),
        ("libcublasLt.so.12", {"MSC_STANDIN_DRIVER": "12040"}, [],
         "to multiply matrices with this driver, which knows no CUDA 13, libcublasLt.so.12 is needed, which cannot be "
         "loaded; install CUDA 12's package libcublas, or a newer driver"
         ),
        ("libnccl.so.2", {}, ["-n", "2", "--comm", "nccl"],
         "to let GPUs communicate libnccl.so.2 is needed, which cannot be loaded; install NCCL's package libnccl2, or "
         "run with --comm local"
         )
    ]
    for missing, machine, options, words in needed:
        os.mkdir(missing)
        for name in set(os.listdir(STANDIN)) - {missing}:
            os.symlink(os.path.join(STANDIN, name), os.path.join(missing, name))
        for name in (missing, "libcublasLt.so.12"):
            open(os.path.join(missing, name), "w").close()
        compiled("cuda", 2 if options else 1, REPLICAS if options else {})
        env = {
            **os.environ, "LD_LIBRARY_PATH": os.path.abspath(missing),
            "MSC_STANDIN_KERNELS": os.path.abspath("dump-cuda/kernels.ll"), "MSC_STANDIN_GPUS": "2", **machine
        }
        done = subprocess.run([MSC, "run", "cuda.bin", *options, "--data", "x=x.npy", "y=y.npy"], capture_output=True,
                              text=True, env=env)
        assert done.returncode == 3 and words in done.stderr, done


def compile_tuned(target, env, *keys):
    command = [
        MSC, "compile", "gpt.fbs", "-o", "tuned.bin", "--target", target, "--dump-dir", "dump-tuned", "--autotune",
        *keys
    ]
    return subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": os.path.abspath("cache"), **env})


def check_autotune():
    """Products are measured when the plan is compiled, once; every run takes what was measured."""
    gpu = {
        "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump-tuned/kernels.ll"),
        "MSC_STANDIN_LOG": "tuning"
    }
    for measured in (True, False):
        done = compile_tuned("cuda", gpu)
        with open("tuning") as file:
            calls = [line.split()[1] for line in file]
        assert done.returncode == 0 and ("cuEventElapsedTime" in calls) == measured, done.stderr
        os.remove("tuning")
    call(MSC, "run", "tuned.bin", "--steps", "1", "--data", "x=x.npy", "y=y.npy",
         env={"XDG_CACHE_HOME": os.path.abspath("cache"), **gpu})
    with open("tuning") as file:
        assert not {"cuEventElapsedTime", "cublasLtMatmulAlgoGetHeuristic"} & {line.split()[1] for line in file}
    done = compile_tuned("cuda", gpu, *settings({"device_num": 2, **REPLICAS}))
    assert done.returncode == 1 and "a plan for 2 ranks is not supported yet here" in done.stderr, done


def check_stuck():
    """A kernel of the second step never ends: it is waited for many times as long as two steps take on this machine
    now."""
    compiled("cuda", 1, {})
    env = {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump-cuda/kernels.ll")}
    data = ["--data", "x=x.npy", "y=y.npy"]
    begin = time.monotonic()
    call(MSC, "run", "cuda.bin", "--steps", "2", *data, env=env)
    ms = max(300, math.ceil(3000 * (time.monotonic() - begin)))
    for options, words in (([], f"rank 0: step 2: the GPU has not come to the end within {ms} ms"),
                           (["--trace", "t.json"], "rank 0: step 2: ")):
        done = subprocess.run([MSC, "run", "cuda.bin", "--steps", "9", "--timeout",
                               str(ms / 1000), *options, *data], capture_output=True, text=True,
                              env={**os.environ, **env, "MSC_STANDIN_HANG": "kernel:100"}, timeout=300)
        assert done.returncode == 3 and words in done.stderr, done


def check_no_driver():
    for done in (subprocess.run([MSC, "run", "cuda.bin", "--data", "x=x.npy", "y=y.npy"], capture_output=True,
                                text=True), compile_tuned("cuda", {})):
        assert done.returncode == 3 and ("libcuda.so.1 is needed, which cannot be loaded; install NVIDIA's "
                                         "driver") in done.stderr, done


def main():
    rng = random.Random(3)
    write_gpt(rng, 2, SAMPLES, SEQ, BATCH, VOCAB)
    for ranks, keys, machines in RUNS:
        attempt(compare, ranks, keys, machines)
    if not REAL:
        attempt(check_calls)
        attempt(check_autotune)
        attempt(check_missing_libraries)
        attempt(check_stuck)
    if not has_driver():
        attempt(check_no_driver)
    finish()
    print(f"{sum(1 if REAL else len(machines) for _, _, machines in RUNS)} runs with the CPU's losses")


run_on_standin(main, real=REAL)
