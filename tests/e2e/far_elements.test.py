#!/usr/bin/env python3
"""far_elements: elementwise ops of numbers far from zero, near zero and infinite: each element is that of Python's
math, in f64, within a few roundings of its type, relative to itself."""
import array
import math
import os
import sys

import msc

INF = math.inf
X = [-INF, -90, -30, -20, -15, -8, -1, -1e-3, -1e-5, -1e-7, 0, 1e-7, 1e-3, 1, 5, 20, 80, INF]
PAIRS = [(7, INF), (-7, INF), (7, -INF), (0, INF), (1.5, -1e-3), (-1.5, 1e-3), (5, 0.1), (-8.25, 2.5), (1e6, 3.3),
         (3, 2), (-3, 2), (0.3, 0.1), (1e6, -0.7), (-1e6, 0.7), (0.1, 3), (-0.1, 3), (4, 2), (-4, 2)]
ROUNDINGS = {"f32": 2.0**-20, "f64": 1e-13}


def soft_plus(x):
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def mod(x, y):
    rest = math.fmod(x, y)
    return rest if rest == 0 or (rest < 0) == (y < 0) else y if math.isinf(y) else rest + y


OPS = {
    "softplus": soft_plus,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "mish": lambda x: x * math.tanh(soft_plus(x)),  # NaN at minus infinity
    "none": soft_plus,  # the loss of label 0, and of label 1
    "all": lambda x: soft_plus(-x),
}


def close(have, want, dtype):
    if math.isnan(want):
        return math.isnan(have)
    if math.isinf(want) or abs(want) < 1e-37:  # below: f32 has no full fraction
        return have == want or abs(have) < 1e-37 > abs(want)
    return abs(have - want) <= ROUNDINGS[dtype] * abs(want)


def main():
    wrong = 0
    for dtype, code in (("f32", "f"), ("f64", "d")):
        graph = msc.Graph("g")
        x, a, b = graph.input("x", dtype, [len(X)]), graph.input("a", dtype, [len(PAIRS)]), graph.input(
            "b", dtype, [len(PAIRS)])
        for name in ("softplus", "elu", "mish"):
            graph.output(name, getattr(graph, name)(x))
        finite = graph.clamp(x, low=-1e30, high=1e30)  # infinity times label 0 is no number
        for name, label in (("none", 0.0), ("all", 1.0)):
            labels = graph.constant(label, dtype, shape=[len(X)])
            graph.output(name, graph.sigmoid_cross_entropy(finite, labels, reduction="none"))
        graph.output("fmod", graph.fmod(a, b))
        graph.output("mod", graph.mod(a, b))
        given = {"x": array.array(code, X), "a": array.array(code, [p for p, _ in PAIRS]),
                 "b": array.array(code, [q for _, q in PAIRS])}
        with msc.compile(graph).run() as job:
            have = {n: v.tolist() for n, v in job.predict(*OPS, "fmod", "mod", **given).items()}
        for name, function in OPS.items():
            for at, x in enumerate(given["x"]):
                want = function(max(-1e30, min(1e30, x)) if name in ("none", "all") else x)
                if not close(have[name][at], want, dtype):
                    wrong += 1
                    print(f"{dtype} {name}({x!r}): {have[name][at]!r}, not {want!r}")
        for name, function in (("fmod", math.fmod), ("mod", mod)):
            for at, (p, q) in enumerate(zip(given["a"], given["b"])):
                if not close(have[name][at], function(p, q), dtype):
                    wrong += 1
                    print(f"{dtype} {name}({p!r}, {q!r}): {have[name][at]!r}, not {function(p, q)!r}")
    sys.exit(wrong and f"{wrong} elements are wrong")


os.environ["XDG_CACHE_HOME"] = "/dev/null"
main()
