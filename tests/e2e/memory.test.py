#!/usr/bin/env python3
"""memory: what lies in memory that something else is written to, or that something else is, on one rank, as plain
Python computes it: new values of parameters made of old ones in all ways, gradients that read a parameter as another
shape beside its update, constants as other shapes, rows of which a part meets the whole."""
import array
import json
import os
import random
import sys
import tempfile

from network import read_weights
from program import attempt, call, finish, need_library

need_library()

import msc  # noqa: E402
from msc.runtime import Error, Plan  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
LIBRARY = os.path.join(os.path.dirname(MSC), "libmscrt.so")
SIZES = (10, 40)  # kernels of our own; products by blocks of the library's


# ---- matrices, row by row ----

def every(n, f):
    return [[f(i, j) for j in range(n)] for i in range(n)]


def turned(a):
    return [list(row) for row in zip(*a)]


def product(a, b):
    columns = turned(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def plus(a, b):
    return [[x + y for x, y in zip(r, s)] for r, s in zip(a, b)]


def times(a, b):
    return [[x * (b if isinstance(b, float) else b[i][j]) for j, x in enumerate(r)] for i, r in enumerate(a)]


def flat(a):
    return [x for row in a for x in row] if isinstance(a[0], list) else list(a)


# ---- files ----

def write_tensors(path, tensors):
    head, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
        data += array.array("f", numbers).tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + data)


def step(n, build, shapes, trained=()):
    """Parameters a, b .. of random numbers, of n x n or as `shapes` says, and a constant c; `build` gives what is to
    be summed up.  Returns the parameters before and after a step of lr 1, and c."""
    g = msc.Graph("memory")
    c = every(n, lambda i, j: random.uniform(-1, 1))
    kept = {name: every(n, lambda i, j: random.uniform(-1, 1)) for name in shapes}
    p = {
        name: g.parameter(name, "f32", shape, init="zeros", trainable=name in trained)
        for name, shape in shapes.items()
    }
    one = g.parameter("one", "f32", [], init="ones")
    x = g.input("x", "f32", [1])
    y = build(g, p, g.constant(c))
    g.loss(g.mul(g.mul(g.reduce_sum(y, list(range(len(y.shape)))), one), g.reduce_sum(x, [0])))
    g.optimizer("sgd", lr=1.0)
    with tempfile.TemporaryDirectory() as folder:
        model, before, after, path = (os.path.join(folder, name)
                                      for name in ("model.fbs", "before", "after", "plan.bin"))
        g.save(model)
        write_tensors(before, {**{name: (shapes[name], flat(kept[name])) for name in kept}, "one": ([], [1.0])})
        call(MSC, "compile", model, "-o", path)
        try:
            with Plan(path, library=LIBRARY) as plan:
                plan.load(before)
                plan.run("train", x=array.array("f", [1.0]))
                plan.save(after)
        except Error as e:
            sys.exit(f"{n}: {e}")
        new = read_weights(after)
    return kept, new, c


def near(what, got, wanted):
    wanted = flat(wanted)
    most = max(abs(v) for v in wanted) + 1e-3
    worst = max(abs(x - y) for x, y in zip(got, wanted))
    if len(got) != len(wanted) or not worst <= 1e-5 * most:
        sys.exit(f"{what}: off by {worst:.2g} of {most:.2g}")


# ---- new values of parameters ----

def scaled(g, v, by):
    return g.mul(v, g.constant(by))


def rolled(g, v, n):
    return g.concat([g.slice(v, [1, 0], [n, n]), g.slice(v, [0, 0], [1, n])], 0)


def there_and_back(g, v, n):
    return g.reshape(g.reshape(v, [n * n]), [n, n])


# What new_value(a, ..) and new_value(b, ..) get, as an op and as a number; the loss reads a and b afterwards.
NEW_VALUES = {
    "turned": (lambda g, a, b, c, n: (g.transpose(a, [1, 0]), None), lambda a, b, c: (turned(a), b)),
    "a product with itself": (lambda g, a, b, c, n: (g.matmul(a, b), None), lambda a, b, c: (product(a, b), b)),
    "a product on the right": (lambda g, a, b, c, n: (g.matmul(b, a), None), lambda a, b, c: (product(b, a), b)),
    "each other, scaled": (lambda g, a, b, c, n: (scaled(g, b, 2), scaled(g, a, 2)), lambda a, b, c:
                           (times(b, 2.0), times(a, 2.0))),
    "each other": (lambda g, a, b, c, n: (b, a), lambda a, b, c: (b, a)),
    "another parameter": (lambda g, a, b, c, n: (b, None), lambda a, b, c: (b, b)),
    "another parameter, as another shape": (lambda g, a, b, c, n: (there_and_back(g, b, n), None), lambda a, b, c:
                                            (b, b)),
    "itself": (lambda g, a, b, c, n: (a, None), lambda a, b, c: (a, b)),
    "itself and its row sums": (lambda g, a, b, c, n:
                                (g.add(scaled(g, a, .5), g.reduce_sum(a, [1], keep_dims=True)), None), lambda a, b, c:
                                ([[x / 2 + sum(row) for x in row] for row in a], b)),
    "itself and its column sums": (lambda g, a, b, c, n:
                                   (g.add(scaled(g, a, .5), g.reduce_sum(a, [0], keep_dims=True)), None),
                                   lambda a, b, c: (turned([[x / 2 + sum(row) for x in row] for row in turned(a)]), b)),
    "one value": (lambda g, a, b, c, n: (lambda v: (v, v))(g.add(a, b)), lambda a, b, c: (plus(a, b), plus(a, b))),
    "rolled": (lambda g, a, b, c, n: (rolled(g, a, n), None), lambda a, b, c: (a[1:] + a[:1], b)),
    "an average": (lambda g, a, b, c, n: (g.add(scaled(g, a, .75), scaled(g, c, .25)), None), lambda a, b, c:
                   (plus(times(a, .75), times(c, .25)), b)),
    "a constant": (lambda g, a, b, c, n: (c, None), lambda a, b, c: (c, b)),
    "a constant, as another shape": (lambda g, a, b, c, n: (there_and_back(g, c, n), None), lambda a, b, c: (c, b)),
}


