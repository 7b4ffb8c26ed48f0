#!/usr/bin/env python3
"""Networks whose batch is not the first factor of every dimension, seen part by part: in micro-batches, in copies of
them and by replicas, alone and together; judged in f64 by the whole batch."""

import inspect
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import Judge, compile_model, need, train  # noqa: E402

need("torch", "numpy")
import parts  # noqa: E402
import torch  # noqa: E402

import msc  # noqa: E402

STEPS, REPLICAS = 4, {"parallel_mode": "data_parallel", "gradients_mean": "true"}
WAYS = {
    "micro-batches": (1, {"micro_size": 2}),
    "copies": (1, {"micro_batch_interleaved": 2}),
    "replicas": (4, REPLICAS),
    "replicas and micro-batches": (2, {"micro_size": 2, **REPLICAS}),
    "auto_parallel and micro-batches": (2, {"micro_size": 2}),
}


def optimizer_of(parameters):
    return torch.optim.SGD(parameters, 0.1)


def seeded(make):
    torch.manual_seed(3)
    return make()


def faults(name, made, reference, ways):
    """Trains a module in these ways, and gives a line for each that is not as near as it should be to what PyTorch
    makes of `reference`, the same module or one that computes the same in another way."""
    module, inputs = made
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "plan.bin")
        msc.export(module.train(), inputs, optimizer=optimizer_of(module.parameters()), out=model)
        judge = Judge(reference.train(), inputs, optimizer_of, STEPS)
        data = {n: v.numpy() for n, v in zip(inspect.signature(module.forward).parameters, inputs)}
        for way, (ranks, keys) in ways.items():
            try:
                compile_model(model, plan, ranks, **keys)
                losses, state = train(plan, data, STEPS, ranks, os.path.join(folder, "model.safetensors"), folder)
                loss, parameter, worst = judge.errors(losses, state)
                said = f"of what is allowed losses {loss:.2g}, parameters {parameter:.2g} ({worst})"
                right = loss <= 1 and parameter <= 1
            except AssertionError as e:
                right, said = False, str(e)
            if not right:
                lines.append(f"{name}, {way}: {said}")
    return lines


wrong = []
for name, make in parts.NETS.items():
    made = seeded(make)
    wrong += faults(name, made, made[0], WAYS)
for name, (make, make_reference) in parts.OF_TWO_REPLICAS.items():
    wrong += faults(name, seeded(make), seeded(make_reference)[0], {"two replicas": (2, REPLICAS)})
print("\n".join(wrong))
sys.exit(bool(wrong))
