#!/usr/bin/env python3
"""StableHLO: both forms in which ops are printed give the same numbers as plain Python; functions, branches, locations
and what the function is trained for; what cannot be read is told at its place, all at once; no part of a text makes msc
fail in another way."""
import math
import os
import random
import subprocess

from expect import MSC, Expect, write, need_library

need_library()

import msc  # noqa: E402

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
A = [[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]]
B = [[1.0, -2.0], [0.5, 4.0], [-1.5, 0.0]]
ARGS = "%a: tensor<2x3xf32>, %b: tensor<3x2xf32>"


def function(body, result, args=ARGS, also="", attributes=""):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"module @m {{\n  func.func public @main({args}) -> {result} {attributes}{{\n{lines}\n  }}\n{also}}}\n"


def flat(v):
    return [x for row in v for x in flat(row)] if isinstance(v, (list, tuple)) else [v]


def outputs(text, **inputs):
    """Results of the function, flat, in order."""
    write("f.mlir", text)
    plan = msc.compile("f.mlir")
    with plan.run() as job:
        found = job.predict(**{n: v for n, v in inputs.items() if n in plan.inputs})
        return [flat(v.tolist()) for v in found.values()]


def near(what, got, wanted):
    wanted = flat(wanted)
    same = len(got) == len(wanted) and all(math.isclose(g, w, rel_tol=1e-5, abs_tol=1e-6) for g, w in zip(got, wanted))
    expect.check(f"{what}: {got}, not {wanted}", same)


def refused(what, text, *words):
    write("f.mlir", text)
    told = expect("import f.mlir -o g.fbs", 1, None).stderr.decode()
    for word in words:
        expect.check(f"{what}: {told!r} without {word!r}", word in told)


product = [[sum(A[i][k] * B[k][j] for k in range(3)) for j in range(2)] for i in range(2)]

# ---- both forms, a function that is called, a reduction with a word and one with a region ----

PRETTY = """
%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
  : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
%1 = call @twice(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
%cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
%2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1]
  : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
return %1, %2 : tensor<2x2xf32>, tensor<2xf32>
"""
GENERIC = """
%0 = "stablehlo.dot_general"(%a, %b) <{
  dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>,
  precision_config = [#stablehlo<precision DEFAULT>]}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
%1 = func.call @twice(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
%cst = "stablehlo.constant"() <{value = dense<"0x00000000"> : tensor<f32>}> : () -> tensor<f32>
%2 = "stablehlo.reduce"(%1, %cst) <{dimensions = array<i64: 1>}> ({
^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %3 = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "stablehlo.return"(%3) : (tensor<f32>) -> ()
}) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
"func.return"(%1, %2) : (tensor<2x2xf32>, tensor<2xf32>) -> ()
"""
TWICE = """  func.func private @twice(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
"""
for form, body in (("pretty", PRETTY), ("generic", GENERIC)):
    got = outputs(function(body, "(tensor<2x2xf32>, tensor<2xf32>)", also=TWICE), a=A, b=B)
    near(f"{form}, product", got[0], [[2 * v for v in row] for row in product])
    near(f"{form}, sums", got[1], [2 * sum(row) for row in product])

# ---- a convolution of images whose channels are last ----

rng = random.Random(7)


def numbers(*shape):
    return [numbers(*shape[1:]) for _ in range(shape[0])] if shape else rng.uniform(-1, 1)


IMAGES, KERNEL = numbers(2, 6, 6, 3), numbers(3, 3, 3, 4)
got = outputs(function("""
%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
  {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x6x6x4xf32>
return %0 : tensor<2x6x6x4xf32>""", "tensor<2x6x6x4xf32>", "%x: tensor<2x6x6x3xf32>, %w: tensor<3x3x3x4xf32>"),
x=IMAGES, w=KERNEL)
near("convolution, channels last", got[0],
     [[[[sum(IMAGES[b][i + di - 1][j + dj - 1][c] * KERNEL[di][dj][c][o] for di in range(3) for dj in range(3)
             for c in range(3) if 0 <= i + di - 1 < 6 and 0 <= j + dj - 1 < 6) for o in range(4)] for j in range(6)]
       for i in range(6)] for b in range(2)])

# ---- moves, numbers, choices, a branch ----

