#!/usr/bin/env python3
"""lookups [NAME ...]: tables of 64 floats a row, looked up and updated lazily by msc.Job beside torch.nn.EmbeddingBag
with sparse gradients and torch.optim.SGD, Adagrad or SparseAdam, by turns on one thread: rows per second of CPU time of
a whole step, their ratio, and the bytes of the rows that a step must move out.

    python3 tests/bench/lookups.py                    with a Python that has torch"""
import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
import torch
from torch import nn

import msc

WIDTH, ROUNDS, SECONDS, BATCHES = 64, 5, 0.5, 8
SIZES = {"cached": (2000, 4096, 1), "cached bags": (2000, 1024, 4), "memory": (1000000, 65536, 1),
         "memory bags": (1000000, 16384, 4)}  # rows of the table, samples, rows of a sample
KINDS = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.SparseAdam}
MOVED = {"sgd": 2, "adagrad": 4, "adam": 6}  # rows read or written by an update, beside the gradient


def job_of_msc(table, samples, bag, kind):
    g = msc.Graph("bag")
    rows = g.gather(g.parameter("t", "f32", [table, WIDTH], init="normal:0.1"), g.input("x", "i32", [samples, bag]))
    y = g.reduce_sum(rows, [1])
    head = g.parameter("w", "f32", [WIDTH, 1], init="normal:0.1", trainable=False)
    g.loss(g.reduce_mean(g.matmul(y, head), [0, 1]))
    g.optimizer(kind, lr=0.01, lazy=True)
    return msc.compile(g).run(seed=1, threads=1)


class Torch:
    def __init__(self, table, samples, bag, kind):
        self.bag = nn.EmbeddingBag(table, WIDTH, mode="sum", sparse=True)
        self.head = 0.1 * torch.randn(WIDTH, 1)
        self.optimizer = KINDS[kind](self.bag.parameters(), lr=0.01)

    def step(self, x):
        loss = (self.bag(x) @ self.head).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def seconds_per_step(step, batches):
    """CPU seconds of one step, over at least SECONDS."""
    num, begin = 0, resource.getrusage(resource.RUSAGE_SELF)
    while True:
        for x in batches:
            step(x)
        num += len(batches)
        now = resource.getrusage(resource.RUSAGE_SELF)
        spent = now.ru_utime + now.ru_stime - begin.ru_utime - begin.ru_stime
        if spent > SECONDS:
            return spent / num


def measure(name, kind):
    table, samples, bag = SIZES[name]
    random = np.random.default_rng(0)
    batches = [random.integers(0, table, (samples, bag)).astype("i4") for _ in range(BATCHES)]
    for_torch = [torch.from_numpy(x) for x in batches]
    peer, times = Torch(table, samples, bag, kind), ([], [])
    with job_of_msc(table, samples, bag, kind) as job:
        for _ in range(1 + ROUNDS):
            times[0].append(seconds_per_step(lambda x: job.step(x=x), batches))
            times[1].append(seconds_per_step(peer.step, for_torch))
    ours, theirs = (statistics.median(t[1:]) for t in times)
    rows = samples * bag
    moved = (2 * samples + rows * (2 + MOVED[kind])) * WIDTH * 4 / ours / 1e9
    print(f"{name:12} {kind:8} msc {rows / ours / 1e6:6.2f} M rows/s, torch {rows / theirs / 1e6:6.2f}: "
          f"{theirs / ours:5.1f} x; rows moved {moved:5.1f} GB/s", flush=True)


torch.set_num_threads(1)
for size in sys.argv[1:] or SIZES:
    for optimizer in KINDS:
        measure(size, optimizer)
