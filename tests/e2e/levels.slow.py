#!/usr/bin/env python3
"""levels: networks of fixtures/ compiled for every level of x86-64 CPUs, with its own vectors and with others; what
this machine can execute gives PyTorch's losses, the same on four ranks as on one, and what it cannot is refused with
the features that are missing."""
import json
import os
import subprocess
import sys
import tempfile

from network import Network
from program import attempt, call, finish, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
# name: what the system calls a feature that CPUs have from this level on
LEVELS = {"x86-64": "sse2", "x86-64-v2": "sse4_2", "x86-64-v3": "fma", "x86-64-v4": "avx512vl"}
VECTORS = ("", "16", "32", "64")  # "": those of the level
FOUR = {"device_num": 4, "parallel_mode": "semi_auto_parallel"}
TOLERANCE, SAME = 1e-4, 1e-5  # relative: of PyTorch's losses, of one rank's


def losses_of(plan, ranks, network, inputs):
    out = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--steps", str(len(network.losses)), "--json", *inputs)
    return [line["loss"] for line in map(json.loads, out.splitlines()) if "step" in line and "loss" in line]


def apart(a, b):
    assert len(a) == len(b), f"{len(a)} losses, not {len(b)}"
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def refused(plan, inputs):
    run = subprocess.run([MSC, "run", plan, *inputs], capture_output=True, text=True)
    assert run.returncode == 3 and "; this one lacks: " in run.stderr, f"exit code {run.returncode}: {run.stderr}"


def check(network, inputs, cpu, runs_here, vectors, narrow, folder):
    one = None
    for ranks, keys in ((1, {}), (4, FOUR)):
        what = f"{network.name} {narrow or 'f32'} for {cpu}, vectors of {vectors or 'its'} bytes, {ranks} ranks"
        plan = os.path.join(folder, "plan.bin")
        kind = {"compute_type": narrow} if narrow else {}
        call(MSC, "compile", network.path, "-o", plan, "--mcpu", cpu, *settings({**keys, **kind}),
             env={"MSC_VECTOR_BYTES": vectors} if vectors else None)
        if not runs_here:
            refused(plan, inputs)
            print(f"{what}: refused")
            continue
        losses = losses_of(plan, ranks, network, inputs)
        far, other = (0 if narrow else apart(losses, network.losses)), apart(losses, one or losses)
        print(f"{what}: {far:.1e} from PyTorch's, {other:.1e} from one rank's")
        assert far <= TOLERANCE and other <= SAME, what
        one = one or losses


def main():
    with open("/proc/cpuinfo") as file:
        has = next(line for line in file if line.startswith("flags")).split()
    with tempfile.TemporaryDirectory() as folder:
        for name, types in (("ffn", ("",)), ("adamw", ("", "bf16", "f16")), ("resnet", ("",)), ("clipped", ("",))):
            path = os.path.join(FOLDER, name + ".mlir")
            with open(path) as file, open(os.path.join(FOLDER, name + ".losses")) as losses:
                network = Network(name, file.read(), losses.read())
            network.path = path
            inputs = ["--init", network.write_weights(folder), "--data", *network.write_data(folder)]
            for cpu, feature in LEVELS.items():
                for vectors in VECTORS:
                    for narrow in types:
                        attempt(check, network, inputs, cpu, feature in has, vectors, narrow, folder)
    finish()


sys.exit(main())
