#!/usr/bin/env python3
"""Every script of tools/python/examples ends without an error; those whose packages are missing are skipped."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy", "torchvision", "onnx")

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "../../tools/python/examples")


def main():
    scripts = sorted(n for n in os.listdir(FOLDER) if n.endswith(".py"))
    assert len(scripts) >= 2, scripts
    for name in scripts:
        done = subprocess.run([sys.executable, os.path.join(FOLDER, name)], capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
        numbers = [float(n) for n in re.findall(r"loss (\d+\.\d+)", done.stdout)]
        assert len(numbers) > 0 and numbers[-1] < 3, f"{name}: {done.stdout}"


main()
