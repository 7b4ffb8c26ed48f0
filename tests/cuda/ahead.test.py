#!/usr/bin/env python3
"""ahead: engines of cuDNN that are chosen when a plan is compiled: whoever loads the plan takes them and asks for no
others, unless the library is of another version or the GPU of another kind; then it asks, and the losses are the
same.  The stand-in of tests/cuda/standin plays cuDNN; where the real one is installed, it makes the same bytes every
time."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from network import Network  # noqa: E402
from program import call, run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
RESTORED, OFFERED = "an engine is restored", "engines are offered"


def compile_plan(path, plan, folder, env, target="cuda:sm_90", *keys):
    call(MSC, "compile", path, "-o", plan, "--target", target, "--cluster", "h100", "--set", "compute_type=bf16", *keys,
         "--dump-dir", folder, env={"LD_LIBRARY_PATH": STANDIN, **env})
    with open(plan, "rb") as file:
        return file.read()


def graphs(plan):
    """Of how many there are, how many have an engine."""
    lines = [line for line in call(MSC, "dump", plan).splitlines() if "by the library, workspace" in line]
    return len(lines), sum(", engine of " in line for line in lines)


def demand(holds, what):
    if not holds:
        sys.exit(what)


def run(network, plan, folder, env):
    """The losses, what the runtime says, and how often engines were restored and offered."""
    log = os.path.join(folder, "log")
    if os.path.exists(log):
        os.remove(log)
    gpu = {
        "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.join(folder, "kernels.ll"), "MSC_STANDIN_LOG": log,
        "MSC_DEBUG": "1", **env
    }
    out = call("sh", "-c", 'exec "$0" "$@" 2>&1', MSC, "run", plan, "--in-order", "--steps", "2", "--init",
               network.write_weights(folder), "--data", *network.write_data(folder), env=gpu)
    with open(log) as file:
        calls = file.read()
    return re.findall(r"loss (\S+)", out), out, calls.count(RESTORED), calls.count(OFFERED)


def check_standin(network, path, folder):
    plan = os.path.join(folder, "plan.bin")
    compile_plan(path, plan, folder, {})
    num, known = graphs(plan)
    demand(num and num == known, f"{known} of {num} graphs have engines")
    demand("  engines of cuDNN 91900 for sm_90\n" in call(MSC, "dump", plan),
           "msc dump does not say whose engines they are")
    losses, out, restored, offered = run(network, plan, folder, {})
    demand(restored and not offered, f"{restored} engines are the plan's, {offered} times others were asked for")
    demand(f"cuDNN 91900: {restored} engines of {restored} graphs are the plan's\n" in out, out)
    for env in {"MSC_STANDIN_CUDNN": "92600"}, {"MSC_STANDIN_ARCH": "100"}:
        other, out, restored, offered = run(network, plan, folder, env)
        demand(offered and not restored,
               f"{env}: {restored} engines are the plan's, {offered} times others were asked for")
        demand("graphs are the plan's; it has those of another version or GPU\n" in out, out)
        demand(other == losses, f"{env}: {other}, not {losses}")


def check_without(path, folder):
    """Where there is no cuDNN, where no GPU is named or another one than the cluster describes, and where nobody
    wants them, the plan has none."""
    plan, empty = os.path.join(folder, "without.bin"), os.path.join(folder, "empty")
    os.mkdir(empty)
    open(os.path.join(empty, "libcudnn.so.9"), "w").close()
    for target, libraries, *keys in ("cuda:sm_90", empty), ("cuda",
                                                            STANDIN), ("cuda:sm_80",
                                                                       STANDIN), ("cuda:sm_90", STANDIN, "--set",
                                                                                  "library_engines=false"):
        compile_plan(path, plan, folder, {"LD_LIBRARY_PATH": libraries}, target, *keys)
        demand(graphs(plan)[0] and not graphs(plan)[1], f"{target} {keys} with {libraries}: engines in the plan")


def check_real(path, folder):
    plan = os.path.join(folder, "real.bin")
    real = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    made = compile_plan(path, plan, folder, real)
    num, known = graphs(plan)
    if not known:
        print("skipped: the real cuDNN is not installed")
        return
    demand(num == known, f"cuDNN has engines for {known} of {num} graphs")
    demand(made == compile_plan(path, plan, folder, {**real, "MSC_LONG": 1000 * "x"}),
           "cuDNN: another environment, another plan")


def main():
    folder, path = os.getcwd(), os.path.join(HERE, "ahead", "both.mlir")
    with open(path) as text:
        network = Network("both", text.read(), "batch 8, 16 samples in order, 4 classes")
    check_standin(network, path, folder)
    check_without(path, folder)
    check_real(path, folder)


run_on_standin(main)
