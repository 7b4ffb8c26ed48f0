#!/usr/bin/env python3
"""all_reduce: time of an all_reduce of f32 between ranks of this host, in msc and in Open MPI by turns; least of the
rounds, and the ratio.  Without mpicc and mpirun it says so.

    python3 tests/bench/all_reduce.py [RANKS ...]     2, 4 and 8 without numbers"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SIZES = (1 << 10, 1 << 16, 1 << 22, 1 << 26)
GOALS = {1 << 10: 1, 1 << 16: 1, 1 << 22: 3, 1 << 26: 3}

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; i++) {
    long bytes = atol(argv[i]), times = 0;
    float *x = calloc(1, bytes), *y = calloc(1, bytes);
    double begin, least = 1e9;
    int enough = 0;
    for (long batch = 0; batch < 20 && !enough; batch++) {
      long n = bytes > 1 << 20 ? 2 : 50;
      MPI_Barrier(MPI_COMM_WORLD);
      begin = MPI_Wtime();
      for (long k = 0; k < n; k++) MPI_Allreduce(x, y, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double took = (MPI_Wtime() - begin) / (double)n;
      if (took < least) least = took;
      times += n;
      enough = batch > 3 && (double)times * least > 0.3;
      MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (!rank) printf("%ld %.0f\n", bytes, least * 1e9);
    free(x), free(y);
  }
  return MPI_Finalize();
}
"""


def sizes_for(ranks):
    """Those of which all ranks have less than 8 GB."""
    return [size for size in SIZES if size * ranks <= 1 << 30]


def by_msc(ranks):
    found = {}
    for size in sizes_for(ranks):
        kilo = f"{size >> 10}k"
        text = subprocess.run([MSC, "bench", "comm", "--ranks", str(ranks), "--sizes", f"{kilo}..{kilo}",
                               "--collectives", "all_reduce", "--json"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        rows = json.loads(text)
        rows = rows if isinstance(rows, list) else next(v for v in rows.values() if isinstance(v, list))
        found[size] = next(r["ns"] for r in rows if r["op"] == "all_reduce")
    return found


def by_mpi(program, ranks):
    text = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                           program, *map(str, sizes_for(ranks))], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(size): int(ns) for size, ns in (line.split() for line in text.splitlines())}


def main():
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        print("all_reduce: skipped: Open MPI is not here (mpicc, mpirun)")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "reduce")
        with open(program + ".c", "w") as out:
            out.write(PROGRAM)
        subprocess.run(["mpicc", "-O2", "-o", program, program + ".c"], check=True)
        for ranks in [int(word) for word in sys.argv[1:]] or (2, 4, 8):
            own, other = {}, {}
            for _ in range(ROUNDS):
                for least, found in ((own, by_msc(ranks)), (other, by_mpi(program, ranks))):
                    for size, ns in found.items():
                        least[size] = min(ns, least.get(size, ns))
            for size in sizes_for(ranks):
                ratio = other[size] / own[size]
                print(f"{ranks} ranks, {size:>9} bytes: msc {own[size] / 1e3:10.1f} us, Open MPI "
                      f"{other[size] / 1e3:10.1f} us: {ratio:5.2f} times as fast (goal {GOALS[size]})", flush=True)


if __name__ == "__main__":
    main()
