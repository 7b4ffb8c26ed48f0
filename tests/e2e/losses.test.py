#!/usr/bin/env python3
"""losses: the networks of fixtures/ compiled and run by `msc`, on one rank and on several; losses within 1e-4 of
PyTorch's. Weights and data are written from the formulas of formula.py; the standard library is enough."""
import json
import os
import re
import subprocess
import sys
import tempfile

from network import Network

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
TOLERANCE = 1e-4  # relative

# What each network runs on: ranks and configuration, and an annotation of its first op of a kind.  Replicas whose
# gradients are averaged train as one rank does.
ONE = (1, [])
REPLICAS = (2, ["parallel_mode=data_parallel", "gradients_mean=true"])
GLOBAL = (4, ["parallel_mode=semi_auto_parallel"])
SEARCHED = (4, ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"])
TABLE_ROWS = (4, ["parallel_mode=semi_auto_parallel",
                  "strict_parameter_layout=false"], "gather", "in_strategy = [[4, 1], [1, 1]]")
UNEQUAL_ROWS = (*TABLE_ROWS[:3], "manual_split = [5, 2, 8, 1]")
RUNS = {
    "ffn": [ONE, SEARCHED], "tied": [ONE, GLOBAL, TABLE_ROWS, UNEQUAL_ROWS], "sgd": [ONE, REPLICAS],
    "adamw": [ONE, REPLICAS, GLOBAL]
}
SPLIT = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"]
RUNS["resnet"] = [
    ONE, GLOBAL, (4, SPLIT, "conv2d", "in_strategy = [[1, 1, 4, 1], [1, 1, 1, 1]]"),
    (4, SPLIT, "conv2d", "in_strategy = [[2, 1, 2, 1], [1, 1, 1, 1]]")
]
ZERO = [
    "parallel_mode=data_parallel", "gradients_mean=true",
    'parallel_optimizer_config={"parallel_optimizer_threshold": 0}'
]
RUNS["clipped"] = [ONE, REPLICAS, GLOBAL, (4, ZERO + ["zero=1"]), (8, ZERO + ["zero=3"])]
RUNS["lamb"] = [ONE, GLOBAL, (8, ZERO + ["zero=2"])]
DEFAULT = [ONE, GLOBAL]


def fixture(name):
    path = os.path.join(FOLDER, name + ".mlir")
    with open(path) as file, open(os.path.join(FOLDER, name + ".losses")) as losses:
        network = Network(name, file.read(), losses.read())
    network.path = path
    return network


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def with_strategy(network, folder, kind, strategy):
    with open(network.path) as file:
        text = re.sub(rf'("msc.{kind}"\(.*?\)) (?:{{(.*)}} )?:', rf"\1 {{{strategy}, \2}} :", file.read(),
                      count=1).replace(", }", "}")
    path = os.path.join(folder, f"{network.name}.{kind}.mlir")
    with open(path, "w") as out:
        out.write(text)
    return path


def train(network, folder, data, weights, ranks, keys, *strategy):
    plan = os.path.join(folder, f"{network.name}.{ranks}.bin")
    sets = [word for key in [f"device_num={ranks}"] + keys for word in ("--set", key)]
    path = with_strategy(network, folder, *strategy) if strategy else network.path
    call([MSC, "compile", path, "-o", plan] + sets)
    out = call([
        MSC, "run", plan, "-n",
        str(ranks), "--init", weights, "--in-order", "--steps",
        str(len(network.losses)), "--json", "--data"
    ] + data)
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["loss"] for line in lines if "step" in line and "loss" in line][: len(network.losses)]


def check(network, folder):
    data, weights = network.write_data(folder), network.write_weights(folder)
    for ranks, keys, *strategy in RUNS.get(network.name, DEFAULT):
        losses = train(network, folder, data, weights, ranks, keys, *strategy)
        if len(losses) != len(network.losses):
            sys.exit(f"{network.name} on {ranks} ranks: {len(losses)} losses, expected {len(network.losses)}")
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, network.losses))
        print(f"{network.name} on {ranks} ranks {' '.join(keys + strategy)}: largest difference {worst:.1e}")
        if not worst <= TOLERANCE:
            step = next(i for i, (a, b) in enumerate(zip(losses, network.losses))
                        if not abs(a - b) <= TOLERANCE * abs(b))
            sys.exit(
                f"{network.name} on {ranks} ranks {' '.join(keys + strategy)}: loss of step {step} is "
                f"{losses[step]:.9g}, PyTorch's {network.losses[step]:.9g}"
            )


def main():
    usage = subprocess.run([MSC, "run", "--help"], capture_output=True, text=True).stdout
    if "--in-order" not in usage:
        print("skipped: this msc cannot run plans in sample order")
        return
    names = sorted(n.removesuffix(".mlir") for n in os.listdir(FOLDER) if n.endswith(".mlir"))
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or names:
            check(fixture(name), folder)


main()
