#!/usr/bin/env python3
"""msc import of ONNX files: what they compute, what is refused and how it is told, and files that mean harm."""
import array
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

from expect import MSC, SANITIZED, Expect, write
from onnx_file import (Graph, Reference, external, floats, function, ints, model, node, number, data, opset, tensor,
                       value)

expect = Expect()
F32, I64 = 1, 7


def refused(file, err, *arguments):
    """`msc import` names every fault, and leaves nothing behind."""
    write("bad.onnx", file)
    expect(["import", "bad.onnx", "-o", "bad.fbs", *arguments], 1, err)
    expect.check("nothing is left", not os.path.exists("bad.fbs") and not os.path.exists("bad.safetensors"))


def computes(name, file, inputs, outputs, *arguments):
    """Imports, compiles and runs `file`: {name: (shape, floats)} in, {name: floats} out."""
    write("m.onnx", file)
    for stale in ("m.fbs", "m.safetensors", "m.bin"):
        if os.path.exists(stale):
            os.remove(stale)
    expect(["import", "m.onnx", "-o", "m.fbs", *arguments], 0)
    expect("compile m.fbs -o m.bin", 0, None)
    if SANITIZED:
        return
    sys.path.insert(0, os.path.join(os.path.dirname(MSC), "../tools/python"))
    from msc.runtime import Plan
    with Plan("m.bin", library=os.path.join(os.path.dirname(MSC), "libmscrt.so")) as plan:
        if os.path.exists("m.safetensors"):
            plan.load("m.safetensors")
        for output, wanted in outputs.items():
            batch = {n: memoryview(array.array("f", v).tobytes()).cast("f", shape=s) for n, (s, v) in inputs.items()}
            got = plan.run("forward", output, **batch)
            same = len(got) == len(wanted) and all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(got, wanted))
            expect.check(f"{name}: {output} is {list(got)}, not {wanted}", same)


X = value("x", F32, [2, 3])
Y = value("y", F32, [2, 3])
SIX = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0]

# ---- what files compute ----


computes("relu", model([node("Relu", ["x"], ["y"])], [X], [Y]), {"x": ((2, 3), SIX)}, {"y": [1, 0, 3, 0, 5, 0]})

# Rows that are formulas of the operand and of attributes, given or not; ops of msc's own.
for op_type, given, f in (("HardSigmoid", {"alpha": 0.5}, lambda v: min(max(0.5 * v + 0.5, 0), 1)),
                          ("HardSigmoid", {}, lambda v: min(max(0.2 * v + 0.5, 0), 1)),
                          ("Selu", {"gamma": 2.0}, lambda v: 2 * (v if v > 0 else 1.6732632 * (math.exp(v) - 1))),
                          ("Shrink", {"bias": 1.5, "lambd": 2.0}, lambda v: v - math.copysign(1.5, v) if abs(v) > 2
                           else 0),
                          ("LeakyRelu", {}, lambda v: v if v > 0 else 0.01 * v), ("Asinh", {}, math.asinh),
                          ("Atan", {}, math.atan)):
    computes(op_type, model([node(op_type, ["x"], ["y"], **given)], [X], [Y]), {"x": ((2, 3), SIX)},
             {"y": [f(v) for v in SIX]})
write("bits.onnx", model([node("BitwiseXor", ["x", "x"], ["y"])], [value("x", I64, [2])], [value("y", I64, [2])]))
expect("import bits.onnx -o bits.fbs", 0)
ops = re.findall(r'= "(msc[.]\w+)"', expect("dump bits.fbs").stdout.decode())
expect.check(f"BitwiseXor is one op, not {ops}", ops == ["msc.bitwise_xor"])
refused(model([node("HardSigmoid", [], ["y"])], [X], [Y]),
        "bad.onnx: error: op 'y': HardSigmoid: lacks input 0 [E0111]\n")

# Attributes of another type than the operator's, and no results.
STEPS = value("x", F32, [2, 1, 3])
CELL = [floats("w", [1, 2, 3], [1] * 6), floats("r", [1, 2, 2], [1] * 4)]
refused(model([node("RNN", ["x", "w", "r"], ["y"], activations=[1])], [STEPS], [value("y", F32, [2, 1, 1, 2])], CELL),
        "bad.onnx: error: op 'y': RNN: attribute 'activations' is of the wrong kind [E0111]\n")
refused(model([node("Constant", [], ["y"], value_floats=[3])], [X], [value("y", F32, [1])]),
        "bad.onnx: error: op 'y': Constant: attribute 'value_floats' is of the wrong kind [E0111]\n"
        "bad.onnx: error: op 'y': Constant: has no value that msc reads: texts and sparse tensors are not supported "
        "[E0111]\n")
refused(model([node("Split", ["x"], [], name="s"), node("Relu", ["x"], ["y"])], [X], [Y]),
        "bad.onnx: error: op 's': Split: num_outputs is 0, but it has 0 outputs [E0111]\n")

