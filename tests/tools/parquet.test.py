#!/usr/bin/env python3
"""Parquet files, as pyarrow writes them in several ways, have the samples that they were made of: all columns and some,
as floats and as whole numbers, read in order, permuted, and by two ranks; what is no column of numbers, absent, damaged
or cut is named with its place."""
import ctypes.util
import os
import random
import shutil
import struct
import subprocess
import sys

from expect import MSC, Expect, write

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parquet")
sys.path.insert(0, HERE)
from formula import COLUMNS, ROWS, WIDE, value_of, wide_value_of  # noqa: E402

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
FILES = {"plain": None, "snappy": "snappy", "gzip": None, "zstd_v2": "zstd", "deltas": None}
SHOWN = """module attributes {msc.name = "shown"} {
  "msc.func"() ({
  ^bb0(%x: tensor<4xNxTYPE>):
    %0 = "msc.neg"(%x) : (tensor<4xNxTYPE>) -> tensor<4xNxTYPE>
    %1 = "msc.neg"(%0) : (tensor<4xNxTYPE>) -> tensor<4xNxTYPE>
    "msc.return"(%1) : (tensor<4xNxTYPE>) -> ()
  }) {sym_name = "forward", results = ["same"], arg_attrs = [{msc.name = "x", msc.role = "data"}]} : () -> ()
}
"""
TRAINED = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x3xf32>, %label: tensor<8xi32>, %w: tensor<3x3xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x3xf32>, tensor<3x3xf32>) -> tensor<8x3xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %label) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "label", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"}],
      optimizer = {kind = "sgd", lr = 1.0e-03 : f32}} : () -> ()
}
"""


def single(v):
    return struct.unpack("f", struct.pack("f", v))[0]


def read_npy(path, kind):
    data = open(path, "rb").read()
    end = 10 + data[8] + 256 * data[9]
    return struct.unpack(f"<{(len(data) - end) // struct.calcsize(kind)}{kind}", data[end:])


def show(columns, dtype):
    write("shown.mlir", SHOWN.replace("N", str(columns)).replace("TYPE", dtype))
    expect("compile shown.mlir -o shown.bin", 0, None, "")


def check_values():
    some = ("b", "e", "label")
    for name in FILES:
        show(len(COLUMNS), "f32")
        expect(f"run shown.bin --trust-native --data x={name}.parquet --output same=o.npy", 0, None, None)
        wanted = tuple(single(value_of(c, i)) for i in range(ROWS) for c in COLUMNS)
        expect.check(f"{name}: all columns", read_npy("o.npy", "f") == wanted)
        show(len(some), "i64")
        expect(f"run shown.bin --trust-native --data x={name}.parquet:{','.join(some)} --output same=o.npy", 0, None,
               None)
        expect.check(f"{name}: whole numbers",
                     read_npy("o.npy", "q") == tuple(int(value_of(c, i)) for i in range(ROWS) for c in some))


def check_narrow_values():
    """Columns that have 4 bytes or less stay so in memory, beside wider ones they do not."""
    for kind, dtype, columns, wanted in (("q", "i64", WIDE, int), ("q", "i64", WIDE[3:12], int),
                                         ("f", "f32", WIDE, single), ("i", "i32", WIDE[:1], int)):
        show(len(columns), dtype)
        expect(f"run shown.bin --trust-native --data x=wide.parquet:{','.join(columns)} --output same=o.npy", 0, None,
               None)
        expect.check(f"{len(columns)} columns of wide.parquet as {dtype}", read_npy("o.npy", kind)
                     == tuple(wanted(wide_value_of(c, i)) for i in range(ROWS) for c in columns))
    for kind, dtype, columns in (("f", "f32", ("c", "e")), ("f", "f32", ("c", "a")), ("q", "i64", ("a", "k", "e")),
                                 ("q", "i64", ("a", "u"))):
        show(len(columns), dtype)
        expect(f"run shown.bin --trust-native --data x=plain.parquet:{','.join(columns)} --output same=o.npy", 0, None,
               None)
        expect.check(f"{columns} as {dtype}", read_npy("o.npy", kind)
                     == tuple(single(value_of(c, i)) if kind == "f" else int(value_of(c, i))
                              for i in range(ROWS) for c in columns))


def check_training():
    write("table.csv", "a,c,d,label\n" +
          "".join(",".join(repr(value_of(c, i)) for c in ("a", "c", "d", "label")) + "\n" for i in range(ROWS)))
    write("net.mlir", TRAINED)
    expect("compile net.mlir -o one.bin", 0, None, "")
    expect("compile net.mlir -o two.bin --set device_num=2 --set parallel_mode=semi_auto_parallel", 0, None, None)
    for plan, ranks in (("one", 1), ("two", 2)):
        losses = set()
        for table in ("table.csv", "plain.parquet", "zstd_v2.parquet"):
            run = expect(
                f"run {plan}.bin -n {ranks} --trust-native --seed 3 --epochs 2 --json --threads 2 --data "
                f"x={table}:a,c,d "
                         f"label={table}", 0, "", None)
            losses.add(tuple(line.split(b'"loss":')[1].split(b",")[0]
                             for line in run.stdout.splitlines() if b'"loss":' in line))
        expect.check(f"{ranks} ranks: losses of the same rows", len(losses) == 1
                     and len(losses.pop()) == 2 * (ROWS // 8))


def wrong(what, file, code=1):
    run = expect(f"run shown.bin --trust-native --data x={file} --output same=o.npy", code, None, "")
    expect.check(f"{file}: {run.stderr}", what.encode() in run.stderr)


def check_refusals():
    show(1, "f32")
    wrong("row 1 has no value in column 'x'", "odd.parquet:x")
    wrong("column 'text' holds no numbers", "odd.parquet:text")
    wrong("is nested or repeated", "odd.parquet:2")
    wrong("is nested or repeated", "odd.parquet:3")
    wrong("column 'price' holds decimals", "odd.parquet:price")
    wrong("has no column 'none' among its 6", "odd.parquet:none")
    wrong("codec 4 is not supported: snappy, gzip and zstd are", "brotli.parquet")
    show(1, "i64")
    wrong("column 'd' holds floating-point numbers", "plain.parquet:d")
    show(len(COLUMNS), "f32")
    schema = b"\x48\x04root\x15\x02\0" b"\x15\x08\x25\0\x18\x01x\0"  # a root with one child: x, of floats
    none = b"\x15\x02\x19\x2c" + schema + b"\x16\0\x19\x0c\0"  # version 1, these two, no rows in no groups
    open("none.parquet", "wb").write(b"PAR1" + none + struct.pack("<I", len(none)) + b"PAR1")
    wrong("none.parquet: has no rows", "none.parquet:x")
    data = open("plain.parquet", "rb").read()
    begin = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    for name, bad, what in (("cut", data[:-1], "is no Parquet file, or is truncated"),
                            ("short", b"PAR1", "it is too short"),
                            ("footer", data[:-8] + struct.pack("<I", len(data)) + b"PAR1", "its footer is damaged"),
                            ("noise", data[:begin] + b"\xff" * 40 + data[begin + 40:], "its footer is damaged"),
                            ("sealed", data[:-4] + b"PARE", "is encrypted")):
        open(f"{name}.parquet", "wb").write(bad)
        wrong(what, f"{name}.parquet")
    rng = random.Random(1)
    for name in FILES:  # whatever is damaged: an error or other numbers, and nothing worse
        data = open(f"{name}.parquet", "rb").read()
        for _ in range(12):
            at = rng.randrange(4, len(data))
            open("bad.parquet", "wb").write(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:])
            run = subprocess.run([MSC, "run", "shown.bin", "--trust-native",
                                  "--data", "x=bad.parquet", "--output", "same=o.npy"],
                                 capture_output=True, timeout=60)
            expect.check(f"{name}, byte {at}: exit code {run.returncode}", run.returncode in (0, 1))


for name in os.listdir(HERE):
    if name.endswith(".parquet"):
        shutil.copy(os.path.join(HERE, name), name)
for name, library in list(FILES.items()):
    if library and not ctypes.util.find_library(library):
        print(f"skipped: {name}.parquet: there is no library {library}")
        del FILES[name]
check_values()
check_narrow_values()
if "zstd_v2" in FILES:
    check_training()
check_refusals()
expect.done()
