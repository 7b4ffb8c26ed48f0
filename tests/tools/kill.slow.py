#!/usr/bin/env python3
"""kill: a rank is killed or stopped at a random point of a run, again and again, over TCP, in shared memory and with
both: every survivor names it, its op and its group, within two seconds of the kill, or of the limit on waiting."""
import os
import random
import signal
import subprocess
import time

from expect import MSC, Expect
from small_models import write_one_product

KILLS, STOPS, LIMIT = 50, 10, 2.0


def run_once(comm, number, limit, rng):
    """Seconds from the signal to the end of the run; every survivor has said who is missing."""
    p = subprocess.Popen([MSC, "run", "net.bin", "--data", "x=x.idx",
                          "--steps", "100000000", "--json", "--trust-native",
                          "--threads", "1", "--comm", comm, "--timeout", str(limit)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    for _ in range(rng.randrange(1, 400)):
        assert p.stdout.readline(), p.stderr.read()
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
    if number == signal.SIGSTOP:
        assert f"rank {lost} (process {ranks[lost]}) was stopped by a signal; it was killed" in said, said
    assert "all_reduce" in said and "(ranks 0,1,2,3)" in said, said
    return took


expect, rng = Expect(), random.Random(7)
write_one_product()
expect("compile net.mlir -o net.bin --set device_num=4 --set parallel_mode=data_parallel", 0, None)
for comm in ("tcp", "hosts", "local"):
    kills = sorted(run_once(comm, signal.SIGKILL, 60, rng) for _ in range(KILLS))
    stops = sorted(run_once(comm, signal.SIGSTOP, LIMIT, rng) for _ in range(STOPS))
    print(f"{comm}: {KILLS} kills, median {kills[KILLS // 2]:.2f} s, worst {kills[-1]:.2f} s; {STOPS} stops with a "
          f"limit of {LIMIT} s, median {stops[STOPS // 2]:.2f} s, worst {stops[-1]:.2f} s")
    # single ones may be late on a busy machine
    expect.check(f"{comm}: in time", kills[KILLS // 2] <= 2 and stops[STOPS // 2] <= LIMIT + 2)
expect.done()
