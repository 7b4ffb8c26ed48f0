#!/usr/bin/env python3
"""msc simulate beside measured steps: GPTs that Megatron-DeepSpeed trained on A100s, on one node with tensor, data and
pipeline parallelism and on 32 nodes.  The times are figures of the vTrain project (Bang et al., vTrain: A Simulation
Framework for Evaluating Cost-Effective and Compute-Optimal Large Language Model Training, MICRO 2024).  The parts of a
step add up to it.  tests/bench/simulated.py compares all rows."""
import os
import statistics
import sys
import tempfile

from expect import Expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench"))
from simulated import MANY, SINGLE, simulated  # noqa: E402

# GPUs, batch, micro-batch, hidden, heads, layers, sequence, tensor, data, pipeline parallelism; milliseconds
MEASURED = (
    (SINGLE, (4, 64, 4, 2048, 16, 12, 1024, 1, 4, 1), 585.348299),
    (SINGLE, (8, 128, 1, 2048, 16, 12, 1024, 1, 8, 1), 816.114145),
    (SINGLE, (4, 16, 8, 1024, 16, 12, 1024, 2, 1, 2), 125.900205),
    (SINGLE, (8, 16, 8, 1024, 16, 12, 1024, 8, 1, 1), 120.945481),
    (SINGLE, (8, 64, 4, 1024, 16, 16, 1024, 1, 4, 2), 279.430369),
    (MANY, (256, 1024, 2, 6144, 48, 40, 2048, 8, 8, 4), 10926.4),
    (MANY, (64, 512, 2, 3072, 32, 30, 2048, 4, 16, 1), 6228.3),
)

expect = Expect()
errors = []
for device, row, measured in MEASURED:
    with tempfile.TemporaryDirectory() as folder:
        told = simulated(row, device, folder)
    errors.append(told["step_ms"] / measured - 1)
    expect.check(f"{row}: {100 * errors[-1]:+.1f} %", abs(errors[-1]) <= 0.12)
    for s in told["stages"]:
        total = sum(s["ms"].values()) + sum(s["exposed_ms"].values())
        expect.check(f"{row}, stage {s['stage']}: parts of {total} ms", abs(total - told["step_ms"]) < 1e-6 * total)
mean = statistics.mean(abs(e) for e in errors)
expect.check(f"mean error {100 * mean:.1f} %", mean <= 0.06)
expect.done()
