#!/usr/bin/env python3
"""msc verify, dump and import on sound, truncated and hostile files: exact messages, exit code 1, nothing written."""
import json
import os
import struct

from expect import Expect, write
from small_models import two_products

ROOT = os.getcwd()
expect = Expect()
TEXT = open(os.path.join(ROOT, "tests/tools/import/ffn1.mlir.txt")).read()
write("good.mlir", TEXT)
expect("import good.mlir -o good.fbs", 0, "", "")
MODEL = open("good.fbs", "rb").read()


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


write("good.safetensors", safetensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)))
expect("verify good.mlir good.fbs good.safetensors", 0, "",
       "good.mlir: sound (IR text)\ngood.fbs: sound (model)\ngood.safetensors: sound (safetensors)\n")
expect("verify good.fbs absent --json", 1, "absent: error: cannot open: No such file or directory [E0112]\n",
       '{"files":[{"file":"good.fbs","kind":"model","ok":true},{"file":"absent","kind":"file","ok":false}]}\n')
expect("verify", 2, "msc verify: error: needs FILE ... (msc verify --help)\n")

# An optimizer that lacks a number.
write("slow.mlir", two_products().replace(", lr = 3.0e-02 : f64", ""))
expect("import slow.mlir -o slow.fbs", 0, None)
expect("verify slow.fbs", 1, "slow.fbs: error: optimizer adam: 'lr' is missing [E0119]\n", "")
os.remove("slow.mlir"), os.remove("slow.fbs")

# What is not even of a known kind.
write("random.bin", bytes(range(256)))
expect("verify random.bin", 1, "random.bin: error: neither a model, a plan, IR text nor safetensors [E0113]\n")
write("empty.fbs", "")
write("empty.mlir", "")
expect("verify empty.fbs", 1, "empty.fbs: error: not a model file: too short [E0113]\n")
expect("verify empty.mlir", 1, "empty.mlir:1:1: error: expected a module, not the end of the text [E0101]\n")
expect("verify .", 1, ".: error: not a regular file [E0112]\n")


# A truncated or damaged model is refused; every command says the same and leaves no output.
def refused(text):
    good = text.startswith(
        ("bad.fbs: error: damaged: ", "bad.fbs: error: not a model file: ")) and text.endswith(" [E0113]\n")
    return "" if good and text.count("\n") == 1 else "one line: damaged"


for size in (4, 7, 8, 12, 40, len(MODEL) // 2, len(MODEL) - 4):
    write("bad.fbs", MODEL[:size])
    for command in ("verify bad.fbs", "dump bad.fbs", "dump bad.fbs -o out", "import bad.fbs -o out"):
        expect(command, 1, refused, "")
write("bad.fbs", MODEL[:4] + b"MSCX" + MODEL[8:])
expect("verify bad.fbs", 1, "bad.fbs: error: not a model file: wrong file identifier [E0113]\n", "")
write("bad.fbs", struct.pack("<I", 0xFFFFFFF0) + MODEL[4:])
expect("verify bad.fbs", 1, refused, "")

# IR text: all faults of a file, at their places.
write("bad.mlir", TEXT.replace('"msc.matmul"', '"msc.matmull"'))
expect("verify bad.mlir", 1, lambda text: "" if "unknown op" in text and "[E0104]" in text else "unknown op")
write("bad.mlir", TEXT[: len(TEXT) // 2])
expect("verify bad.mlir", 1, lambda text: "" if text.startswith("bad.mlir:") and "[E0101]" in text else "syntax error")

# safetensors
for header, data, said in (
    (b"{", b"", "safetensors: "),
    ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4), "w"),
    ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(4), ""),
    ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, bytes(8), ""),
    ({"w": {"dtype": "F32", "shape": [1 << 62, 8], "data_offsets": [0, 0]}}, b"", ""),
):
    write("bad.safetensors", safetensors(header, data))
    expect(
        "verify bad.safetensors", 1, lambda text: ""
        if text.startswith("bad.safetensors: error: ") and said in text and text.endswith("[E0113]\n") else said, "")

expect.no_files("good.mlir", "good.fbs", "good.safetensors", "random.bin", "empty.fbs", "empty.mlir", "bad.fbs",
                "bad.mlir", "bad.safetensors")
expect.done()
