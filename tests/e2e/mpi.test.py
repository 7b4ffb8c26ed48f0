#!/usr/bin/env python3
"""mpi: a small GPT whose ranks mpirun started, with their collectives through Open MPI and through MPICH, has the
losses, the evaluation and the weights of ranks that share memory, bit for bit: replicas, tensor parallelism, the
parallel optimizer, a pipeline. What MPI cannot do, and a library that is none of these, are refused."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

from network import PLANS_OF_RANKS as PLANS
from network import write_gpt
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 12, 8, 32, 48
RUN = ["--threads", "1", "--steps", str(STEPS), "--seed", "5", "--json", "--save", "w.safetensors", "--train",
       f"0:{SAMPLES}", "--eval", f"0:{BATCH}", "--trust-native", "--data", "x=x.npy", "y=y.npy"]
ENV = {"ASAN_OPTIONS": "detect_leaks=0"}  # libraries of MPI keep memory to the end
ENV |= {k: v for k, v in os.environ.items() if not k.startswith(("MSC_R", "MSC_T", "MSC_A", "OMPI_", "PMI"))}


def result(out):
    return losses_and_weights(out, STEPS)


def launchers():
    """The command of mpirun and its options, of every implementation that is installed."""
    found = {}
    for program in ("mpirun.openmpi", "mpirun.mpich", "mpirun"):
        path = shutil.which(program)
        says = path and subprocess.run([path, "--version"], capture_output=True, text=True, env=ENV).stdout
        if says and "Open MPI" in says:
            found.setdefault("Open MPI", [path, "--oversubscribe", "--allow-run-as-root"])
        elif says and "HYDRA" in says:
            found.setdefault("MPICH", [path])
    return found


def run(mpirun, ranks, plan, *options, **env):
    return subprocess.run([*mpirun, "-n", str(ranks), MSC, "run", plan, *RUN, *options], env={**ENV, **env},
                          capture_output=True, text=True, timeout=120)


def check_plans(name, mpirun, wanted):
    for i, (ranks, keys) in enumerate(PLANS):
        p = run(mpirun, ranks, f"plan{i}.bin", "--comm", "mpi")
        assert p.returncode == 0, (name, keys, p.stderr)
        have = result(p.stdout)
        if have != wanted[i]:
            sys.exit(f"{name}, {keys}: other bits: {have[0]} and {wanted[i][0]}")


def check_refusals(name, mpirun):
    p = run(mpirun, 3, "plan0.bin", "--comm", "mpi", "--replace", "1")
    assert p.returncode and "no rank can take the place of a lost one with mpi" in p.stderr, p.stderr
    p = run(mpirun, 3, "plan0.bin", "--comm", "mpi", MSC_MPI_LIBRARY="libnone.so")
    assert p.returncode and "--comm mpi needs the library of MPI, libnone.so" in p.stderr, p.stderr
    p = run(mpirun, 3, "plan0.bin", "--comm", "mpi", MSC_MPI_LIBRARY="libm.so.6")
    assert p.returncode and "libm.so.6 is neither Open MPI nor MPICH: it has no function MPI_" in p.stderr, p.stderr


def check_not_started():
    p = subprocess.run([MSC, "run", "plan0.bin", "-n", "3", "--comm", "mpi", *RUN], env=ENV,
                       capture_output=True, text=True)
    assert p.returncode == 1 and "mpirun -n 3 msc run ... --comm mpi" in p.stderr, p.stderr


def main():
    found = launchers()
    if not found:
        print("skipped: there is no mpirun of Open MPI or MPICH here")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_gpt(random.Random(2), 3, SAMPLES, SEQ, BATCH, VOCAB)
        wanted = []
        for i, (ranks, keys) in enumerate(PLANS):
            call(MSC, "compile", "gpt.fbs", "-o", f"plan{i}.bin", "--set", f"device_num={ranks}", *settings(keys))
            wanted.append(result(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), *RUN)))
        check_not_started()
        for name, mpirun in found.items():
            check_plans(name, mpirun, wanted)
            check_refusals(name, mpirun)
    print(f"{len(PLANS)} plans with the same bits through {' and '.join(found)}")


main()
