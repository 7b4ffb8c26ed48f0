#!/usr/bin/env python3
"""Boundary operators: in the ResNets of the zoo the last convolution of the second stage is cut along the batch,
those that begin the third stage along their channels.  Propagation makes all before it data parallel and all behind
model parallel, in any size: the batch stays whole, every weight is cut into as many parts as there are devices."""
import os
import re
import sys
import tempfile

from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
DEVICES = 8
LAST = {"resnet18": "stage2.block2.conv2", "resnet50": "stage2.block4.conv3"}
SIZES = [("resnet18", 64, 32), ("resnet50", 224, 256)]
SLOW_SIZES = [("resnet18", 224, 32), ("resnet18", 224, 256), ("resnet50", 64, 32), ("resnet50", 224, 32)]


def parts(digits):
    """Of "{d}" or "{d:(1)2,d:(4)2}"."""
    product = 1
    for digit in re.findall(r"d(?::\(\d+\)(\d+))?", digits):
        product *= int(digit) if digit else DEVICES
    return product


def products(text):
    """name, letter -> parts of every convolution and matrix product of the model."""
    for line in text.splitlines():
        op = re.search(r'"msc\.(conv2d|matmul)"\(.*?\) \{(.*)\} : \(.*loc\(.*?"([\w.]+)"\(', line)
        cut = op and "by = " in op[2] and re.search(r"sharding = \{(.*?)\}(?:, \w+ = |$)", op[2])
        if cut:
            yield op[3], {letter: parts(digits) for letter, digits in re.findall(r'(\w) = "(\{[^"]*\})"', cut[1])}


def check(name, image, batch, folder):
    model, text = os.path.join(folder, "net.fbs"), os.path.join(folder, "net.mlir")
    strategies = [f"{LAST[name]}=(({DEVICES},1,1,1),(1,1,1,1))"
                  ] + [f"stage3.block1.{op}=((1,1,1,1),({DEVICES},1,1,1))" for op in ("conv1", "shortcut")]
    call(sys.executable, "-m", "msc.models", name, "--image", str(image), "--batch", str(batch), "-o", model,
         *[word for s in strategies for word in ("--strategy", s)])
    with open(text, "w") as file:
        file.write(call(MSC, "dump", model))
    settings = (f"device_num={DEVICES}", "parallel_mode=auto_parallel", "search_mode=sharding_propagation")
    seen = list(products(call(MSC, "opt", "--until=search", *[word for s in settings for word in ("--set", s)], text)))
    for op, cut in seen:
        batch_letter, weight = ("m", "kn") if op == "dense" else ("n", "co")
        first = op == "stem" or op.startswith(("stage1", "stage2"))
        right = cut[batch_letter] == DEVICES if first else cut[batch_letter] == 1 and cut[weight[0]] * cut[
            weight[1]] == DEVICES
        if not right:
            sys.exit(
                f"{name}, image {image}, batch {batch}: {op} of the {'first' if first else 'second'} half is cut {cut}")
    if len(seen) != {"resnet18": 21, "resnet50": 54}[name]:
        sys.exit(f"{name}: {len(seen)} products")
    print(f"{name}, image {image}, batch {batch}: {len(seen)} products")


with tempfile.TemporaryDirectory() as temporary:
    for size in SIZES + (SLOW_SIZES if os.environ.get("MSC_TEST_SLOW") else []):
        check(*size, temporary)
