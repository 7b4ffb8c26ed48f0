#!/usr/bin/env python3
"""ilp: the exact search against an integer program over the same tables (HiGHS, PyPI's highspy), to the last
nanosecond, with and without a limit on memory."""
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import highspy
    import numpy as np
except ImportError:
    print("skipped: the Python module highspy is not installed")
    sys.exit(0)

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
TABLES = os.path.join(os.path.dirname(MSC), "tests/passes/3_shard/tables")
MESHES = {"a": 8}, {"a": 2, "b": 4}, {"a": 8, "b": 8}
MODELS = (("ffn", "--batch 512", MESHES), ("mlp", "--batch 256", MESHES),
          ("gpt", "--layers 1 --hidden 256 --heads 4 --seq 64 --batch 64 --vocab 512",
           MESHES[:2]), ("gpt", "--layers 2 --hidden 512 --heads 8 --seq 32 --batch 16 --vocab 1024", MESHES[:1]))


class Graph:
    """One binary per state, one continuous flow per entry of a table whose sums along rows and columns are the
    states'."""

    def __init__(self, text):
        lines = iter(text.splitlines())
        num, pairs = map(int, next(lines).split())
        self.lp = highspy.HighsLp()
        cost, self.bytes, upper, self.entries, self.rows, self.first = [], [], [], [], [], []
        for _ in range(num):
            ns = [int(x) for x in next(lines).split()[1:]]
            self.first.append(len(cost))
            cost += [max(x, 0) for x in ns]
            upper += [float(x >= 0) for x in ns]
            self.bytes += [int(x) for x in next(lines).split()]
            self.row(1, [(self.first[-1] + i, 1) for i in range(len(ns))])
        self.states, ends = len(cost), self.first + [len(cost)]
        for _ in range(pairs):
            words = [int(x) for x in next(lines).split()]
            a, b = words[:2]
            rows, columns = ends[a + 1] - ends[a], ends[b + 1] - ends[b]
            at = len(cost) + np.arange(rows * columns).reshape(rows, columns)
            cost += [max(x, 0) for x in words[2:]]
            upper += [float(x >= 0) for x in words[2:]]
            for i in range(rows):
                self.row(0, [(int(c), 1) for c in at[i]] + [(ends[a] + i, -1)])
            for j in range(columns):
                self.row(0, [(int(c), 1) for c in at[:, j]] + [(ends[b] + j, -1)])
        self.cost, self.upper = np.array(cost, float), np.array(upper)

    def row(self, value, entries):
        self.entries += [(len(self.rows), column, x) for column, x in entries]
        self.rows.append(value)

    def least(self, limit):
        """(ns, bytes) of the best within the limit; None: nothing fits."""
        entries, rows = list(self.entries), len(self.rows)
        low, high = list(map(float, self.rows)), list(map(float, self.rows))
        if limit:
            entries += [(rows, c, x / 1024) for c, x in enumerate(self.bytes)]
            low.append(-highspy.kHighsInf)
            high.append(limit / 1024)
        entries.sort(key=lambda e: (e[1], e[0]))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(low)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self.cost, np.zeros(len(self.cost)), self.upper
        lp.row_lower_, lp.row_upper_ = np.array(low), np.array(high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.searchsorted([e[1] for e in entries], np.arange(len(self.cost) + 1))
        lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array([e[0] for e in entries]), np.array([e[2] for e in entries],
                                                                                               float)
        kind = highspy.HighsVarType
        lp.integrality_ = [kind.kInteger if c < self.states else kind.kContinuous for c in range(len(self.cost))]
        h = highspy.Highs()
        h.setOptionValue("output_flag", False)
        h.setOptionValue("mip_rel_gap", 0.0)
        h.setOptionValue("mip_abs_gap", 0.5)
        h.passModel(lp)
        h.run()
        if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        chosen = np.array(h.getSolution().col_value)[:self.states] > 0.5
        return round(h.getInfo().objective_function_value), sum(b for b, c in zip(self.bytes, chosen) if c)


def searched(mesh, limit):
    """(ns, bytes, proven) of msc; None: nothing fits."""
    run = subprocess.run([
        MSC, "opt", "model.mlir", "--until", "search", "-o", "out.mlir", "--timing", "--cluster", "h100", "--set",
        "parallel_mode=auto_parallel", "--set", "search_mode=dynamic_programming", "--set", f"mesh={mesh}",
        *(["--set", f"memory_limit={limit}"] if limit else [])
    ], capture_output=True, text=True)
    found = re.search(r" ns (\d+), ns at least (\d+), bytes kept (\d+)", run.stderr)
    return (int(found[1]), int(found[3]), found[1] == found[2]) if run.returncode == 0 else None


failures = cases = 0
os.chdir(tempfile.mkdtemp())
for name, flags, meshes in MODELS:
    subprocess.run([sys.executable, "-m", "msc.models", name, *flags.split(), "-o", "model.fbs"], check=True)
    with open("model.mlir", "w") as f:
        subprocess.run([MSC, "dump", "model.fbs"], check=True, stdout=f)
    for mesh in map(json.dumps, meshes):
        graph = Graph(
            subprocess.run([TABLES, "model.mlir", mesh, "h100"], check=True, capture_output=True, text=True).stdout)
        free = graph.least(0)
        for limit in (0, free[1] * 9 // 10, free[1] * 3 // 4):
            best, found = graph.least(limit) if limit else free, searched(mesh, limit)
            ok = found is None if best is None else found is not None and found[0] == best[0] and found[2]
            print(
                f"{'ok' if ok else 'FAILED'}: {name} {flags} on {mesh}, {limit or 'no'} bytes: integer program {best},"
                f" msc {found}",
                flush=True)
            cases, failures = cases + 1, failures + (not ok)
print(f"{cases - failures} of {cases} cases")
sys.exit(failures != 0)
