#!/usr/bin/env python3
"""products: single matrix products, compiled and run, on one thread and on three: the same bits, and elements as a sum
in exact arithmetic has them.  The large ones pack b for all threads, in several parts."""
import ctypes
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
import msc
from msc import runtime

MSC = os.environ["MSC"]
LIBRARY = os.path.join(os.path.dirname(os.path.abspath(MSC)), "libmscrt.so")
CASES = (  # form, batch, m, n, k, type; a part of b that is packed at once has 4 MiB
    ("TN", 1, 130, 1100, 2048, "f32"), ("NN", 1, 130, 1100, 2048, "f32"), ("NT", 1, 130, 1100, 2048, "f32"),
    ("NN", 1, 30, 1024, 600, "f32"), ("TN", 1, 16, 640, 300, "f32"), ("NN", 3, 48, 96, 100, "f64"),
    ("NN", 1, 1, 480, 96, "f32"), ("TN", 1, 2, 352, 100, "f32"), ("NN", 1, 3, 704, 64, "f64"),
    ("TN", 1, 4, 224, 40, "f32"),
    ("NT", 1, 1, 96, 1024, "f32"), ("NT", 1, 7, 160, 512, "f32"), ("NT", 3, 4, 64, 256, "f64"),
    ("NN", 1, 37, 1000, 333, "f32"), ("TN", 1, 20, 203, 64, "f32"), ("NN", 3, 9, 70, 96, "f64"),
    ("NN", 1, 3, 701, 64, "f32"),
    ("NN", 1, 300, 10, 200, "f32"), ("TN", 1, 300, 37, 200, "f32"), ("TT", 1, 33, 65, 129, "f32"),
    ("NN", 1, 200, 7, 4096, "f32"),
    ("TN", 3, 70, 40, 130, "f32"), ("NN", 3, 70, 40, 130, "f32"), ("TN", 1, 130, 600, 2048, "f64"),
    ("TN", 1, 130, 1100, 2048, "bf16"), ("NN", 1, 130, 1100, 2048, "bf16"), ("NT", 1, 97, 70, 512, "bf16"),
    ("TN", 1, 97, 70, 80, "bf16"), ("TT", 1, 33, 65, 9, "bf16"), ("NN", 3, 70, 40, 256, "bf16"),
    ("NN", 1, 97, 70, 1000, "bf16"), ("NT", 1, 37, 200, 1000, "bf16"), ("TN", 1, 64, 130, 700, "bf16"),
    ("NT", 3, 40, 130, 333, "bf16"),
)


def shape_of(turned, batch, rows, columns):
    return ([batch] if batch > 1 else []) + ([columns, rows] if turned else [rows, columns])


def compile_product(folder, form, batch, m, n, k, dtype, *options):
    g = msc.Graph("product")
    a = g.parameter("a", dtype, shape_of(form[0] == "T", batch, m, k), init="uniform:1")
    b = g.parameter("b", dtype, shape_of(form[1] == "T", batch, k, n), init="uniform:1")
    product = g.matmul if batch == 1 else g.batch_matmul
    g.output("c", product(a, b, transpose_a=form[0] == "T", transpose_b=form[1] == "T", name="c"))
    g.save(os.path.join(folder, "model.fbs"))
    plan = os.path.join(folder, "plan.bin")
    subprocess.run([MSC, "compile", os.path.join(folder, "model.fbs"), "-o", plan, *options], check=True,
                   capture_output=True)
    return plan


def read(plan, name, dtype, elems):
    """A parameter or an output: its bytes, and a function that gives an element as a float."""
    size = {"f64": 8, "f32": 4, "bf16": 2}[dtype]
    room = ctypes.create_string_buffer(elems * size)
    plan._call("mscrt_read", name.encode(), room, elems * size)
    view = memoryview(room)

    def element(i):
        text = bytes(view[i * size:(i + 1) * size])
        return struct.unpack("<d" if size == 8 else "<f", b"\0\0" + text if dtype == "bf16" else text)[0]

    return room.raw, element


def check(case, folder):
    form, batch, m, n, k, dtype = case
    path, found = compile_product(folder, *case), {}
    for threads in (1, 3):
        with runtime.Plan(path, LIBRARY, seed=1, threads=threads) as plan:
            plan.run("forward")
            (_, a), (_, b) = read(plan, "a", dtype, batch * m * k), read(plan, "b", dtype, batch * k * n)
            found[threads], c = read(plan, "c", dtype, batch * m * n)
    assert found[1] == found[3], f"{case}: other bits on three threads"
    at = lambda turned, i, j, rows, columns: j * rows + i if turned else i * columns + j
    tolerance = {"f64": 1e-13, "f32": 3e-5, "bf16": 2**-8}[dtype]
    places = random.Random(0)
    for i, j in [(0, 0), (m - 1, n - 1)] + [(places.randrange(m), places.randrange(n)) for _ in range(40)]:
        e = places.randrange(batch)
        terms = [a(e * m * k + at(form[0] == "T", i, l, m, k)) * b(e * k * n + at(form[1] == "T", l, j, k, n))
                 for l in range(k)]
        want, got = math.fsum(terms), c(e * m * n + i * n + j)
        assert abs(got - want) <= tolerance * max(1, abs(want)), f"{case}: c[{e},{i},{j}] is {got}, not {want}"


def dump_of(plan):
    return subprocess.run([MSC, "dump", plan], check=True, capture_output=True, text=True).stdout


def check_in_place(folder):
    """Few rows of a meet b where it lies: more of them if the level-2 cache holds it."""
    packed = {(cpu, rows, n): "b not packed" not in dump_of(
        compile_product(folder, "NN", 1, rows, n, 512, "f32", "--mcpu", cpu))
              for cpu in ("znver4", "icelake-server", "x86-64-v4") for rows in (16, 40, 60, 80) for n in (512, 1000)}
    assert packed == {(cpu, rows, n): rows > (48 if n == 1000 else 64) for cpu, rows, n in packed}, packed


def main():
    ways = set()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            check(case, folder)
            text = dump_of(os.path.join(folder, "plan.bin"))
            ways |= {("parts" if "columns of b packed" in text else "whole" if "b packed" in text else "by tiles")}
        check_in_place(folder)
    assert len(ways) == 3, f"b is packed only {ways}"


main()
