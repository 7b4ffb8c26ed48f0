#!/usr/bin/env python3
"""The wheel in; passes if PyTorch finds the backend "msc" in the installed package, which nobody has imported, and also
where msc.pytorch was imported before."""

import os
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import MSC, need  # noqa: E402

need("torch")

PROGRAM = """
import torch
net, x = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh()), torch.randn(3, 5)
compiled = torch.compile(net, backend="msc")(x)
assert torch.allclose(compiled, net(x), atol=1e-6)
import msc, sys
assert os.path.dirname(msc.__file__) == os.path.join(FOLDER, "msc"), msc.__file__
"""


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(root, "tools/install"), "--wheel", folder, os.path.dirname(MSC)]
        wheel = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        env = {**os.environ, "PYTHONPATH": folder}
        for first in ("", "import msc.pytorch\n"):
            program = (f"import os, warnings\nFOLDER = {folder!r}\n"
               f"warnings.filterwarnings('error', 'PyTorch executes')\n{first}{PROGRAM}")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, cwd=folder)
            assert done.returncode == 0, done.stderr
            print(first.strip() or "nothing imported before", flush=True)


main()
