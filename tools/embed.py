#!/usr/bin/env python3
"""embed.py: text files in; a C header with their bytes as rows EMBEDDED(name, "text") out."""
import os
import sys

out, paths = sys.argv[1], sys.argv[2:]
with open(out, "w") as f:
    for path in paths:
        text = open(path).read().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n\"\n  \"")
        f.write(f'EMBEDDED({os.path.splitext(os.path.basename(path))[0]}, "{text}")\n')