def check_new_value(n, name):
    made, wanted = NEW_VALUES[name]

    def build(g, p, c):
        a, b = p["a"], p["b"]
        new_a, new_b = made(g, a, b, c, n)
        g.new_value(a, new_a)
        if new_b is not None:
            g.new_value(b, new_b)
        return g.tanh(g.matmul(g.matmul(p["w"], a), there_and_back(g, a, n)) + b)  # whose gradient reads a late

    before, after, c = step(n, build, dict.fromkeys("abw", [n, n]), "w")
    new_a, new_b = wanted(before["a"], before["b"], c)
    near(f"{n}: {name}: a", after["a"], new_a)
    near(f"{n}: {name}: b", after["b"], new_b)


# ---- gradients ----

# The summed value of trained a and b; what a step of lr 1 takes from them.  b is flat: it is read as another shape.
def check_gradient(n, name, build, shapes, wanted):
    before, after, c = step(n, build, shapes, "ab")
    for parameter, gradient in wanted({k: v for k, v in before.items()}, c).items():
        took = [x - y for x, y in zip(flat(before[parameter]), after[parameter])]
        near(f"{n}: {name}: {parameter}", took, gradient)


def reads_as_another_shape(g, p, c, n):
    return g.mul(g.matmul(p["a"], g.reshape(p["b"], [n, n])), c)


def constant_as_another_shape(g, p, c, n):
    left = g.reshape(c, [1, n, n])
    return g.mul(g.reshape(g.batch_matmul(left, p["a"]), [n, n]), c)


def pad_columns(g, v, n):
    return g.pad(v, [0, 1], [0, n - 2])


def row_sums_in_a_column(g, p, c, n):
    return g.mul(g.add(g.mul(p["a"], p["a"]), pad_columns(g, g.reduce_sum(p["a"], [1], keep_dims=True), n)), c)


def column_to_all(g, p, c, n):
    return g.mul(g.mul(p["a"], g.slice(p["a"], [0, 1], [n, 2])), c)


def halves_change_places(g, p, c, n):
    y = g.sub(p["a"], g.reduce_mean(p["a"], [1], keep_dims=True))
    rolled = g.concat([g.slice(y, [0, n // 2], [n, n]), g.slice(y, [0, 0], [n, n // 2])], 1)
    return g.mul(g.mul(y, rolled), c)


def gradient_of_halves(a, c):
    n, out = len(a), []
    for row, weight in zip(a, c):
        y = [x - sum(row) / n for x in row]
        d = [weight[j] * y[(j + n // 2) % n] + weight[(j + n // 2) % n] * y[(j + n // 2) % n] for j in range(n)]
        out.append([v - sum(d) / n for v in d])
    return out


def check_gradients(n):
    square, line = [n, n], [n * n]
    check_gradient(n, "beside an update", lambda g, p, c: reads_as_another_shape(g, p, c, n), {"a": square, "b": line},
                   lambda p, c: {"a": product(c, turned(p["b"])), "b": product(turned(p["a"]), c)})
    check_gradient(n, "constants", lambda g, p, c: constant_as_another_shape(g, p, c, n), {"a": square},
                   lambda p, c: {"a": product(turned(c), c)})
    check_gradient(n, "row sums in a column", lambda g, p, c: row_sums_in_a_column(g, p, c, n), {"a": square},
                   lambda p, c: {"a": every(n, lambda i, j: 2 * p["a"][i][j] * c[i][j] + c[i][1])})
    check_gradient(
        n, "a column to all", lambda g, p, c: column_to_all(g, p, c, n), {"a": square}, lambda p, c: {
            "a": every(
                n, lambda i, j: p["a"][i][1] * c[i][j] + (sum(x * y for x, y in zip(p["a"][i], c[i])) if j == 1 else 0))
        })
    check_gradient(n, "halves change places", lambda g, p, c: halves_change_places(g, p, c, n), {"a": square},
                   lambda p, c: {"a": gradient_of_halves(p["a"], c)})


random.seed(1)
for size in SIZES:
    for case in NEW_VALUES:
        attempt(check_new_value, size, case)
    attempt(check_gradients, size)
finish()
