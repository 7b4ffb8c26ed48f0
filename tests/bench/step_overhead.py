#!/usr/bin/env python3
"""step_overhead: the time that msc.Job.step, in Python, takes beside the plan's own steps, of which one call of the
runtime does many; a line per network, number of ranks and kind of arrays: both by turns, and their difference in
microseconds (goal: 20, and what it takes to copy inputs that have to be copied).

    python3 tests/bench/step_overhead.py      arrays of numpy and torch where this Python has them"""
import ctypes
import importlib
import importlib.util
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))

import msc
from msc.models.__main__ import build, parse

ROUNDS, SECONDS, GOAL = 11, 0.1, 20


def dense():
    """A step of few microseconds: what it costs to call it is all that counts."""
    g = msc.Graph("dense")
    x, y = g.input("x", "f32", [4, 8]), g.input("y", "i32", [4], role="label")
    g.loss(g.softmax_cross_entropy(g.matmul(x, g.parameter("w", "f32", [8, 4], init="normal:0.1")), y))
    g.optimizer("sgd", lr=0.01)
    return g


def ffn():
    return build(parse(["ffn", "--batch", "32", "-o", ""]))


NETWORKS = {"dense": dense, "ffn": ffn}


def arrays_of(plan):
    """{kind: batch} of arrays of each library that there is."""
    zeros = {n: bytes(msc.job._bytes(v)) for n, v in plan.inputs.items()}
    kinds = {"bytes": zeros, "none": {}}  # none: on one rank the batch before
    if plan.ranks > 1:
        del kinds["none"]
    kinds["msc.Array"] = {n: msc.Array(v.dtype, v.shape) for n, v in plan.inputs.items()}
    for library in ("numpy", "torch"):
        if not importlib.util.find_spec(library):
            print(f"skipped: arrays of {library}: it cannot be imported")
            continue
        make = importlib.import_module(library).zeros
        dtypes = {"f32": "float32", "i32": "int32", "u8": "uint8", "i64": "int64"}
        module = sys.modules[library]
        kinds[library] = {n: make(v.shape, dtype=getattr(module, dtypes[v.dtype])) for n, v in plan.inputs.items()}
    return kinds


def own_steps(job, times):
    """As many steps as one call of the runtime does on the batch that it has."""
    library = job._library

    def run(rank):
        msc.native.check(library, library.mscrt_run(job._contexts[rank], b"train", times, ctypes.byref(
            ctypes.c_double())))

    job._all(run)


def python_steps(job, batch, times):
    for _ in range(times):
        job.step(**batch)


def seconds_of_step(steps, *arguments):
    """Of one step, over at least SECONDS."""
    begin, num, times = time.perf_counter(), 0, 10
    while True:
        steps(*arguments, times)
        num += times
        spent = time.perf_counter() - begin
        if spent >= SECONDS:
            return spent / num
        times = max(1, int(num * (SECONDS - spent) / spent))


def measure(name, ranks):
    keys = {"device_num": ranks, "parallel_mode": "data_parallel"} if ranks > 1 else {}
    plan = msc.compile(NETWORKS[name](), **keys)
    with plan.run(seed=1, threads=1) as job:
        kinds = arrays_of(plan)
        job.step(**kinds["bytes"])
        taken = {kind: [] for kind in ("own", *kinds)}
        for _ in range(ROUNDS):
            taken["own"].append(seconds_of_step(own_steps, job))
            for kind, batch in kinds.items():
                taken[kind].append(seconds_of_step(python_steps, job, batch))
    own = statistics.median(taken.pop("own"))
    for kind, seconds in taken.items():
        more = (statistics.median(seconds) - own) * 1e6
        print(f"{name:6} {ranks} rank{'s' if ranks > 1 else ' '} {kind:9} a step {own * 1e6:8.1f} us, by job.step "
              f"{more:6.1f} us more{'' if more <= GOAL else f': above the goal of {GOAL}'}", flush=True)


for network in NETWORKS:
    for num in (1, 2):
        measure(network, num)
