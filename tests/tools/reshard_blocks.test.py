#!/usr/bin/env python3
"""Plans of msc reshard on random meshes and layouts, executed on the simulated devices of tests/facts/blocks.py:
every step is a legal use of its verb and moves the bytes it says, and the right blocks arrive."""
import json
import os
import random
import subprocess
import sys

from expect import MSC, Expect

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "facts"))
from blocks import Simulation, primes  # noqa: E402

expect = Expect()
rng = random.Random(5)


def random_layout(mesh, rank, partial):
    digits = [(a, mesh[a] // (s * p), p) for a, s, p in primes(mesh, [])]
    rng.shuffle(digits)
    dims, pending = [[] for _ in range(rank)], []
    for axis, pre, p in digits:
        where = rng.randrange(rank + 2)
        if where < rank:
            dims[where].append(f"{axis}:({pre}){p}")
        elif where == rank and partial:
            pending.append(f"{axis}:({pre}){p}")
    text = "[" + ",".join("{" + ",".join(d) + "}" for d in dims) + "]"
    return text + (" partial={" + ",".join(pending) + "}" if pending else "")


def run_case(mesh, shape, elem, source, target):
    axes = ",".join(f"{n}={s}" for n, s in mesh.items())
    command = [
        "reshard", "--mesh", axes, "--shape", ",".join(map(str, shape)), "--bytes",
        str(elem), "--from", source, "--to", target, "--json"
    ]
    name = " ".join(command)
    plan = json.loads(subprocess.run([MSC, *command], capture_output=True, text=True, check=True).stdout)
    simulation = Simulation(mesh, shape, elem, source, target, plan["steps"])
    for step in plan["steps"]:
        counted = simulation.step(step)
        expect.check(f"{name}: bytes of {step['op']}: {counted}", counted == step["bytes"])
    expect.check(name, simulation.arrived())
    bound = simulation.bound()
    if bound is not None:
        expect.check(name + ": lower bound", plan["lower_bound"] == bound == plan["bytes"])


for n in range(60):
    mesh = rng.choice([{"x": 4, "y": 2}, {"x": 2, "y": 3}, {"x": 2, "y": 2, "z": 2}, {"x": 8}])
    shape = [6 if 3 in mesh.values() else 8] * rng.choice([1, 2, 3])
    run_case(mesh, shape, rng.choice([1, 2, 4, 8]), random_layout(mesh, len(shape), n % 2),
             random_layout(mesh, len(shape), False))
expect.done()
