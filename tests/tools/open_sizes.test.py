#!/usr/bin/env python3
"""Models of open sizes: what msc.fitted makes of the same graph for several sizes is, with --dim, what the graph is for
other sizes, and computes the same; what does not follow from sizes is told, in Python and of files."""
import os

from expect import MSC, Expect, need_library

need_library()

import msc  # noqa: E402
from msc import fitted  # noqa: E402

expect = Expect()


def build(b, t):
    """Numbers of sizes everywhere: shapes, bounds of a slice, a type, a constant and positions that count."""
    g = msc.Graph("open")
    x = g.input("x", "f32", [b, t, 4])
    flat = g.reshape(x, [b * t, 4])
    last = g.slice(g.reshape(flat, [b, t * 4]), [0, 2 * t - 1], [b, 4 * t])
    where = g.constant([float(3 * i + 1) for i in range(t)])  # [t]
    placed = g.reduce_sum(x, [2]) * where
    count = g.cast(g.iota(msc.Type("i64", (b, 2 * t + 1)), dim=1), "f32")
    share = g.broadcast_to(g.constant(float(b * t)), [b, t])
    g.output("last", last)
    g.output("placed", placed)
    g.output("share", g.concat([placed / share, count], 1))
    return g


bounds = {"batch": (1, None), "x.1": (2, 64)}
points = fitted.sample_points(bounds)
joined = fitted.join([build(p["batch"], p["x.1"]) for p in points], points, {"batch": 2, "x.1": 3}, bounds)
joined.save("open.fbs")


def values(*shape):
    if len(shape) == 1:
        return [((7 * i) % 11) / 4 - 1 for i in range(shape[0])]
    flat = values(shape[0] * shape[1] * shape[2])
    rows = [flat[i:i + shape[2]] for i in range(0, len(flat), shape[2])]
    return [rows[i:i + shape[1]] for i in range(0, len(rows), shape[1])]


def results(model, b, t, **words):
    with msc.compile(model, libraries=os.path.dirname(MSC), **words).run() as job:
        return {n: v.tolist() for n, v in job.predict(x=values(b, t, 4)).items()}


for b, t, sizes in ((2, 3, {}), (5, 3, {"batch": 5}), (1, 2, {"batch": 1, "x.1": 2}), (2, 64, {"x.1": 64}),
                    (6, 7, {"x.0": 6, "x.1": 7})):
    own = results("open.fbs", b, t, sizes=sizes)
    expect.check(f"{b} {t}", own == results(build(b, t), b, t) and set(own) == {"last", "placed", "share"})

NAMES = "batch, x.1, x.2"
expect("dump open.fbs --dim x.1=65", 1, "open.fbs: error: size x.1: is 65; the model was made for 2 to 64 [E0102]\n")
expect("dump open.fbs --dim x.1=1", 1, "open.fbs: error: size x.1: is 1; the model was made for 2 to 64 [E0102]\n")
expect("dump open.fbs --dim n=1", 1, lambda text: "" if "--dim n: no input has a dimension of this name" in text
       else NAMES)


build(2, 3).save("fixed.fbs")
expect("dump fixed.fbs --dim batch=4", 1, lambda text: "" if text.count("error") and text.endswith(
    "models of msc.export(..., dynamic_shapes=\"batch\") say which\n") else "a note behind the errors")

# ---- what does not follow ----


def refused(what, make, bounds={"batch": (1, None)}):
    points = fitted.sample_points(bounds)
    try:
        fitted.join([make(*p.values()) for p in points], points, dict.fromkeys(bounds, 2), bounds)
    except msc.Error as e:
        expect.check(f"{what}: {e}", what in str(e))
    else:
        expect.check(what, False)


def one_op(make):
    def graph(b):
        g = msc.Graph("one")
        g.output("y", make(g, g.input("x", "f32", [b, 8]), b))
        return g

    return graph


refused("limit of slice 'slice1'", one_op(lambda g, x, b: g.reshape(g.slice(x, [0, 0], [b // 2, 8]), [b // 2 * 8])))
refused("the number of operations", one_op(lambda g, x, b: g.concat([x] * (b % 3 + 1), 0) if b % 3 else x))
refused("what is computed at exp 'exp1'", one_op(lambda g, x, b: g.exp(x) if b < 25 else g.tanh(x)))
refused("a constant f32[]", one_op(lambda g, x, b: x * (1 / b)))
try:
    fitted.sample_points({"n": (3, 6)})
    expect.check("few", True)
    fitted.sample_points({"n": (4, 6)})
    expect.check("too few", False)
except msc.Error as e:
    expect.check(f"too few: {e}", "size n is 4 to 6: these are too few" in str(e))
expect.done()
