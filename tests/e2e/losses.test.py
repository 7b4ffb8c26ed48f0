#!/usr/bin/env python3
"""losses: the networks of fixtures/ compiled and run by `msc`, on one rank and on several; losses within 1e-4 of PyTorch's.
Weights and data are written from the formulas of formula.py; the standard library is enough."""
import array
import json
import os
import re
import subprocess
import sys
import tempfile

import formula

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
TOLERANCE = 1e-4  # relative

# What each network runs on: ranks and configuration, and the strategy of its first op of a kind.  Replicas whose gradients are averaged train as one rank does.
ONE = (1, [])
REPLICAS = (2, ["parallel_mode=data_parallel", "gradients_mean=true"])
GLOBAL = (4, ["parallel_mode=semi_auto_parallel"])
SEARCHED = (4, ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"])
TABLE_ROWS = (4, ["parallel_mode=semi_auto_parallel", "strict_parameter_layout=false"], "gather", "[[4, 1], [1, 1]]")
RUNS = {"ffn": [ONE, SEARCHED], "tied": [ONE, GLOBAL, TABLE_ROWS], "sgd": [ONE, REPLICAS], "adamw": [ONE, REPLICAS, GLOBAL]}
SPLIT = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"]
RUNS["resnet"] = [ONE, GLOBAL, (4, SPLIT, "conv2d", "[[1, 1, 4, 1], [1, 1, 1, 1]]"), (4, SPLIT, "conv2d", "[[2, 1, 2, 1], [1, 1, 1, 1]]")]
DEFAULT = [ONE, GLOBAL]


class Network:
    """What a fixture's files say."""

    def __init__(self, name):
        self.name = name
        self.path = os.path.join(FOLDER, name + ".mlir")
        with open(os.path.join(FOLDER, name + ".losses")) as file:
            head, *rest = file.read().splitlines()
        self.losses = [float(v) for v in rest]
        self.batch, self.samples, self.classes = map(int, re.search(r"batch (\d+), (\d+) samples in order, (\d+) classes", head).groups())
        with open(self.path) as file:
            text = file.read()
        types = re.findall(r"%([\w.]+): tensor<((?:\d+x)*)(\w+)>", re.search(r"\^bb0\((.*)\):", text).group(1))
        attrs = re.findall(r'\{msc\.name = "([\w.]+)", msc\.role = "(\w+)"(?:, msc\.init = "([\w:.]+)")?', text)
        self.args = []
        for (name, dims, dtype), (other, role, init) in zip(types, attrs):
            assert name == other
            self.args.append((name, role, [int(d) for d in dims.split("x") if d], dtype, init))

    def samples_of(self, role, shape, dtype):
        for s in range(self.samples):
            if role == "data":
                yield formula.tokens(s, shape[1]) if dtype == "i32" else formula.data(s, formula.count(shape[1:]), self.classes)
            elif dtype == "i32":
                yield [formula.label(s, self.classes)]
            else:
                yield formula.probabilities(s, shape[-1]) if shape[-1] == self.classes else formula.target(s, shape[-1])

    def write_data(self, folder):
        files = []
        for name, role, shape, dtype, _ in self.args:
            if role == "parameter":
                continue
            numbers = array.array("i" if dtype == "i32" else "f")
            for sample in self.samples_of(role, shape, dtype):
                numbers.extend(sample)
            path = os.path.join(folder, f"{self.name}.{name}.npy")
            write_npy(path, numbers, [self.samples] + shape[1:])
            files.append(f"{name}={path}")
        return files

    def write_weights(self, folder):
        header, blobs, at = {}, [], 0
        for i, (name, role, shape, _, init) in enumerate(self.args):
            if role != "parameter":
                continue
            blob = array.array("f", formula.weights(i, init, formula.count(shape))).tobytes()
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(blob)]}
            blobs.append(blob)
            at += len(blob)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = os.path.join(folder, self.name + ".safetensors")
        with open(path, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
        return path


def write_npy(path, numbers, shape):
    kind = "<i4" if numbers.typecode == "i" else "<f4"
    dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({dims}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def with_strategy(network, folder, kind, strategy):
    with open(network.path) as file:
        text = re.sub(rf'("msc.{kind}"\(.*?\)) (?:{{(.*)}} )?:', rf"\1 {{in_strategy = {strategy}, \2}} :", file.read(), count=1).replace(", }", "}")
    path = os.path.join(folder, f"{network.name}.{kind}.mlir")
    with open(path, "w") as out:
        out.write(text)
    return path


def train(network, folder, data, weights, ranks, keys, *strategy):
    plan = os.path.join(folder, f"{network.name}.{ranks}.bin")
    sets = [word for key in [f"device_num={ranks}"] + keys for word in ("--set", key)]
    path = with_strategy(network, folder, *strategy) if strategy else network.path
    call([MSC, "compile", path, "-o", plan] + sets)
    out = call([MSC, "run", plan, "-n", str(ranks), "--init", weights, "--in-order", "--steps", str(len(network.losses)), "--json", "--data"] + data)
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
            step = next(i for i, (a, b) in enumerate(zip(losses, network.losses)) if not abs(a - b) <= TOLERANCE * abs(b))
            sys.exit(f"{network.name} on {ranks} ranks {' '.join(keys + strategy)}: loss of step {step} is {losses[step]:.9g}, PyTorch's {network.losses[step]:.9g}")


def main():
    usage = subprocess.run([MSC, "run", "--help"], capture_output=True, text=True).stdout
    if "--in-order" not in usage:
        print("skipped: this msc cannot run plans in sample order")
        return
    names = sorted(n.removesuffix(".mlir") for n in os.listdir(FOLDER) if n.endswith(".mlir"))
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or names:
            check(Network(name), folder)


main()