got = outputs(
    function(
        """
%0 = stablehlo.slice %a [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
%1 = stablehlo.transpose %b, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
%2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
%c = stablehlo.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
%inf = stablehlo.constant dense<0xFF800000> : tensor<f32>
%3 = stablehlo.broadcast_in_dim %inf, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
%4 = stablehlo.select %c, %0, %3 : tensor<2x2xi1>, tensor<2x2xf32>
%5 = stablehlo.exponential %4 : tensor<2x2xf32>
%6 = stablehlo.iota dim = 1 : tensor<2x3xi32>
%zero = stablehlo.constant dense<0> : tensor<i32>
%7:2 = stablehlo.reduce(%a init: %inf), (%6 init: %zero) across dimensions = [1]
  : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
 reducer(%p: tensor<f32>, %q: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>)  {
  %10 = stablehlo.compare GT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %11 = stablehlo.select %10, %p, %q : tensor<i1>, tensor<f32>
  %12 = stablehlo.select %10, %i, %j : tensor<i1>, tensor<i32>
  stablehlo.return %11, %12 : tensor<f32>, tensor<i32>
}
%two = stablehlo.constant dense<2> : tensor<i32>
%8 = "stablehlo.case"(%two) ({
  stablehlo.return %7#0 : tensor<2xf32>
}, {
  %13 = stablehlo.negate %7#0 : tensor<2xf32>
  stablehlo.return %13 : tensor<2xf32>
}) : (tensor<i32>) -> tensor<2xf32>
return %2, %5, %7#1, %8 : tensor<2x5xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>
""", "(tensor<2x5xf32>, tensor<2x2xf32>, tensor<2xi32>, tensor<2xf32>)"),
    a=A, b=B)
near("slice, transpose, concatenate", got[0], [[A[i][0], A[i][2]] + [B[k][i] for k in range(3)] for i in range(2)])
near("select of -inf", got[1], [[math.exp(A[0][0]), 0], [0, math.exp(A[1][2])]])
near("argmax", got[2], [row.index(max(row)) for row in A])
near("the last branch of a number that is out of range", got[3], [-max(row) for row in A])

# ---- a loop that turns three times, by a counter that is compared with a constant ----

LOOP = """
%c0 = stablehlo.constant dense<0> : tensor<i32>
%c3 = stablehlo.constant dense<3> : tensor<i32>
%zero = stablehlo.constant dense<0.0> : tensor<2x3xf32>
%0:3 = stablehlo.while(%i = %c0, %v = %a, %s = %zero) : tensor<i32>, tensor<2x3xf32>, tensor<2x3xf32>
cond {
  %1 = stablehlo.compare LT, %i, %c3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
} do {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %2 = stablehlo.add %i, %one : tensor<i32>
  %3 = stablehlo.convert %2 : (tensor<i32>) -> tensor<f32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %5 = stablehlo.multiply %v, %4 : tensor<2x3xf32>
  %row = stablehlo.dynamic_slice %5, %one, %i, sizes = [1, 1]
    : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
  %all = stablehlo.broadcast_in_dim %row, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<2x1xf32>
  %6 = stablehlo.dynamic_update_slice %s, %all, %c0, %i
    : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  stablehlo.return %2, %5, %6 : tensor<i32>, tensor<2x3xf32>, tensor<2x3xf32>
}
return %0#1, %0#2 : tensor<2x3xf32>, tensor<2x3xf32>
"""
got = outputs(function(LOOP, "(tensor<2x3xf32>, tensor<2x3xf32>)"), a=A, b=B)
near("a loop", got[0], [[6 * v for v in row] for row in A])
near("what it collects", got[1], [[f * A[1][k] for k, f in enumerate((1, 2, 6))] for _ in range(2)])

# ---- gather: rows, and numbers outside are the first and the last ----

got = outputs(
    function(
        """
%0 = "stablehlo.gather"(%t, %k) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
  collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false,
  slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<4x1xi32>) -> tensor<4x2xf32>
return %0 : tensor<4x2xf32>
""", "tensor<4x2xf32>", args="%t: tensor<3x2xf32>, %k: tensor<4x1xi32>"), t=B, k=[[2], [0], [-5], [9]])
near("gather", got[0], [B[2], B[0], B[0], B[2]])

# ---- trained: roles, loss and optimizer stand in the text; a mean stays one however it is cut ----

TRAINED = """
%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
%1 = stablehlo.multiply %0, %0 : tensor<4x2xf32>
%cst = stablehlo.constant dense<0.0> : tensor<f32>
%2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1]
  : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
%n = stablehlo.constant dense<8.0> : tensor<f32>
%3 = stablehlo.divide %2, %n : tensor<f32>
return %3 : tensor<f32>
"""
write("t.mlir", function(
    TRAINED, 'tensor<f32>', args='%x: tensor<4x3xf32> {msc.name = "x", msc.role = "data"}, '
    '%w: tensor<3x2xf32> {jax.buffer_donor = true, msc.name = "w", msc.role = "parameter", msc.init = "constant:0.5"}',
    attributes='attributes {msc.loss = 0 : i64, msc.optimizer = {kind = "sgd", lr = 1.0e-01 : f64}} '))
X = [[1.0, 2.0, -1.0], [0.5, 0.0, 1.0], [-2.0, 1.0, 1.0], [0.0, 1.0, 3.0]]


def python_losses(steps):
    w, losses = [[0.5, 0.5] for _ in range(3)], []
    for _ in range(steps):
        y = [[sum(r[k] * w[k][j] for k in range(3)) for j in range(2)] for r in X]
        losses.append(sum(v * v for r in y for v in r) / 8)
        w = [[w[k][j] - 0.1 * sum(2 * y[i][j] * X[i][k] for i in range(4)) / 8 for j in range(2)] for k in range(3)]
    return losses


