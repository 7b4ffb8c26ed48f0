#!/usr/bin/env python3
"""tiles: products run with tiles that --autotune measured, or that a file says: the same bits as with the plan's.  The
file has a line per product, is used again, and is damaged in several ways, which are ignored.  Without it few threads
join rows of a transposed a into higher tiles."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
import msc

MSC = os.path.abspath(os.environ["MSC"])
SIZES = (("NN", 1, 150, 300, 256), ("NT", 1, 70, 200, 64), ("TN", 1, 130, 100, 128), ("NN", 4, 40, 64, 96))
failures = []


def check(what, ok):
    if not ok:
        failures.append(what)


def write_model(sizes=SIZES):
    g = msc.Graph("products")
    x = g.input("x", "f32", [2, 1])
    for i, (form, batch, m, n, k) in enumerate(sizes):
        lead = [batch] if batch > 1 else []
        a = g.parameter(f"a{i}", "f32", lead + ([k, m] if form[0] == "T" else [m, k]), init="uniform:1")
        b = g.parameter(f"b{i}", "f32", lead + ([n, k] if form[1] == "T" else [k, n]), init="uniform:1")
        product = g.matmul if batch == 1 else g.batch_matmul
        c = product(a, b, transpose_a=form[0] == "T", transpose_b=form[1] == "T", name=f"c{i}")
        g.output(f"y{i}", g.add(g.reshape(c, [1, batch * m * n]), x))
    g.save("model.fbs")
    subprocess.run([MSC, "compile", "model.fbs", "-o", "plan.bin"], check=True, stdout=subprocess.DEVNULL)
    with open("x.npy", "wb") as file:
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }"
        header += " " * (127 - 10 - len(header)) + "\n"
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8))


def results(*words):
    outputs = [f"y{i}=y{i}.npy" for i in range(len(SIZES))]
    run = subprocess.run([MSC, "run", "plan.bin", "--trust-native", "--threads", "1", "--data", "x=x.npy", "--output",
                          *outputs, *words], capture_output=True, text=True)
    check(f"run {words}: {run.stderr}", run.returncode == 0)
    found = []
    for i in range(len(SIZES)):
        with open(f"y{i}.npy", "rb") as file:
            found.append(file.read())
    return found


def packed_bytes(threads=1):
    """That threads pack into: they follow from the tiles."""
    run = subprocess.run([MSC, "run", "plan.bin", "--trust-native", "--threads", str(threads), "--data", "x=x.npy",
                          "--json", "--output", "y0=y0.npy"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])["thread_bytes"]


def lines():
    with open(CHOICES, encoding="utf-8") as file:
        return file.read().splitlines()


def keep(text):
    with open(CHOICES, "w", encoding="utf-8") as file:
        file.write(text)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    os.mkdir("cache", 0o700)
    CHOICES = os.path.join(folder, "cache/msc/products/choices")
    write_model()
    plain = results()
    check("without --autotune nothing is measured", not os.path.exists(CHOICES))
    check("measured tiles give the same bits", results("--autotune") == plain)
    first = lines()
    check(f"a line for each product: {first}", len(first) == len(SIZES))
    check("a product is measured once", results("--autotune") == plain and lines() == first)
    keys = [line[:line.rindex("|") + 1] for line in first]
    planned = packed_bytes()
    for rows, columns in ((2, 32), (7, 64), (40, 32)):
        keep("".join(f"{key}{rows} x {columns}\n" for key in keys))
        check(f"tiles of {rows} x {columns} give the same bits", results() == plain)
        check(f"tiles of {rows} x {columns} are those of the file", len(lines()) == len(keys) and
              results("--autotune") == plain and len(lines()) == len(keys))
        check(f"tiles of {rows} x {columns} are run", packed_bytes() != planned)
    for wrong in ("0 x 32", "-1 x 32", "7 x 31", "100000 x 32", "7 x 100000", "7 x 32 x", "7", "", "x" * 3000,
                  "9223372036854775807 x 9223372036854775807"):
        keep("".join(f"{key}{wrong}\n" for key in keys) + "\0\xff\n" + keys[0])
        check(f"'{wrong[:20]}' is ignored", results() == plain)
        before = len(lines())
        check(f"'{wrong[:20]}' is measured again", results("--autotune") == plain and len(lines()) > before)
    keep("".join(f"another {line}\n" for line in first))
    check("lines of another CPU are left", results("--autotune") == plain and len(lines()) == 2 * len(first))
    os.chmod("cache/msc/products", 0o777)
    refused = subprocess.run([MSC, "run", "plan.bin", "--trust-native", "--data", "x=x.npy", "--autotune"],
                             capture_output=True, text=True)
    check(f"a folder that others write to is refused: {refused.stderr}", refused.returncode and
          "no cache folder" in refused.stderr)
    os.chmod("cache/msc/products", 0o700)
    os.remove(CHOICES)
    told = subprocess.run([MSC, "compile", "model.fbs", "-o", "plan.bin", "--autotune"], capture_output=True, text=True)
    check(f"compile --autotune: {told.stderr}", told.returncode == 0 and lines() and
          all(re.search(r"\|\d+ x \d+$", line) for line in lines()))
    write_model([("TN", 1, 130, 100, 128)])
    alone, by_six, by_twelve = map(packed_bytes, (1, 6, 12))
    room = (by_twelve - by_six) / 6  # of a thread that has a tile of the plan, beside the panels that all share
    check(f"one thread packs all rows: {alone}, {by_six}, {by_twelve}", alone - (by_six - 6 * room) > 3 * room > 0)
    os.chdir("/")
for what in failures:
    print(f"FAILED: {what}")
print(f"{len(SIZES)} products")
sys.exit(bool(failures))