# Shapes that the file computes are numbers when it is read; float initializers are parameters, in a file beside it.
w, b = floats("w", [3, 2], [1, 2, 3, 4, 5, 6]), floats("b", [2], [0.5, -0.5])
computes(
    "weights and shapes",
    model([
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Gemm", ["x", "w", "b"], ["h"]),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "one"], ["to"], axis=0),
        node("Reshape", ["h", "to"], ["y"])
    ], [value("x", F32, ["batch", 3])], [value("y", F32, ["batch", 2])],
          [w, b, ints("zero", [], [0]), ints("one", [1], [-1]),
           ints("axes", [1], [0])]), {"x": ((2, 3), SIX)}, {"y": [10.5, 11.5, -18.5, -24.5]}, "--dim", "batch=2")
with open("m.safetensors", "rb") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    header = json.loads(f.read(size))
expect.check(f"weights {header}", set(header) == {"w", "b"} and header["w"]["shape"] == [3, 2])

# Before opset 13 the axes of Squeeze were an attribute.
computes(
    "old axes",
    model([node("Unsqueeze", ["x"], ["u"], axes=[0]),
           node("Squeeze", ["u"], ["y"], axes=[0])], [X], [Y], version=11), {"x": ((2, 3), SIX)}, {"y": SIX})

for direction, shifted in (("LEFT", (1 << 1, 3 << 2, 200 << 3 & 255)), ("RIGHT", (0, 0, 200 >> 3))):
    computes(
        f"bits shifted {direction}",
        model([node("BitShift", ["u", "by"], ["v"], direction=direction), node("Cast", ["v"], ["w"], to=F32),
               node("Add", ["x", "w"], ["y"])],
              [value("x", F32, [3])], [value("y", F32, [3])],
              [tensor("u", 2, [3], bytes([1, 3, 200])), tensor("by", 2, [3], bytes([1, 2, 3]))]),
        {"x": ((3,), [0, 0, 0])}, {"y": list(map(float, shifted))})
refused(
    model([node("BitShift", ["x", "x"], ["y"], direction="UP")], [X], [Y]),
    "bad.onnx: error: op 'y': BitShift: 'direction' must be LEFT or RIGHT, not 'UP' [E0111]\n")

# Functions are written out, with their callers' attributes.
computes(
    "function",
    model([node("Twice", ["x"], ["y"], domain="mine", slope=0.5)], [X], [Y],
          functions=[
              function("mine", "Twice", ["a"], ["c"],
                       [node("LeakyRelu", ["a"], ["l"], alpha=Reference("slope", 1)),
                        node("Add", ["l", "l"], ["c"])], ["slope"])
          ],
          opsets=[opset(1, "mine")]), {"x": ((2, 3), SIX)}, {"y": [2, -2, 6, -4, 10, -6]})

# An input that shapes depend on is given when the file is read.
ask = model([node("Reshape", ["x", "shape"], ["y"])], [X, value("shape", I64, [2])], [value("y", F32, [3, 2])])
refused(
    ask, "bad.onnx: error: op 'y': Reshape: 'shape' must be known when the model is read, and it is an input; "
    "--fix shape=... gives its value [E0111]\n")
computes("fixed", ask, {"x": ((2, 3), SIX)}, {"y": SIX}, "--fix", "shape=3,2")

# ---- control flow: graphs of nodes are written out ----

add = Graph([node("Add", ["x", "x"], ["t"])], [], [value("t", F32, [2, 3])])
take = Graph([node("Neg", ["x"], ["e"])], [], [value("e", F32, [2, 3])])
computes("if",
         model([node("If", ["c"], ["y"], then_branch=add, else_branch=take)], [X], [Y], [tensor("c", 9, [], b"\0")]),
         {"x": ((2, 3), SIX)}, {"y": [-v for v in SIX]})
body = Graph(
    [node("Add", ["s", "x"], ["s2"]),
     node("Identity", ["c"], ["c2"]),
     node("ReduceSum", ["s2"], ["r"], keepdims=0)],
    [value("i", I64, []), value("c", 9, []), value("s", F32, [2, 3])],
    [value("c2", 9, []), value("s2", F32, [2, 3]), value("r", F32, [])])
computes(
    "loop",
    model([node("Loop", ["n", "", "x"], ["y", "sums"], body=body)], [X], [Y, value("sums", F32, [3])],
          [ints("n", [], [3])]), {"x": ((2, 3), SIX)}, {
              "y": [4 * v for v in SIX],
              "sums": [-6, -9, -12]
          })
body = Graph([node("Add", ["s", "v"], ["s2"]), node("Identity", ["s2"], ["o"])],
             [value("s", F32, [3]), value("v", F32, [3])],
             [value("s2", F32, [3]), value("o", F32, [3])])
computes(
    "scan",
    model([node("Scan", ["z", "x"], ["last", "y"], body=body, num_scan_inputs=1)], [X], [value("last", F32, [3]), Y],
          [floats("z", [3], [0, 0, 0])]), {"x": ((2, 3), SIX)}, {
              "last": [-3, 3, -3],
              "y": [1, -2, 3, -3, 3, -3]
          })
refused(
    model([
        node("Loop", ["", ""], ["y"],
             "forever",
             body=Graph(
                 [node("Identity", ["c"], ["c2"]), node("Identity", ["s"], ["s2"])],
                 [value("i", I64, []), value("c", 9, []),
                  value("s", F32, [2, 3])], [value("c2", 9, []), value("s2", F32, [2, 3])]))
    ], [X], [Y]), "bad.onnx: error: op 'forever': Loop: its graph does not fit its inputs and outputs [E0111]\n")
