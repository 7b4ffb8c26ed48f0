#!/usr/bin/env python3
"""hand_written: what people write by hand, data parallel and Megatron's columns and rows, with all the rest left to the search,
is never cheaper than what the searches find on a mesh of their own; both priced by the same tables."""
import itertools
import os
import re
import subprocess
import sys
import tempfile

try:
    import flatbuffers  # noqa: F401
except ImportError:
    print("skipped: the Python module flatbuffers is not installed; run tools/setup")
    sys.exit(0)

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
# by network: flags, products whose weights are cut by columns, and those cut by rows
NETWORKS = {"gpt": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024", ("attention.query", "attention.key", "attention.value", "mlp.up"), ("attention.out", "mlp.down")),
            "bert": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024", ("attention.query", "attention.key", "attention.value", "mlp.up"), ("attention.out", "mlp.down")),
            "llama": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024", ("attention.query", "mlp.up"), ("attention.out", "mlp.down"))}


def step_ns(name, flags, *options):
    subprocess.run([sys.executable, "-m", "msc.models", name, *flags, "-o", "model.fbs"], check=True)
    with open("model.mlir", "w") as out:
        subprocess.run([MSC, "dump", "model.fbs"], check=True, stdout=out)
    run = subprocess.run([MSC, "opt", "model.mlir", "--until", "search", "--verify", "0", "--timing", "-o", "out.mlir", "--cluster", "h100", "--set", "parallel_mode=auto_parallel", *options], capture_output=True, text=True)
    found = re.search(r" ns (\d+), ns at least", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{name} {flags} {options}:\n{run.stderr}")
    return int(found[1])


def by_hand(columns, rows, data, model):
    flags = []
    for layer, names, weight in itertools.chain(((i, columns, (1, model)) for i in range(2)), ((i, rows, (model, 1)) for i in range(2))):
        for n in names:
            k = weight[0]
            flags += ["--strategy", f"layer{layer}.{n}=(({data},1,{k}),({k},{weight[1]}))"]
    return flags


failures = cases = 0
os.chdir(tempfile.mkdtemp())
for name, (flags, columns, rows) in NETWORKS.items():
    for devices, model in ((8, 1), (8, 8), (64, 1), (64, 8)):
        mesh = f'mesh={{"dp":{devices // model},"tp":{model}}}' if 1 < model < devices else f'mesh={{"d":{devices}}}'
        written = step_ns(name, flags.split() + by_hand(columns, rows, devices // model, model), "--set", "search_mode=dynamic_programming", "--set", mesh)
        for mode in ("dynamic_programming", "recursive_programming"):
            found = step_ns(name, flags.split(), "--set", f"search_mode={mode}", "--set", f"device_num={devices}")
            cases += 1
            if found > written:
                failures += 1
                print(f"FAILED: {name} on {devices} devices: {mode} finds {found} ns, {devices // model} times data parallel and {model} times model parallel take {written}")
print(f"{cases - failures} of {cases} cases")
sys.exit(failures != 0)
