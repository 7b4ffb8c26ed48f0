#!/usr/bin/env python3
"""Every kernel of some networks goes through NVIDIA's assembler: no spills, nor on later GPUs, whole vectors where
memory is contiguous, and registers and shared memory as in the report kernels/MODEL-ptxas-VERSION.txt, when there is
one for this ptxas (GOLDEN_UPDATE=1 writes it)."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {
    "gpt": ["--layers", "2", "--hidden", "128", "--heads", "4", "--seq", "64", "--batch", "4", "--vocab", "512"],
    "moe": ["--layers", "1", "--hidden", "64", "--heads", "4", "--seq", "32", "--batch", "4", "--vocab", "256"],
}
SLOW_MODELS = {"resnet18": ["--batch", "4"], "wide_deep": []}
GENERATIONS = ("80", "90")
LATER = ("100", "120")  # take the PTX of sm_90
KNOWS_LATER = 12.8  # the first ptxas that does


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def find_ptxas():
    return shutil.which("ptxas") or next((p for p in ("/usr/local/cuda/bin/ptxas",) if os.access(p, os.X_OK)), None)


def usage(text):
    """name, registers, shared bytes, spilled bytes of each kernel that ptxas -v tells of"""
    for part in re.split(r"Compiling entry function ", text)[1:]:
        name = re.match(r"'([^']+)'", part)[1]
        spilled = re.search(r"(\d+) bytes spill stores", part)
        shared = re.search(r"(\d+) bytes smem", part)
        yield name, int(re.search(r"Used (\d+) registers", part)[1]), int(shared[1]) if shared else 0, int(spilled[1])


def compile_model(model, sizes, folder):
    fbs = f"{folder}/{model}.fbs"
    run(sys.executable, "-m", "msc.models", model, *sizes, "-o", fbs)
    run(os.environ["MSC"], "compile", fbs, "-o", f"{folder}/{model}.bin", "--target", "cuda", "--dump-dir",
        f"{folder}/{model}")


def check_vectors(ptx):
    """Updates move whole vectors only: sizes of parameters are multiples of four. They compute in f32 alone."""
    entry = re.search(r"\.entry (?:fused_)?momentum\w*\((.*?)\n}", ptx, re.S)
    wide = re.findall(r"(?:ld|st)\.global(?:\.nc)?\.v4", entry[1]) if entry else []
    single = re.findall(r"(?:ld|st)\.global(?:\.nc)?\.f32", entry[1]) if entry else []
    if not wide or single:
        sys.exit(f"momentum moves {len(wide)} vectors and {len(single)} single elements")
    if re.search(r"\bf64|\.f64", entry[1]):
        sys.exit("every thread of momentum narrows numbers of the launch")


def check_loss(folder):
    """Long rows are read once for the loss, and once more for the gradient."""
    sizes = {"layers": 1, "hidden": 64, "heads": 1, "seq": 64, "batch": 1, "vocab": 32768}
    compile_model("gpt", [word for k, v in sizes.items() for word in (f"--{k}", str(v))], folder)
    ptx = open(f"{folder}/gpt/kernels.sm_90.ptx").read()
    for kernel, most in (("softmax_cross_entropy", 1), (r"\w*softmax_cross_entropy_grad\w*", 2)):
        entry = re.search(rf"\.entry {kernel}\((.*?)\n}}", ptx, re.S)[1]
        reads = len(re.findall(r"ld\.global(?:\.nc)?\.v4", entry))
        if reads != most:
            sys.exit(f"{kernel} reads the scores {reads} times, not {most}")


def check_report(ptxas, version, model, folder):
    lines = []
    for arch in GENERATIONS:
        text = run(ptxas, "-v", f"-arch=sm_{arch}", f"{folder}/{model}/kernels.sm_{arch}.ptx", "-o",
                   f"{folder}/out.cubin")
        for name, registers, shared, spilled in sorted(usage(text)):
            if spilled:
                sys.exit(f"{model} sm_{arch} {name}: {spilled} bytes spilled")
            lines.append(f"sm_{arch} {name}: {registers} registers, {shared} bytes shared\n")
    for arch in LATER if float(version) >= KNOWS_LATER else ():
        text = run(ptxas, "-v", f"-arch=sm_{arch}", f"{folder}/{model}/kernels.sm_90.ptx", "-o", f"{folder}/out.cubin")
        spilled = [(name, num) for name, _, _, num in usage(text) if num]
        if spilled or not text.count("Compiling entry function"):
            sys.exit(f"{model} sm_{arch}: registers are spilled by {spilled}\n{text}")
    path = f"{HERE}/kernels/{model}-ptxas-{version}.txt"
    if os.environ.get("GOLDEN_UPDATE"):
        open(path, "w").writelines(lines)
    elif not os.path.exists(path):
        print(f"skipped: registers of {model}: there is no report of ptxas {version}")
    elif open(path).readlines() != lines:
        old = set(open(path).readlines())
        sys.exit(f"{path} differs (GOLDEN_UPDATE=1 writes it); new lines:\n" +
                 "".join(line for line in lines if line not in old))


def main():
    ptxas = find_ptxas()
    version = re.search(r"release ([\d.]+)", run(ptxas, "--version"))[1] if ptxas else None
    slow = os.environ.get("MSC_TEST_SLOW") or os.environ.get("GOLDEN_UPDATE")
    with tempfile.TemporaryDirectory() as folder:
        for model, sizes in {**MODELS, **(SLOW_MODELS if slow else {})}.items():
            compile_model(model, sizes, folder)
            if model == "gpt":
                check_vectors(open(f"{folder}/{model}/kernels.sm_90.ptx").read())
            if ptxas:
                check_report(ptxas, version, model, folder)
        check_loss(folder)
    if not ptxas:
        print("skipped: registers and spills: there is no ptxas")


main()