refused(
    model([
        node("Loop", ["", "", "x"], ["y"],
             "forever",
             body=Graph(
                 [node("Identity", ["c"], ["c2"]), node("Identity", ["s"], ["s2"])],
                 [value("i", I64, []), value("c", 9, []),
                  value("s", F32, [2, 3])], [value("c2", 9, []), value("s2", F32, [2, 3])]))
    ], [X], [Y]), "bad.onnx: error: op 'forever': Loop: runs more than 4096 times [E0111]\n")

# A place below 0 counts from the end of what is there: -1 is before the last one.
computes(
    "sequence",
    model([
        node("Neg", ["x"], ["z"]),
        node("SequenceConstruct", ["x", "z"], ["s"]),
        node("SequenceInsert", ["s", "w", "last"], ["t"]),
        node("SequenceAt", ["t", "one"], ["y"])
    ], [X], [Y], [floats("w", [2, 3], range(6)),
                  ints("last", [], [-1]), ints("one", [], [1])]), {"x": ((2, 3), SIX)}, {"y": list(range(6))})
# What is empty is left out.
computes("empty", model([node("Concat", ["x", "none"], ["y"], axis=0)], [X], [Y], [tensor("none", F32, [0, 3], b"")]),
         {"x": ((2, 3), SIX)}, {"y": SIX})
refused(model([node("Identity", ["none"], ["y"])], [X], [value("y", F32, [0, 3])], [tensor("none", F32, [0, 3], b"")]),
        "bad.onnx: error: output 'y' has no elements [E0111]\n")

# ---- what reads between elements, and steps of a cell ----

computes(
    "resize",
    model([node("Resize", ["x", "", "s"], ["y"], mode="nearest")], [X], [value("y", F32, [2, 6])],
          [floats("s", [2], [1, 2])]), {"x": ((2, 3), SIX)}, {"y": [v for v in SIX for _ in range(2)]})


def between(image, y, x):
    """The image between its elements; outside it is 0."""
    rows, columns, total = len(image), len(image[0]), 0.0
    for i in range(math.floor(y), math.floor(y) + 2):
        for j in range(math.floor(x), math.floor(x) + 2):
            if 0 <= i < rows and 0 <= j < columns:
                total += image[i][j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


# A window of 2 x 2 whose elements lie 2 apart, moved to the right places and off the image; each counts by the mask.
IMAGE = [[float((3 * i + 5 * j) % 7) for j in range(4)] for i in range(3)]
MOVES = [[0.25 * ((i * 5 + k * 3) % 11) - 1.2 for i in range(4)] for k in range(8)]  # [2 element + y or x][place]
MASK = [[0.1 * (k + i + 1) for i in range(4)] for k in range(4)]
computes(
    "deformable convolution",
    model([node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], dilations=[2, 2], pads=[0, 0, 1, 0])],
          [value("x", F32, [1, 1, 3, 4]), value("o", F32, [1, 8, 2, 2]), value("m", F32, [1, 4, 2, 2])],
          [value("y", F32, [1, 1, 2, 2])], [floats("w", [1, 1, 2, 2], [1, 2, 3, 4]), floats("b", [1], [0.5])]), {
              "x": ((1, 1, 3, 4), sum(IMAGE, [])),
              "o": ((1, 8, 2, 2), sum(MOVES, [])),
              "m": ((1, 4, 2, 2), sum(MASK, []))
          }, {
              "y": [
                  0.5 + sum((k + 1) * MASK[k][p] * between(IMAGE, p // 2 + k // 2 * 2 + MOVES[2 * k][p],
                                                           p % 2 + k % 2 * 2 + MOVES[2 * k + 1][p]) for k in range(4))
                  for p in range(4)
              ]
          })
refused(
    model([node("DeformConv", ["x", "w", "o"], ["y"])],
          [value("x", F32, [1, 1, 3, 4]), value("o", F32, [1, 6, 2, 3])], [value("y", F32, [1, 1, 2, 3])],
          [floats("w", [1, 1, 2, 2], [1, 2, 3, 4])]),
    "bad.onnx: error: op 'y': DeformConv: its input, weights and offsets do not fit each other [E0111]\n")


