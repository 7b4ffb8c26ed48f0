#!/usr/bin/env python3
"""hand_written: what people write by hand, data parallel and Megatron's columns and rows, with all the rest left to
the search, is never cheaper than what the searches find on a mesh of their own; both priced by the same tables."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "e2e"))


MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
# by network: flags, products whose weights are cut by columns, and those cut by rows
NETWORKS = {
    "gpt": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024",
            ("attention.query", "attention.key", "attention.value", "mlp.up"), ("attention.out", "mlp.down")),
    "bert": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024",
             ("attention.query", "attention.key", "attention.value", "mlp.up"), ("attention.out", "mlp.down")),
    "llama": ("--layers 2 --hidden 512 --heads 8 --seq 64 --batch 256 --vocab 1024", ("attention.query", "mlp.up"),
              ("attention.out", "mlp.down"))
}


def step_ns(name, flags, *options):
    subprocess.run([sys.executable, "-m", "msc.models", name, *flags, "-o", "model.fbs"], check=True)
    with open("model.mlir", "w") as out:
        subprocess.run([MSC, "dump", "model.fbs"], check=True, stdout=out)
    run = subprocess.run([
        MSC, "opt", "model.mlir", "--until", "search", "--verify", "0", "--timing", "-o", "out.mlir", "--cluster",
        "h100", "--set", "parallel_mode=auto_parallel", *options
    ], capture_output=True, text=True)
    found = re.search(r" ns (\d+), ns at least", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{name} {flags} {options}:\n{run.stderr}")
    return int(found[1])


def by_hand(columns, rows, data, model, sequence=1):
    """Data parallel, the products' weights by columns and rows, and the sequence cut with keys and values whole."""
    flags = []
    for i in range(2):
        for n in columns:
            flags += ["--strategy", f"layer{i}.{n}=(({data},{sequence},1),(1,{model}))"]
        for n in rows:
            flags += ["--strategy", f"layer{i}.{n}=(({data},{sequence},{model}),({model},1))"]
        if sequence > 1:
            flags += [
                "--strategy",
                f"layer{i}.attention=(({data},{model},{sequence},1),({data},{model},1,1),({data},{model},1,1))"
            ]
    return flags


def mesh_of(**axes):
    return "mesh={" + ",".join(f'"{a}":{n}' for a, n in axes.items() if n > 1) + "}"


failures = cases = 0


def compare(name, flags, strategies, mesh, devices, what):
    global failures, cases
    written = step_ns(name, flags.split() + strategies, "--set", "search_mode=dynamic_programming", "--set", mesh)
    for mode in ("dynamic_programming", "recursive_programming"):
        found = step_ns(name, flags.split(), "--set", f"search_mode={mode}", "--set", f"device_num={devices}")
        cases += 1
        if found > written:
            failures += 1
            print(f"FAILED: {name} {flags} on {devices} devices: {mode} finds {found} ns, {what} takes {written}")


os.chdir(tempfile.mkdtemp())
for name, (flags, columns, rows) in NETWORKS.items():
    for devices, model in ((8, 1), (8, 8), (64, 1), (64, 8)):
        compare(name, flags, by_hand(columns, rows, devices // model, model), mesh_of(dp=devices // model, tp=model),
                devices, f"{devices // model} times data parallel and {model} times model parallel")

# Device counts that are no powers of two, few long sequences, and words that no count divides.
_, columns, rows = NETWORKS["gpt"]
for flags, (data, sequence,
            model) in (("--layers 2 --hidden 768 --heads 12 --seq 64 --batch 96 --vocab 1024",
                        (2, 1, 3)), ("--layers 2 --hidden 768 --heads 12 --seq 64 --batch 96 --vocab 1024", (8, 1, 3)),
                       ("--layers 2 --hidden 768 --heads 12 --seq 64 --batch 96 --vocab 5021",
                        (32, 1, 3)), ("--layers 2 --hidden 512 --heads 8 --seq 2048 --batch 2 --vocab 1021", (2, 4, 1)),
                       ("--layers 2 --hidden 512 --heads 8 --seq 2048 --batch 1 --vocab 1021", (1, 4, 2))):
    compare("gpt", flags, by_hand(columns, rows, data, model, sequence), mesh_of(dp=data, sp=sequence, tp=model),
            data * sequence * model, f"{data} by {sequence} by {model}")

# Pictures, data parallel, on six devices of one node.
step_ns("resnet50", ["--batch", "96"], "--set", "device_num=6")
with open("model.mlir") as text:
    convolutions = re.findall(r'"msc\.conv2d".*loc\("([^"]+)"', text.read())
compare("resnet50", "--batch 96", [x for n in convolutions for x in ("--strategy", f"{n}=((6,1,1,1),(1,1,1,1))")],
        mesh_of(dp=6), 6, "data parallel")
print(f"{cases - failures} of {cases} cases")
sys.exit(failures != 0)
