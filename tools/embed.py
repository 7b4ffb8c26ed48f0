#!/usr/bin/env python3
"""embed.py: files in; a C header with their bytes as rows EMBEDDED(name, "bytes") out."""
import os
import sys


def literal(data):
    plain = set(range(32, 127)) - set(b'"\\?')
    text = "".join(chr(b) if b in plain else f"\\{b:03o}" for b in data)
    return text.replace("\\012", '\\n"\n  "')


out, paths = sys.argv[1], sys.argv[2:]
with open(out, "w") as f:
    for path in paths:
        with open(path, "rb") as file:
            f.write(f'EMBEDDED({os.path.splitext(os.path.basename(path))[0]}, "{literal(file.read())}")\n')