def region(images, of, box, bins, samples, largest):
    """A region's bins; beyond one element outside the image all is 0, closer the edge goes on."""
    image = images[of]
    rows, columns, out = len(image), len(image[0]), []
    x0, y0, x1, y1 = (v * 0.5 - 0.5 for v in box)
    for b in range(bins * bins):
        read = []
        for s in range(samples * samples):
            y = y0 + (y1 - y0) * (b // bins + (s // samples + 0.5) / samples) / bins
            x = x0 + (x1 - x0) * (b % bins + (s % samples + 0.5) / samples) / bins
            if not (-1 <= y <= rows and -1 <= x <= columns):
                read.append([0.0] * 4)
                continue
            y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
            at = [(i, j) for i in (math.floor(y), math.floor(y) + 1) for j in (math.floor(x), math.floor(x) + 1)]
            read.append([
                image[min(i, rows - 1)][min(j, columns - 1)] * (1 - abs(y - i)) * (1 - abs(x - j)) for i, j in at
            ])
        out.append(max(map(max, read)) if largest else sum(map(sum, read)) / len(read))
    return out


IMAGES = [IMAGE, [[v - 2 for v in row[::-1]] for row in IMAGE]]
BOXES, OF = [[0.0, 0.0, 5.0, 4.0], [1.0, -6.0, 9.0, 4.0], [3.0, 2.0, 16.0, 5.0]], [1, 0, 1]
for mode in ("avg", "max"):
    computes(
        f"regions, {mode}",
        model([
            node("RoiAlign", ["x", "r", "of"], ["y"],
                 mode=mode,
                 output_height=2,
                 output_width=2,
                 sampling_ratio=3,
                 spatial_scale=0.5)
        ], [value("x", F32, [2, 1, 3, 4]), value("r", F32, [3, 4])], [value("y", F32, [3, 1, 2, 2])],
              [ints("of", [3], OF)]), {
                  "x": ((2, 1, 3, 4), sum(sum(IMAGES, []), [])),
                  "r": ((3, 4), sum(BOXES, []))
              }, {"y": sum((region(IMAGES, i, box, 2, 3, mode == "max") for i, box in zip(OF, BOXES)), [])})
refused(
    model([node("RoiAlign", ["x", "r", "of"], ["y"])], [value("x", F32, [2, 1, 3, 4]), value("r", F32, [3, 4])],
          [value("y", F32, [3, 1, 1, 1])], [ints("of", [3], OF)]),
    "bad.onnx: error: op 'y': RoiAlign: a sampling_ratio of 0, where regions decide how many samples are read, is not "
    "supported [E0111]\n")

# ---- updates of parameters, features ----

STATES = {"x": [1.0, -2.0, 0.5], "g": [0.5, 0.25, -1.0], "h": [0.1, 0.2, 0.4], "v": [2.0, 0.5, 1.0]}


def updates(op_type, earlier, states, update, **attributes):
    """`update` gives the new x and state of one element; there are two parameters, the second with signs turned."""
    names = ["x", "g", *states]
    inputs = {n + i: [-v if i else v for v in STATES[n]] if n in "xg" else STATES[n] for n in names for i in ("", "2")}
    wanted = [[update(*(inputs[n + i][k] for n in names)) for k in range(3)] for i in ("", "2")]
    results = [n + i for n in ("x", *states) for i in ("", "2")]
    computes(
        f"{op_type}, {earlier}",
        model([
            node(op_type, ["r", "t", *(n + i for n in names for i in ("", "2"))], [n + "new" for n in results],
                 domain="ai.onnx.preview.training", **attributes)
        ], [value(n, F32, [3]) for n in inputs], [value(n + "new", F32, [3]) for n in results],
              [floats("r", [], [0.1]), ints("t", [], [earlier])], opsets=[opset(1, "ai.onnx.preview.training")]),
        {n: ((3,), v) for n, v in inputs.items()},
        {n + "new": [new[k // 2] for new in wanted[k % 2]] for k, n in enumerate(results)})


def momentum(mode, earlier):
    def update(x, g, v):
        g += 0.25 * x
        v = 0.5 * v + (0.75 if earlier else 1) * g
        return x - 0.1 * (v if mode == "standard" else g + 0.5 * v), v
    return update


def adam(earlier):
    def update(x, g, v, h):
        v, h = 0.5 * v + 0.5 * (g + 0.25 * x), 0.75 * h + 0.25 * (g + 0.25 * x)**2
        rate = 0.1 * math.sqrt(1 - 0.75**earlier) / (1 - 0.5**earlier) if earlier else 0.1
        return (x - rate * v / (math.sqrt(h) + 0.125)) * 0.875, v, h
    return update


def adagrad(x, g, h):
    h += (g + 0.25 * x)**2
    return x - 0.1 / (1 + 2 * 0.5) * (g + 0.25 * x) / (math.sqrt(h) + 0.125), h


updates("Adagrad", 2, "h", adagrad, norm_coefficient=0.25, decay_factor=0.5, epsilon=0.125)
for earlier in (0, 3):
    updates("Adam", earlier, "vh", adam(earlier), norm_coefficient=0.25, alpha=0.5, beta=0.75, epsilon=0.125,
            norm_coefficient_post=0.125)
    for mode in ("standard", "nesterov"):
        updates("Momentum", earlier, "v", momentum(mode, earlier), norm_coefficient=0.25, alpha=0.5, beta=0.75,
                mode=mode)
refused(
    model([node("Momentum", ["x", "x", "x", "x"], ["y"], domain="ai.onnx.preview.training")], [X], [Y],
          opsets=[opset(1, "ai.onnx.preview.training")]),
    "bad.onnx: error: op 'y': Momentum: takes R, T and 3 tensors for each parameter, not 4 inputs [E0111]\n")

ML = [opset(5, "ai.onnx.ml")]
computes("features", model([node("ArrayFeatureExtractor", ["x", "k"], ["y"], domain="ai.onnx.ml")], [X],
                           [value("y", F32, [2, 2])], [ints("k", [1, 2], [2, 0])], opsets=ML),
         {"x": ((2, 3), SIX)}, {"y": [3, 1, -6, -4]})
computes("features of a vector", model([node("ArrayFeatureExtractor", ["x", "k"], ["y"], domain="ai.onnx.ml")],
                                       [value("x", F32, [3])], [value("y", F32, [1, 2])], [ints("k", [2], [1, 2])],
                                       opsets=ML), {"x": ((3,), SIX[:3])}, {"y": [-2, 3]})
computes("above", model([node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.0)], [X], [Y], opsets=ML),
         {"x": ((2, 3), SIX)}, {"y": [0, 0, 1, 0, 1, 0]})

# h = relu(x w + h r) with w = 1 and r = 2
computes(
    "rnn",
    model([node("RNN", ["x3", "w", "r"], ["", "y"], hidden_size=1, activations=["Relu"])],
          [value("x3", F32, [3, 1, 1])], [value("y", F32, [1, 1, 1])],
          [floats("w", [1, 1, 1], [1]), floats("r", [1, 1, 1], [2])],
          version=14), {"x3": ((3, 1, 1), [1.0, -5.0, 3.0])}, {"y": [3]})

# ---- sizes that stay open ----

# A product with a triangle as wide as the sequence is long, a count along it, and its length as a number: all of them
# are computed of the shape of x, and follow from its sizes in one model.fbs.
LINE = value("z", F32, ["cells"])
any_size = model([
    node("Shape", ["x"], ["s"]),
    node("Gather", ["s", "first"], ["n"], axis=0),
    node("Gather", ["s", "second"], ["l"], axis=0),
    node("Range", ["first", "l", "second"], ["r"]),
    node("Unsqueeze", ["r", "axes"], ["column"]),
    node("GreaterOrEqual", ["r", "column"], ["above"]),
    node("Cast", ["above"], ["triangle"], to=F32),
    node("Cast", ["r"], ["count"], to=F32),
    node("Cast", ["l"], ["length"], to=F32),
    node("MatMul", ["x", "triangle"], ["sums"]),
    node("Add", ["sums", "count"], ["counted"]),
    node("Div", ["counted", "length"], ["y"]),
    node("Mul", ["n", "l"], ["cells"]),
    node("Unsqueeze", ["cells", "zero"], ["to"]),
    node("Reshape", ["y", "to"], ["z"])
], [value("x", F32, ["batch", "seq"])], [LINE],
                 [ints("first", [], [0]), ints("second", [], [1]),
                  ints("axes", [1], [1]), ints("zero", [1], [0])])
write("any.onnx", any_size)
expect("import any.onnx -o any.fbs", 0)
expect("compile any.fbs -o any.bin", 1,
       "any.fbs: error: size batch: has no value; give it with --dim batch=SIZE [E0102]\n"
       "any.fbs: error: size seq: has no value; give it with --dim seq=SIZE [E0102]\n")
expect("compile any.fbs -o any.bin --dim batch=1 --dim seq=70000", 1,
       "any.fbs: error: size seq: is 70000; the model was made for 1 to 65536 [E0102]\n")
for batch, length in ((1, 1), (2, 1), (3, 5), (1, 40)):
    expect(f"compile any.fbs -o any.bin --dim batch={batch} --dim seq={length}", 0, None)
    if SANITIZED:
        continue
    sys.path.insert(0, os.path.join(os.path.dirname(MSC), "../tools/python"))
    from msc.runtime import Plan
    x = [float(i % 7 - 3) for i in range(batch * length)]
    wanted = [(sum(x[b * length:b * length + i + 1]) + i) / length for b in range(batch) for i in range(length)]
    with Plan("any.bin", library=os.path.join(os.path.dirname(MSC), "libmscrt.so")) as plan:
        given = memoryview(array.array("f", x).tobytes()).cast("f", shape=(batch, length))
        got = list(plan.run("forward", "z", x=given))
    expect.check(f"{batch} x {length}: {got}, not {wanted}",
                 len(got) == len(wanted) and all(abs(a - b) < 1e-5 for a, b in zip(got, wanted)))

# One size may be given, and one be a sum of others.
expect("import any.onnx -o some.fbs --dim batch=2", 0)
expect("compile some.fbs -o any.bin --dim seq=3", 0, None)
sums = model([node("Concat", ["x", "x2"], ["y"], axis=0), node("Add", ["y", "w"], ["z"])],
             [value("x", F32, ["old"]), value("x2", F32, ["new"]), value("w", F32, ["old + new"])], [LINE])
write("sums.onnx", sums)
expect("import sums.onnx -o sums.fbs", 0)
expect("compile sums.fbs -o any.bin --dim old=2 --dim new=3", 0, None)

# What is no polynomial of the sizes, and what is computed of a size as no op can.
refused(
    model([node("Shape", ["x"], ["s"]), node("Mod", ["s", "two"], ["odd"]), node("Cast", ["odd"], ["o"], to=F32),
           node("Add", ["x", "o"], ["z"])], [value("x", F32, ["n"])],
           [value("z", F32, ["n"])], [ints("two", [1], [2])]),
    "bad.onnx: error: op 'z': a constant does not follow from the open sizes (n) by sums and products; --dim n=... "
    "gives a size [E0111]\n")
refused(
    model([node("Relu", ["x"], ["y"])], [value("x", F32, ["a", "b", "c", "d", "e"])],
          [value("y", F32, ["a", "b", "c", "d", "e"])]),
    "bad.onnx: error: 5 sizes are left open, at most 4 can be; --dim a=... gives a size [E0111]\n")

# ---- what is refused ----

refused(
    model([
        node("Foo", ["x"], ["a"], "first"),
        node("Foo", ["a"], ["b"]),
        node("Bar", ["x"], ["c"], domain="com.acme"),
        node("LeakyRelu", ["x"], ["d"], "leaky", colour=1),
        node("Relu", ["b"], ["y"])
    ], [X], [Y]), "bad.onnx: error: op 'leaky': LeakyRelu: attribute 'colour' is not supported [E0111]\n"
    "bad.onnx: error: ONNX operators that msc does not read: Foo (2, first 'first'), "
    "com.acme::Bar (1, first 'c') [E0104]\n")
refused(
    model([node("Relu", ["x"], ["y"])], [value("x", F32, ["a-b", "batch - 1"])], [Y]),
    "bad.onnx: error: output 'y' is tensor<23x26xf32>, which is not what the file says it is [E0111]\n"
    "bad.onnx: note: read for x.0=23, x.1=26, which the file leaves open; --dim x.0=... gives a size\n")
refused(
    model([node("Relu", ["x:0"], ["y"])], [value("x:0", F32, [2, None])], [Y]),
    "bad.onnx: error: input 'x:0': dimension 1 has no size; give one with --dim x:0.1=... [E0111]\n")
refused(model([node("Relu", ["x"], ["y"])], [X], [Y]),
        "bad.onnx: error: --dim n: the model has no open dimension of that name [E0111]\n", "--dim", "n=2")
refused(model([node("Relu", ["x"], ["y"])], [X], [Y]),
        "bad.onnx: error: --fix n: the model has no such input [E0111]\n", "--fix", "n=2")
refused(ask, "bad.onnx: error: --fix shape=3: these are not the elements of this input [E0111]\n", "--fix", "shape=3")
refused(model([node("Relu", ["x"], ["y"])], [value("x", 8, [2])], [Y]),
        "bad.onnx: error: input 'x' has elements of type string, which msc does not have [E0111]\n")
refused(model([node("Relu", ["x"], ["y"])], [X], [Y], version=99),
        "bad.onnx: error: the file is of opset 99; this msc reads up to 26 [E0111]\n")
refused(model([node("Relu", ["z"], ["y"]), node("Relu", ["x"], ["z"])], [X], [Y]),
        "bad.onnx: error: op 'y': Relu: input 'z' is not defined before it [E0111]\n")
refused(model([node("Relu", ["x"], ["y"])], [X], [value("y", F32, [3, 2])]),
        "bad.onnx: error: output 'y' is tensor<2x3xf32>, which is not what the file says it is [E0111]\n")
refused(model([node("Mish", ["x"], ["y"])], [X], [Y], version=9),
        "bad.onnx: error: op 'y': Mish: exists since opset 18, the file says 9 [E0111]\n")

# ---- files that mean harm ----

refused(b"\x08\x0a", "bad.onnx: error: not an ONNX file: it has no graph [E0113]\n")
refused(
    model([node("Relu", ["x"], ["y"])], [X], [Y])[:-3],
    "bad.onnx: error: damaged: not an ONNX file, or cut off [E0113]\n")
refused(number(1, 10) + data(7, b"\xff" * 20), "bad.onnx: error: damaged: not an ONNX file, or cut off [E0113]\n")
deep = Graph([node("Relu", ["x"], ["y"])], [], [])
for _ in range(40):
    deep = Graph([node("If", ["x"], ["y"], then_branch=deep)], [], [])
refused(number(1, 10) + data(7, deep.bytes), "bad.onnx: error: damaged: not an ONNX file, or cut off [E0113]\n")
refused(
    model([node("F", ["x"], ["y"], domain="mine")], [X], [Y],
          functions=[function("mine", "F", ["a"], ["c"], [node("F", ["a"], ["c"], domain="mine")])]),
    "bad.onnx: error: op 'c': F: functions call each other more than 32 deep [E0111]\n")
refused(model([node("Add", ["x", "w"], ["y"])], [X], [Y], [tensor("w", F32, [1 << 40, 1 << 40], b"")]),
        "bad.onnx: error: op 'w': tensor 'w' has a shape whose size is negative or too large [E0111]\n")
refused(model([node("Add", ["x", "w"], ["y"])], [X], [Y], [tensor("w", F32, [2, 3], b"1234")]),
        "bad.onnx: error: op 'w': tensor 'w' has another number of bytes than its shape says [E0111]\n")
refused(model([node("Expand", ["x", "s"], ["y"])], [X], [Y], [ints("s", [2], [1 << 62, 1 << 62])]),
        "bad.onnx: error: op 'y': Expand: sizes 2 and 4611686018427387904 do not go together [E0111]\n")


def beside(location, **more):
    return model([node("Add", ["x", "w"], ["y"])], [X], [Y], [external("w", F32, [2, 3], location, **more)])


outside = tempfile.mkdtemp()
write(os.path.join(outside, "secret"), bytes(24))
write("w.bin", struct.pack("<8f", 0, 0, *[10] * 6))
os.makedirs("in/side")
write("in/side/w.bin", struct.pack("<6f", *[20] * 6))
os.symlink(os.path.join(outside, "secret"), "link.bin")
os.symlink(outside, "linked")
computes("external data", beside("w.bin", offset=8, length=24), {"x": ((2, 3), SIX)}, {"y": [v + 10 for v in SIX]})
computes("external data below", beside("in/side/w.bin"), {"x": ((2, 3), SIX)}, {"y": [v + 20 for v in SIX]})
LEAVES = "leaves the model's folder; it must be relative, without '..'"
LINK = "is or goes through a link, which is not followed"
for location, why in ((os.path.join(outside, "secret"), LEAVES), ("../secret", LEAVES), ("in/../w.bin", LEAVES),
                      ("./w.bin", LEAVES), ("in//side/w.bin", LEAVES), ("link.bin", LINK), ("linked/secret", LINK),
                      ("none.bin", "does not exist"), ("in", "is no file")):
    refused(beside(location), f"bad.onnx: error: op 'w': tensor 'w' is in the file '{location}', which {why} [E0111]\n")
refused(beside("w.bin", offset=16),
        "bad.onnx: error: op 'w': tensor 'w' is in the file 'w.bin', which ends before the tensor does [E0111]\n")
refused(beside("w.bin", offset=2**70),
        "bad.onnx: error: op 'w': tensor 'w' has an offset or length that is no number [E0111]\n")
refused(beside("w.bin", length=12),
        "bad.onnx: error: op 'w': tensor 'w' has another number of bytes than its shape says [E0111]\n")
os.rename("link.bin", "w2")

# A model without weights is compiled as it is; one with weights is imported first.
write("plain.onnx", model([node("Relu", ["x"], ["y"])], [X], [Y]))
expect("compile plain.onnx -o plain.bin", 0, None)
write("heavy.onnx", model([node("Add", ["x", "w"], ["y"])], [X], [Y], [floats("w", [3], [1, 2, 3])]))
expect("compile heavy.onnx -o heavy.bin", 1,
       "heavy.onnx: error: its 1 weights belong into a file of their own: msc import reads it [E0111]\n")

# ---- trained, and written back ----


def stored(path):
    """{name: floats} of a safetensors file."""
    told = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", told[:8])[0]
    header = json.loads(told[8:end])
    return {n: list(struct.unpack(f"<{(b - a) // 4}f", told[end + a:end + b]))
            for n, (a, b) in ((n, t["data_offsets"]) for n, t in header.items() if n != "__metadata__")}


def npy(path, code, shape, values):
    head = f"{{'descr': '<{code}4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + array.array(code, values).tobytes())


def linear(*more):
    """y = x w, with a w whose elements are not raw, and a tensor behind it that no op takes."""
    own = tensor("w", F32, [3, 1], None, extra=data(4, struct.pack("<3f", 1, 2, 3)) + data(12, "of the user"))
    return model([node("MatMul", ["x", "w"], ["y"], name="product")], [value("x", F32, ["n", 3])],
                 [value("y", F32, ["n", 1])], [own, floats("spare", [1], [7]), *more])


write("linear.onnx", linear())
expect("import linear.onnx -o t.fbs --dim n=2 --loss mean_squared_error:y --optimizer sgd:lr=0.5", 0)
expect("compile t.fbs -o t.bin", 0, None)
npy("x.npy", "f", (2, 3), SIX)
npy("y.npy", "f", (2, 1), [1, 2])
expect("run t.bin --trust-native --data x=x.npy y=y.npy --steps 1 --save t.safetensors", 0, None)
# predictions 6 and -12; w - lr * mean over samples of 2 (prediction - y) x
wanted = [w - 0.5 * (5 * a - 14 * b) for w, a, b in zip((1, 2, 3), SIX[:3], SIX[3:])]
expect.check(f"one step: {stored('t.safetensors')}, not {wanted}",
             all(abs(a - b) < 1e-4 for a, b in zip(stored("t.safetensors")["w"], wanted)))
expect("export t.safetensors --onnx linear.onnx -o trained.onnx", 0)
before, after = open("linear.onnx", "rb").read(), open("trained.onnx", "rb").read()
raw = struct.pack("<3f", *stored("t.safetensors")["w"])
expect.check("only the elements differ", after.count(raw) == 1 and b"of the user" in after and b"product" in after
             and struct.pack("<f", 7) in after and abs(len(after) - len(before)) < 8)
expect("import trained.onnx -o again.fbs --dim n=2", 0)
expect.check("imported again", stored("again.safetensors")["w"] == stored("t.safetensors")["w"])
expect("import linear.onnx -o c.fbs --dim n=2 --loss softmax_cross_entropy:y,ignore_index=-1,label_smoothing=0.5", 0)
dumped = expect("dump c.fbs", 0, None).stdout.decode()
expect.check(f"labels: {dumped}", all(t in dumped for t in ("%y: tensor<2xi64>", "ignore_index = -1 : i64",
                                                            "label_smoothing = 5.0e-01")))

for words, code, said in (
    ("--loss mean_square_error:y", 2, "there is no loss 'mean_square_error'; did you mean 'mean_squared_error'?"),
    ("--loss mean_squared_error:z", 2, "the model has no output 'z'; did you mean 'y'?"),
    ("--loss mean_squared_error", 2, "it is KIND:OUTPUT[,NAME=VALUE...], as softmax_cross_entropy:logits"),
    ("--loss mean_squared_error:y,z", 2, "it is KIND:OUTPUT[,NAME=VALUE...]"),
    ("--loss mean_squared_error:y,reduction=none", 2, "a loss is one number"),
    ("--loss mean_squared_error:y,colour=red", 1, "attribute colour is neither in the op's row nor a hint [E0111]"),
    ("--optimizer sgd:lr=1", 2, "--optimizer needs a loss to make smaller"),
    ("--loss mean_squared_error:y --optimizer sgd:0.1", 2, "it is KIND:NAME=VALUE,..., as adamw:lr=0.001"),
    ("--loss mean_squared_error:y --optimizer sgs:lr=1", 1, "optimizer: unknown kind 'sgs'; did you mean 'sgd'?"),
    ("--loss mean_squared_error:y --optimizer sgd:lr=x", 1, "optimizer sgd: lr must be a number"),
):
    expect(f"import linear.onnx -o bad.fbs --dim n=2 {words}", code, lambda text: "" if said in text else text)
    expect.check(f"nothing is left: {words}", not os.path.exists("bad.fbs"))

os.rename("again.safetensors", "same.safetensors")
write("other.onnx", model([node("Relu", ["x"], ["y"])], [X], [Y], [floats("v", [1], [1])]))
write("large.onnx", model([node("Relu", ["x"], ["y"])], [X], [Y], [floats("w", [4, 1], [1, 2, 3, 4])]))
write("apart.onnx", linear(external("far", F32, [1], "far.bin")))
os.makedirs("sub", exist_ok=True)
for words, code, said in (
    ("t.safetensors -o o.onnx", 2, "needs --onnx MODEL.onnx"),
    ("t.safetensors --onnx linear.onnx", 2, "needs -o OUT.onnx"),
    ("none.safetensors --onnx linear.onnx -o o.onnx", 1, "none.safetensors: cannot open"),
    ("linear.onnx --onnx linear.onnx -o o.onnx", 1, "linear.onnx"),
    ("t.safetensors --onnx none.onnx -o o.onnx", 1, "none.onnx"),
    ("t.safetensors --onnx t.safetensors -o o.onnx", 1, "t.safetensors: error: "),
    ("t.safetensors --onnx other.onnx -o o.onnx", 1, "other.onnx: error: has no tensor 'w', which the weights have"),
    ("t.safetensors --onnx large.onnx -o o.onnx", 1,
     "large.onnx: error: tensor 'w' is of another type or shape than the weights"),
    ("t.safetensors --onnx apart.onnx -o sub/o.onnx", 1, "has tensors in other files"),
    ("t.safetensors --onnx linear.onnx -o linear.onnx", 1, "linear.onnx"),
):
    expect(f"export {words}", code, lambda text: "" if said in text else text)
    expect.check(f"nothing is left: {words}", not os.path.exists("o.onnx") and not os.path.exists("sub/o.onnx"))
expect.check("not touched", open("linear.onnx", "rb").read() == before)
for i in range(0, len(before), 3):  # damaged in every place: an error or a file, never a crash
    for damaged in (before[:i], before[:i] + bytes([before[i] ^ 0x85]) + before[i + 1:]):
        write("damaged.onnx", damaged)
        done = subprocess.run([MSC, "export", "t.safetensors", "--onnx", "damaged.onnx", "-o", "d.onnx"],
                              capture_output=True)
        expect.check(f"damaged at {i}: {done.returncode} {done.stderr}", done.returncode in (0, 1))

# ---- from Python ----

sys.path.insert(0, os.path.join(os.path.dirname(MSC), "../tools/python"))
import msc  # noqa: E402

write("py.onnx", ask)
expect.check("its name",
             msc.import_onnx("py.onnx", "py.fbs", fixed={"shape": [3, 2]}, libraries=os.path.dirname(MSC)) == "py.fbs")
expect("verify py.fbs", 0, "", None)
try:
    msc.import_onnx("py.onnx", "no.fbs", libraries=os.path.dirname(MSC))
    expect.check("no error", False)
except msc.CompileError as e:
    expect.check(f"said: {e}", (e.code, e.op) == ("E0111", "y") and
                 str(e).startswith("py.onnx: error: Reshape: 'shape'"))
    expect.check("nothing is left", not os.path.exists("no.fbs"))
trained = msc.import_onnx("linear.onnx", "p.fbs", dims={"n": 2}, loss="mean_squared_error:y", optimizer="sgd:lr=0.5",
                          libraries=os.path.dirname(MSC))
if not SANITIZED:
    with msc.compile(trained, libraries=os.path.dirname(MSC)).run() as job:
        label = next(n for n, v in job.plan.inputs.items() if v.role == "label")
        job.step(x=[SIX[:3], SIX[3:]], **{label: [[1.0], [2.0]]})
        job.save("p.safetensors")
    msc.export_onnx("p.safetensors", "linear.onnx", "p.onnx", libraries=os.path.dirname(MSC))
    expect.check("from Python", raw in open("p.onnx", "rb").read())
subprocess.run(["rm", "-r", outside], check=True)
expect.done()
