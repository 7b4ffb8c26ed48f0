#!/usr/bin/env python3
"""The blocks of tools/python/TUTORIAL.md, one behind the other, in an empty folder."""

import os
import re
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy", "safetensors")

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../tools/python/TUTORIAL.md")


def main():
    text, names = open(PAGE, encoding="utf-8").read(), {"__name__": "tutorial"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.S | re.M))
    assert len(blocks) >= 6, "the page has lost its blocks"
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks:
            line = text[: block.start(1)].count("\n")
            exec(compile("\n" * line + block.group(1), "TUTORIAL.md", "exec"), names)
        os.chdir(HERE)


main()
