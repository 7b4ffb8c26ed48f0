#!/usr/bin/env python3
"""kill: a rank is killed or stopped at a random point of a run, again and again, over TCP and in shared memory: every
survivor names it, its op and its group, within two seconds of the kill, or of the limit on waiting."""
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
KILLS, STOPS, LIMIT, PATIENCE = 50, 2, 1.0, 7  # PATIENCE: of the launcher with a rank that does not end
MODEL = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32>, %w: tensor<12x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("dense"("net.py":3:5))
    %1 = "msc.reduce_mean"(%0) {dims = [0, 1]} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"}],
      optimizer = {kind = "momentum", lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32}} : () -> ()
}
"""


def run_once(comm, number, rng):
    """Seconds from the signal to the end of the run; every survivor has said who is missing."""
    p = subprocess.Popen([MSC, "run", "net.bin", "--data", "x=x.idx", "--steps", "100000000", "--json", "--trust-native",
                          "--threads", "1", "--comm", comm, "--timeout", str(LIMIT)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    for _ in range(rng.randrange(1, 400)):
        p.stdout.readline()
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as file:
        ranks = [int(pid) for pid in file.read().split()]
    lost, begun = rng.randrange(4), time.time()
    os.kill(ranks[lost], number)
    said = p.communicate(timeout=60)[1]
    took = time.time() - begun
    assert p.returncode == 3, (p.returncode, said)
    assert f"rank {lost} is {'gone' if number == signal.SIGKILL else 'missing'}" in said, (lost, said)
    for r in range(4):
        assert r == lost or f"rank {r}: step " in said, (r, said)
    assert "all_reduce" in said and "(ranks 0,1,2,3)" in said, said
    return took


def main():
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("net.mlir", "w") as out:
            out.write(MODEL)
        with open("x.idx", "wb") as out:
            out.write(struct.pack(">BBBB2I", 0, 0, 8, 2, 64, 12) + bytes(range(96)) * 8)
        call(MSC, "compile", "net.mlir", "-o", "net.bin", "--set", "device_num=4", "--set", "parallel_mode=data_parallel")
        for comm in ("tcp", "local"):
            kills = sorted(run_once(comm, signal.SIGKILL, rng) for _ in range(KILLS))
            stops = sorted(run_once(comm, signal.SIGSTOP, rng) for _ in range(STOPS))
            print(f"{comm}: {KILLS} kills, median {kills[KILLS // 2]:.2f} s, worst {kills[-1]:.2f} s; {STOPS} stops with a limit of "
                  f"{LIMIT} s and {PATIENCE} s for the launcher, median {stops[STOPS // 2]:.2f} s, worst {stops[-1]:.2f} s")
            if kills[KILLS // 2] > 2 or stops[STOPS // 2] > LIMIT + 2 + PATIENCE:  # single ones may be late on a busy machine
                sys.exit("too late")
        os.chdir("/")


main()
