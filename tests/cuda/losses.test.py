#!/usr/bin/env python3
"""losses: networks compiled for a GPU, executed where there is none, by the stand-in of tests/cuda/standin: they
have the losses of the same networks on a CPU, in f32, f16 and bf16, with micro-batches too."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from network import Network  # noqa: E402
from networks import words  # noqa: E402
from program import attempt, call, finish, run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
REAL = "MSC_TEST_GPU" in os.environ  # a GPU is there: see on_gpu
STEPS = 4
# Relative: sums are made in other orders, and a GPU's library rounds once what a CPU rounds after each op.
TOLERANCE = {"f32": 2e-5, "f16": 1e-3, "bf16": 4e-3}


def train(network, path, folder, target, keys):
    plan, dump = os.path.join(folder, target + ".bin"), os.path.join(folder, "ir")
    words_of_keys = [word for key in keys for word in ("--set", key)
                     ] + (["--mcpu", "x86-64-v3"] if target == "cpu" and REAL else [])  # no library of that machine's
    call(MSC, "compile", path, "-o", plan, "--target", target, "--dump-dir", dump, *words_of_keys)
    gpu = {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.join(dump, "kernels.ll")
           } if target == "cuda" and not REAL else {}
    data = ["--init", network.write_weights(folder), "--data", *network.write_data(folder)]
    out = call(MSC, "run", plan, "--in-order", "--steps", str(STEPS), "--json", *data, env=gpu)
    return [line["loss"] for line in map(json.loads, out.splitlines()) if "step" in line and "loss" in line]


def check(network, path, folder, dtype, *keys):
    keys = [f"compute_type={dtype}", *keys]
    cpu, gpu = (train(network, path, folder, target, keys) for target in ("cpu", "cuda"))
    apart = max(abs(a - b) / abs(b) for a, b in zip(gpu, cpu))
    print(f"{network.name} {' '.join(keys)}: largest difference {apart:.1e}")
    if len(gpu) != STEPS or not apart <= TOLERANCE[dtype]:
        sys.exit(f"{network.name} {' '.join(keys)}: {gpu} on the GPU, {cpu} on the CPU")


def check_all(network, path, folder, *more, slow=True):
    """In each type, then in bf16 with other keys."""
    for dtype in TOLERANCE if slow else ["bf16"]:
        attempt(check, network, path, folder, dtype)
    for key in ("micro_size=2", "library_epilogues=false", *more):
        attempt(check, network, path, folder, "bf16", key)


def check_convolutions(network, path, folder, slow):
    for dtype in TOLERANCE if slow else ["f32", "bf16"]:
        attempt(check, network, path, folder, dtype)
    attempt(check, network, path, folder, "f32", "library_convolution=false")


def check_graphs(name, folder, kind, wanted, *dtypes):
    """A model of this folder: so many graphs of the library's in the plan are of that kind."""
    path = os.path.join(HERE, "losses", name + ".mlir")
    with open(path) as text:
        network = Network(name, text.read(), "batch 8, 32 samples in order, 4 classes")
    for dtype in dtypes:
        check(network, path, folder, dtype)
    graphs = call(MSC, "dump", os.path.join(folder, "cuda.bin")).count(f" {kind}")
    if graphs != wanted:
        sys.exit(f"{name}: {graphs} graphs of {kind}, not {wanted}")


def check_missing_library(network, path, folder):
    """A file that is no library is in cuDNN's place."""
    plan, libraries = os.path.join(folder, "missing.bin"), os.path.join(folder, "libraries")
    os.mkdir(libraries)
    for name in ("libcuda.so.1", "libcublasLt.so.13", "retarget.py"):
        os.symlink(os.path.join(STANDIN, name), os.path.join(libraries, name))
    open(os.path.join(libraries, "libcudnn.so.9"), "w").close()
    call(MSC, "compile", path, "-o", plan, "--target", "cuda", "--set", "compute_type=bf16", "--dump-dir", libraries)
    env = {**os.environ, "LD_LIBRARY_PATH": libraries, "MSC_STANDIN_KERNELS": os.path.join(libraries, "kernels.ll")}
    done = subprocess.run([MSC, "run", plan, "--steps", "1", "--data", *network.write_data(folder)],
                          capture_output=True, text=True, env=env)
    wanted = ("libcudnn.so.9 is needed, which cannot be loaded; install NVIDIA's package libcudnn9, or compile with "
              "--set library_attention=false")
    if done.returncode != 3 or wanted not in done.stderr:
        sys.exit(f"without cuDNN: exit {done.returncode}, {done.stderr}")


def fixture(name, folder, losses="mixed"):
    path = os.path.join(HERE, "..", "e2e", "fixtures", name + ".mlir")
    with open(path) as text, open(os.path.join(HERE, "..", "e2e", losses, name + ".losses")) as losses:
        return Network(name, text.read(), losses.read()), path, folder


def built(name, folder, *more):
    path = os.path.join(folder, name + ".fbs")
    call(sys.executable, *words(name, *more), "-o", path)
    with open(os.path.join(HERE, "..", "e2e", "networks", name + ".losses")) as losses:
        return Network(name, call(MSC, "dump", path), losses.read()), path, folder


def main():
    folder = os.getcwd()
    slow = REAL or "MSC_TEST_SLOW" in os.environ
    check_all(*fixture("mlp", folder))
    check_convolutions(*fixture("resnet", folder, "fixtures"), slow)
    check_graphs("masked", folder, "masked_attention", 6,
                 *(("bf16", "f16") if slow else ("bf16", )))  # two, their gradients, and the forward pass
    check_graphs("biased", folder, "biased_conv", 4, *(TOLERANCE if slow else ("bf16",)))
    gpt = built("gpt", folder)
    check_all(*gpt, "library_attention=false", "deterministic=true", slow=slow)
    if not REAL:
        attempt(check_missing_library, *gpt)
    gpt = built("gpt", folder, "--attention-dropout", "0.2")
    attempt(check, *gpt, "bf16")
    attempt(check, *gpt, "bf16", "library_attention=false")
    attempt(check, *built("llama", folder), "bf16")  # heads that share keys
    gpt = built("gpt", folder, "--vocab", "1027")
    attempt(check, *gpt, "bf16")  # rows of scores that do not begin at 16 bytes
    attempt(check, *gpt, "bf16", "score_portions=2")
    finish()


run_on_standin(main, real=REAL)
