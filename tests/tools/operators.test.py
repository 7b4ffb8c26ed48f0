#!/usr/bin/env python3
"""Python's operators on tensors of the builder compute what Python computes on lists; mistakes are told."""
import os

from expect import MSC, Expect, need_library

need_library()

import msc  # noqa: E402

expect = Expect()
X = [[[(i * 7 + j * 3 + k * 5) % 11 - 4.5 for k in range(4)] for j in range(3)] for i in range(2)]
g = msc.Graph("operators")
x = g.input("x", "f32", [2, 3, 4], batch_dim=-1)
CASES = {
    "2 * x + 1": lambda v: 2 * v + 1,
    "1 - x": lambda v: 1 - v,
    "x / 2": lambda v: v / 2,
    "3 / x": lambda v: 3 / v,
    "x - 1": lambda v: v - 1,
    "-x": lambda v: -v,
    "abs(x)": abs,
    "x ** 2": lambda v: v**2,
    "x * x": lambda v: v * v,
    "x < 0": lambda v: v < 0,
    "x >= 0.5": lambda v: v >= 0.5,
    "x.eq(-4.5)": lambda v: v == -4.5,
    "0 < x": lambda v: 0 < v,
    "x.ne(1.5)": lambda v: v != 1.5,
    "x <= 1.5": lambda v: v <= 1.5
}


def flat(v):
    return [e for part in v for e in flat(part)] if isinstance(v, list) else [v]


def sums(axis):
    return {
        0: [[X[0][j][k] + X[1][j][k] for k in range(4)] for j in range(3)],
        2: [[sum(r) for r in m] for m in X]
    }[axis]


wanted = {text: [f(v) for v in flat(X)] for text, f in CASES.items()}
wanted.update({
    "x[1]":
    flat(X[1]),
    "x[-1]":
    flat(X[-1]),
    "x[:, 1]":
    flat([m[1] for m in X]),
    "x[..., ::2]":
    flat([[r[::2] for r in m] for m in X]),
    "x[0, 1:, -1]": [r[-1] for r in X[0][1:]],
    "x[1, 2, 3]": [X[1][2][3]],
    "x[None, :, 0:2]":
    flat([m[:2] for m in X]),
    "x[..., None]":
    flat(X),
    "x.sum()": [sum(flat(X))],
    "x.sum(0)":
    flat(sums(0)),
    "x.sum(-1)":
    flat(sums(2)),
    "x.mean(axis=2, keep_dims=True)": [v / 4 for v in flat(sums(2))],
    "x.max((1, 2))": [max(flat(m)) for m in X],
    "x.T": [X[i][j][k] for k in range(4) for j in range(3) for i in range(2)],
    "x.reshape(6, -1).T": [flat(X)[4 * i + k] for k in range(4) for i in range(6)],
    "x.transpose(0, 2, 1)": [X[i][j][k] for i in range(2) for k in range(4) for j in range(3)],
    "(x.reshape([2, 12]) @ x.reshape(12, 2)).reshape(-1)":
    [sum(flat(X[i])[m] * flat(X)[2 * m + j] for m in range(12)) for i in range(2) for j in range(2)],
    "x.astype('f64')":
    flat(X)
})
SHAPES = {
    "x[1]": (3, 4),
    "x[:, 1]": (2, 4),
    "x[None, :, 0:2]": (1, 2, 2, 4),
    "x[..., None]": (2, 3, 4, 1),
    "x[1, 2, 3]": (),
    "x.mean(axis=2, keep_dims=True)": (2, 3, 1),
    "x.T": (4, 3, 2),
    "x.sum()": ()
}
for number, text in enumerate(wanted):
    y = eval(text)
    expect.check(f"{text} has the shape {y.shape}", text not in SHAPES or y.shape == SHAPES[text])
    g.output(f"y{number}", y)
plan = msc.compile(g, libraries=os.path.dirname(MSC))
with plan.run() as job:
    found = job.predict(x=X)
for number, (text, values) in enumerate(wanted.items()):
    got = flat(found[f"y{number}"].tolist())
    expect.check(f"{text}: {got} {values}",
                 len(got) == len(values) and all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(got, values)))
for text, why in (("x[2]", "2 is no index of dimension 0, which has 2 elements"),
                  ("x[0, 0, 0, 0]", "is indexed with 4"), ("x[..., 0, ...]", "is indexed with 1"),
                  ("x[:, 2:1]", "takes nothing of the 3 elements of dimension 1"),
                  ("x[::-1]", "takes nothing of the 2 elements of dimension 0, or backwards"), ("x['a']",
                                                                                                "'a' is no index"),
                  ("x + 'a'", "unsupported operand"), ("list(x)", "no elements to go through"), ("x.sum(3)", "3")):
    try:
        eval(text)
    except (msc.Error, TypeError) as e:
        expect.check(f"{text}: {e}", why in str(e))
    else:
        expect.check(f"no error: {text}", False)

# Elements that tie share the gradient of an extremum; of one that is no number it is none, as PyTorch has it.
g = msc.Graph("extremes")
p = g.parameter("p", "f32", [3, 3], init="zeros")
x = g.input("x", "f32", [3, 3], batch_dim=-1)
g.loss(g.reduce_sum(g.reduce_max(p + x, [1]), [0]))
g.optimizer("sgd", lr=1.0)
with msc.compile(g, libraries=os.path.dirname(MSC)).run() as job:
    job.step(x=[1.0, 5.0, 2.0, 4.0, 0.0, 4.0, 1.0, float("nan"), 2.0])
    got = flat(job.read("p").tolist())
expect.check(f"gradients of maxima: {got}", got[:6] == [0, -1, 0, -0.5, 0, -0.5] and all(v != v for v in got[6:]))
expect.done()
