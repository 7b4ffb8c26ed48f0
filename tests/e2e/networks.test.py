#!/usr/bin/env python3
"""networks: the built-in networks in small, built by msc.models, compiled and trained on one rank and on four;
losses within 1e-4 of PyTorch's (make_networks.py)."""
import json
import os
import sys
import tempfile

from network import Network
from networks import CUT, NETWORKS, RUNS, SLOW_RUNS, STRATEGIES, words
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks")
TOLERANCE = 1e-4  # relative
SLOW = bool(os.environ.get("MSC_TEST_SLOW"))


def train(model, network, folder, inputs, ranks, keys):
    plan = os.path.join(folder, f"{network.name}.bin")
    call(MSC, "compile", model, "-o", plan,
         *[word for key in [f"device_num={ranks}"] + keys for word in ("--set", key)])
    out = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--steps", str(len(network.losses)), "--json", *inputs)
    return [line["loss"] for line in map(json.loads, out.splitlines()) if "step" in line and "loss" in line]


def check(name, folder):
    model = os.path.join(folder, name + ".fbs")
    call(sys.executable, *words(name), "-o", model)
    with open(os.path.join(FOLDER, name + ".losses")) as losses:
        network = Network(name, call(MSC, "dump", model), losses.read())
    inputs = ["--init", network.write_weights(folder), "--data", *network.write_data(folder)]
    cut = os.path.join(folder, name + ".cut.fbs")
    call(sys.executable, *words(name, *STRATEGIES[name]), "-o", cut)
    for ranks, keys, path in [(*run, model) for run in RUNS + (SLOW_RUNS if SLOW else [])] + [(*CUT, cut)]:
        what = f"{name} on {ranks} ranks {' '.join(keys)}" + (" with strategies" if path == cut else "")
        losses = train(path, network, folder, inputs, ranks, keys)
        if len(losses) != len(network.losses):
            sys.exit(f"{what}: {len(losses)} losses, expected {len(network.losses)}")
        apart = [abs(a - b) / abs(b) for a, b in zip(losses, network.losses)]
        print(f"{what}: largest difference {max(apart):.1e}")
        if not max(apart) <= TOLERANCE:
            step = next(i for i, d in enumerate(apart) if not d <= TOLERANCE)
            sys.exit(f"{what}: loss of step {step} is {losses[step]:.9g}, PyTorch's {network.losses[step]:.9g}")


def main():
    if not SLOW:
        print("skipped: replicas, propagation and recursion; set MSC_TEST_SLOW to run them too")
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or NETWORKS:
            check(name, folder)


main()
