#!/usr/bin/env python3
"""residual: networks of python3 -m msc.models.  resnet18 is data parallel up to its second stage and model parallel
behind it, by the strategies of three ops at the border; its losses are those of one rank.  In resnet50 the same
strategies reach as far."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, CLASSES, IMAGE, STEPS = 8, 4, 16, 4
RANKS = 4
BORDER = [
    "{before}=(({n},1,1,1),(1,1,1,1))", "stage3.block1.conv1=((1,1,1,1),({n},1,1,1))",
    "stage3.block1.shortcut=((1,1,1,1),({n},1,1,1))"
]
SEARCH = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"]


def call(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def model(folder, name, options, strategies=()):
    path = os.path.join(folder, f"{name}.fbs")
    words = [w for s in strategies for w in ("--strategy", s)]
    call([sys.executable, "-m", "msc.models", name, "-o", path] + options + words,
         env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tools/python")))
    return path


def sets(ranks, keys=()):
    return [w for key in [f"device_num={ranks}", *keys] for w in ("--set", key)]


def write_npy(path, numbers, shape):
    header = (f"{{'descr': '{'<i4' if numbers.typecode == 'i' else '<f4'}', 'fortran_order': False, 'shape': "
              f"{tuple(shape)}, }}")
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())
    return path


def losses(folder, path, ranks, keys, data):
    plan = os.path.join(folder, f"plan{ranks}.bin")
    call([MSC, "compile", path, "-o", plan] + sets(ranks, keys))
    out = call([MSC, "run", plan, "-n", str(ranks), "--in-order", "--steps", str(STEPS), "--json", "--data"] + data)
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["loss"] for line in lines if "step" in line and "loss" in line][:STEPS]


def layouts(path, ranks):
    """Per op of the forward part: the layout of its first result."""
    with open(path + ".mlir", "w") as out:
        out.write(call([MSC, "dump", path]))
    text = call([MSC, "opt", "--until=layouts", path + ".mlir"] + sets(ranks, SEARCH))
    found = re.findall(r'-> \(?tensor<[^,>]*, #msc\.layout<"([^"]*)">>.*? loc\("([\w.]+)"', text)
    return {name: layout for layout, name in reversed(found)}


def check_border(name, found):
    """Everything up to the second stage has its batch cut; behind it the channels of what the residual blocks add
    up, and of their last weights."""
    first = [op for op in found if re.match(r"stem|stage[12]", op) and not op.endswith((".grad", ".update"))]
    wrong = [op for op in first if not found[op].startswith("[{d},{}")]
    adds = [op for op in found if re.fullmatch(r"stage3\.block\d\.(add|relu)", op)]
    wrong += [op for op in adds if not found[op].startswith("[{},{d}")]
    if len(first) < 20 or len(adds) < 4 or wrong:
        sys.exit(
            f"{name}: {len(first)} ops before the border, {len(adds)} sums behind it; not as configured: "
            f"{', '.join(f'{op} {found[op]}' for op in wrong)}"
        )
    print(f"{name}: {len(first)} ops data parallel, {len(adds)} sums model parallel")


def main():
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        pictures = array.array("f", (random.gauss(0, 1) for _ in range(STEPS * BATCH * 3 * IMAGE * IMAGE)))
        classes = array.array("i", (random.randrange(CLASSES) for _ in range(STEPS * BATCH)))
        data = ["x=" + write_npy(os.path.join(folder, "x.npy"), pictures, [STEPS * BATCH, 3, IMAGE, IMAGE]),
                "y=" + write_npy(os.path.join(folder, "y.npy"), classes, [STEPS * BATCH, ])]
        small = [
            "--batch",
            str(BATCH), "--image",
            str(IMAGE), "--classes",
            str(CLASSES), "--width", "4", "--stem", "small", "--lr", "0.05", "--momentum", "0.9"
        ]
        one = losses(folder, model(folder, "resnet18", small), 1, [], data)
        border = [s.format(before="stage2.block2.conv2", n=RANKS) for s in BORDER]
        path = model(folder, "resnet18", small, border)
        check_border("resnet18", layouts(path, RANKS))
        several = losses(folder, path, RANKS, SEARCH, data)
        worst = max(abs(a - b) / abs(b) for a, b in zip(several, one))
        print(f"resnet18: losses {one[0]:.4f} .. {one[-1]:.4f}, largest difference on {RANKS} ranks {worst:.1e}")
        if len(one) != STEPS or len(several) != STEPS or not worst <= 1e-4:
            sys.exit(f"resnet18: {several} on {RANKS} ranks, {one} on one")
        border = [s.format(before="stage2.block4.conv3", n=8) for s in BORDER]
        check_border("resnet50", layouts(model(folder, "resnet50", ["--batch", "32"], border), 8))


main()
