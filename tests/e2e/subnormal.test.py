#!/usr/bin/env python3
"""subnormal: numbers below 2^-126 are 0 in every thread of every rank while a plan runs, in what is read and in what is
computed, so momentum without gradients becomes 0; the caller computes with them as before."""
import array
import os
import sys

import msc

ROWS, COLUMNS = 64, 4096  # enough that every thread has a part
TINY, SMALL = 2.0**-140, 2.0**-70


def model():
    g = msc.Graph("g")
    a, b = g.input("a", "f32", [ROWS, COLUMNS]), g.input("b", "f32", [ROWS, COLUMNS])
    w = g.parameter("w", "f32", [COLUMNS], init=f"constant:{SMALL}")
    g.output("made", g.mul(a, a))  # 2^-140
    g.output("read", g.mul(b, g.constant(2.0**100, "f32", shape=[COLUMNS])))
    g.loss(g.reduce_mean(g.mul(g.mul(a, w), a), [0, 1]))  # the gradient of w is 2^-140, over ranks a sum of such parts
    g.optimizer("momentum", lr=1.0, momentum=0.5)
    return g


def of_caller():
    return array.array("d", [2.0**-1030])[0] * 2.0 != 0


def main():
    given = {"a": array.array("f", [SMALL]) * (ROWS * COLUMNS), "b": array.array("f", [TINY]) * (ROWS * COLUMNS)}
    given = {n: memoryview(v).cast("B").cast("f", [ROWS, COLUMNS]) for n, v in given.items()}
    wrong = []
    for ranks, threads in ((1, 1), (1, 2), (2, 1), (2, 2)):
        keys = {"device_num": ranks, "parallel_mode": "data_parallel"}
        with msc.compile(model(), **keys).run(threads=threads) as job:
            have = job.predict("made", "read", **given)
            for name, value in have.items():
                others = {v for row in value.tolist() for v in row} - {0.0}
                if others:
                    wrong.append(f"{ranks} ranks of {threads} threads: {name} has {sorted(others)[:3]}")
            job.step(**given)
            state = set(job.read("w.m").tolist()) - {0.0}
            if state:
                wrong.append(f"{ranks} ranks of {threads} threads: momentum has {sorted(state)[:3]}")
        if not of_caller():
            wrong.append(f"{ranks} ranks of {threads} threads: the caller's subnormal numbers are 0 afterwards")
    sys.exit("\n".join(wrong) if wrong else 0)


os.environ["XDG_CACHE_HOME"] = "/dev/null"
main()
