#!/usr/bin/env python3
"""instructions: every instruction of a kernel's program (code.def) is part of a golden case of nest/."""
import glob
import os
import re

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
with open("passes/7_lower/nest/code.def", encoding="utf-8") as f:
    names = [name.lower() for name in re.findall(r"^CODE\((\w+)", f.read(), re.M)]
shown = set()
for path in glob.glob("tests/passes/7_lower/nest/*.mlir"):
    with open(path, encoding="utf-8") as f:
        shown |= set(re.findall(r"^  (?:%\d+ = )?(\w+) ", f.read().partition("// EXPECT")[2], re.M))
absent = [name for name in names if name != "none" and name not in shown]  # none: what was dropped
assert len(names) > 40 and not absent, absent
print(f"{len(names) - 1} instructions")