for keys in ({}, {"device_num": 2, "parallel_mode": "semi_auto_parallel"},
             {"device_num": 4, "parallel_mode": "auto_parallel"}):
    with msc.compile("t.mlir", **keys).run() as job:
        near(f"losses with {keys}", [job.step(x=X) for _ in range(5)], python_losses(5))

# ---- names and places ----

NAMED = function(
    "%0 = stablehlo.add %arg0, %arg1 : tensor<2xf32> loc(#loc3)\n"
    "%1 = stablehlo.cholesky %0 : tensor<2xf32> loc(#loc4)\n"
    "return %1 : tensor<2xf32> loc(#loc)", "(tensor<2xf32> {jax.result_info = \"result['y']\"})",
    args="%arg0: tensor<2xf32> loc(\"p['a'][0]\"), %arg1: tensor<2xf32> loc(\"p['a'][1]\")")
LOCS = ('#loc = loc(unknown)\n#loc1 = loc("net.py":7:3)\n#loc2 = loc("f"(#loc1))\n'
        '#loc3 = loc(callsite(#loc2 at #loc))\n'
        '#loc4 = loc("jit(f)/cholesky"("net.py":8:5 to :9))\n')
refused("an op that is not known", LOCS.replace("#loc ", "#loc ", 1) + NAMED, "net.py:8:5", "stablehlo.cholesky")
known = NAMED.replace("    %1 = stablehlo.cholesky %0 : tensor<2xf32> loc(#loc4)\n", "")
write("f.mlir", LOCS + known.replace("return %1", "return %0"))
expect("import f.mlir -o f.fbs")
dump = expect("dump f.fbs").stdout.decode()
for word in ("%p.a.0", "%p.a.1", 'results = ["result.y"]', 'loc("net.py":7:3)'):
    expect.check(f"{dump} without {word}", word in dump)

# ---- faults: all of them, each at its place ----

refused("several", function("""
%0 = stablehlo.cholesky %a : tensor<2x3xf32>
%1 = stablehlo.triangular_solve %0 : tensor<2x3xf32>
%2 = stablehlo.dynamic_slice %a, %b, sizes = [1, 1] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<1x1xf32>
%3 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<4x2xf32>
return %3 : tensor<4x2xf32>
""", "tensor<4x2xf32>"), "f.mlir:3:10", "stablehlo.cholesky is not read", "f.mlir:5:10",
        "stablehlo.dynamic_slice: needs a start", "f.mlir:6:10")
UNKNOWN = LOOP.replace("%i, %c3", "%i, %k")
refused("a loop that turns as often as data say", function(UNKNOWN, "tensor<2x3xf32>", args=f"{ARGS}, %k: tensor<i32>"),
        "such loops are not read")
refused("a name", function("return %zero : tensor<f32>", "tensor<f32>"), "%zero is not defined")
NEGATE = "%0 = stablehlo.negate %a : tensor<2x3xf32>\n"
refused("twice", function(2 * NEGATE + "return %0 : tensor<2x3xf32>", "tensor<2x3xf32>"), "%0 is defined twice")
for word, type in (("dimensions must be known", "tensor<?xf32>"), ("element type", "tensor<2xcomplex<f32>>")):
    refused(type, function(f"return %x : {type}", type, args=f"%x: {type}"), word)
refused("no main", "module @m {\n  func.func @other() -> () {\n    return\n  }\n}\n", "there is no function @main")
CALL = "%0 = call @main(%a, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x3xf32>\n"
refused("itself", function(CALL + "return %0 : tensor<2x3xf32>", "tensor<2x3xf32>"), "too deep")
WRONG = "%0 = stablehlo.negate %a : tensor<3x3xf32>\n"
refused("types", function(WRONG + "return %0 : tensor<3x3xf32>", "tensor<3x3xf32>"), "not tensor<3x3xf32> as the text")

# ---- any part of a text, and texts with a character changed ----

whole, rng = function(PRETTY, "(tensor<2x2xf32>, tensor<2xf32>)", also=TWICE), random.Random(1)
for i in range(120):
    text = whole[:rng.randrange(len(whole))]
    if i % 2:
        at = rng.randrange(len(whole))
        text = whole[:at] + rng.choice("%@#<>()[]{}:,\"x0 ") + whole[at + 1:]
    write("f.stablehlo", text)
    code = subprocess.run([MSC, "import", "f.stablehlo", "-o", "g.fbs"], capture_output=True).returncode
    expect.check(f"exit code {code} for {text!r}", code in (0, 1))
for path in ("g.fbs", "f.stablehlo"):
    if os.path.exists(path):
        os.remove(path)
expect.no_files("f.mlir", "f.fbs", "t.mlir")
expect.done()
