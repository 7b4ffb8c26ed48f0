#!/usr/bin/env python3
"""ptxas: plans for GPUs of all generations where NVIDIA's assembler is missing, too old, broken or right, played by
a script: PTX is always in the plan, machine code only where it can be made, and what is missing is told."""
import os
import subprocess
import sys

from expect import Expect

expect = Expect()
TOOLKIT = os.path.abspath("toolkit")
ONLY = {"PATH": "/usr/bin:/bin", "CUDA_HOME": TOOLKIT}
PTX = ["sm_90 ptx", "sm_80 ptx"]
NO_CODE = ("msc: warning: the plan has no machine code for sm_{}, only PTX, which the GPU's driver compiles when it "
           "is loaded: {} [E0117]\n")


def assembler(text):
    os.makedirs(f"{TOOLKIT}/bin", exist_ok=True)
    with open(f"{TOOLKIT}/bin/ptxas", "w") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(f"{TOOLKIT}/bin/ptxas", 0o700)


def images():
    lines = [
        line.split() for line in expect("dump ffn.bin", 0).stdout.decode().splitlines() if line.startswith("  image")
    ]
    return [" ".join(words[1:3]) for words in lines], [" ".join(words[6:]) for words in lines]


def compiled(arch, err, *code):
    """`err`: what is told last; nothing is warned of without it."""
    expect(f"compile ffn.fbs -o ffn.bin --target cuda:{arch}", 0, lambda text: ""
           if text.endswith(err) and ("warning" in text) == bool(err) else f"{err}...", env=ONLY)
    expect.check(f"{arch}: {images()[0]}", images()[0] == [*code, *PTX])


subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "ffn.fbs"], check=True)
if os.access("/usr/bin/ptxas", os.X_OK):
    print("skipped: /usr/bin/ptxas is what is found first")
    sys.exit()
compiled("sm_90", NO_CODE.format(90, "there is no ptxas in PATH, nor in CUDA_HOME/bin"))
expect(
    "compile ffn.fbs -o bad.bin --target cuda:sm_95", 1, lambda text: ""
    if text.startswith("msc: error: no architecture sm_95 is known; there are sm_80, sm_86, ") else text, "", env=ONLY)
assembler("echo \"ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'\" >&2; echo more; exit 255")
compiled(
    "sm_120",
    NO_CODE.format(
        120,
        f"{TOOLKIT}/bin/ptxas failed with exit code 255: ptxas fatal   : Value 'sm_120' is not defined for option "
        f"'gpu-name'"
    ))
assembler("kill -9 $$")
compiled("sm_80", NO_CODE.format(80, f"{TOOLKIT}/bin/ptxas failed with exit code -1"))
assembler("exit 0")
compiled("sm_86", NO_CODE.format(86, f"{TOOLKIT}/bin/ptxas made nothing"))
assembler('[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" || head -c 64 "$3" > "$5"')
for arch, code in (("sm_80", 80), ("sm_86", 86), ("sm_89", 89), ("sm_90", 90), ("sm_90a", 90), ("sm_100", 100),
                   ("sm_120", 120), ("sm_130", 130)):
    compiled(arch, "", f"sm_{code} cubin")
by = images()[1]
llvm, early = by[2], ", kernels may begin early"  # the older GPU's kernels begin when others have ended
expect.check(
    f"who made them: {by}",
    llvm.startswith("LLVM ") and by == [f"{llvm}, ptxas 13.0.88 -O3 in 4 threads{early}", llvm + early, llvm])
expect.no_files("ffn.fbs", "ffn.bin", "toolkit")
expect.done()
