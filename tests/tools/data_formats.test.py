#!/usr/bin/env python3
"""Images in folders, tar archives as WebDataset writes them, and tables of numbers train as the same samples in .npy
files do, on one rank and on two; pictures of other sizes and JPEG; what is damaged is named with its place."""
import base64
import ctypes.util
import io
import json
import os
import random
import re
import struct
import tarfile
import zlib

from expect import Expect, write

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
COUNT, HEIGHT, WIDTH = 24, 6, 5
JPEG = base64.b64decode(  # 16 by 8 pixels of (200, 40, 90)
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYU"
    "GBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAIABAD"
    "ASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAf/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAwj/xAAUEQEA"
    "AAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCSACWW/9k=")

TRAINED = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8xSHAPExf32>, %y: tensor<8xi32>, %w: tensor<90x3xf32>):
    %0 = "msc.reshape"(%x) {shape = [8, 90]} : (tensor<8xSHAPExf32>) -> tensor<8x90xf32>
    %1 = "msc.matmul"(%0, %w) : (tensor<8x90xf32>, tensor<90x3xf32>) -> tensor<8x3xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"}],
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32}} : () -> ()
}
"""
# the input as it is, and its mean over each colour
SHOWN = """module attributes {msc.name = "shown"} {
  "msc.func"() ({
  ^bb0(%x: tensor<2xSHAPExf32>):
    %0 = "msc.neg"(%x) : (tensor<2xSHAPExf32>) -> tensor<2xSHAPExf32>
    %1 = "msc.neg"(%0) : (tensor<2xSHAPExf32>) -> tensor<2xSHAPExf32>
    "msc.return"(%1) : (tensor<2xSHAPExf32>) -> ()
  }) {sym_name = "forward", results = ["same"], arg_attrs = [{msc.name = "x", msc.role = "data"}]} : () -> ()
}
"""


def put_npy(path, shape, descr, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    whole = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data
    if path:
        open(path, "wb").write(whole)
    return whole


def read_npy(path):
    data = open(path, "rb").read()
    end = 10 + data[8] + 256 * data[9]
    return struct.unpack(f"<{(len(data) - end) // 4}f", data[end:])


def png(height, width, pixel):
    """pixel(y, x): three bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes(pixel(y, x)) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def put_tar(path, members, form=tarfile.GNU_FORMAT, **headers):
    with tarfile.open(path, "w", format=form) as out:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.pax_headers = headers
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))


def losses(plan, data, *more, err=""):
    done = expect(f"run {plan} --trust-native --steps 7 --seed 5 --json --data {data}".split() + list(more), 0, err)
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def refuses(plan, data, text):
    expect(f"run {plan} --trust-native --steps 7 --data {data}", 1,
           lambda err: "" if re.search(text, err) and err.count("\n") == 1 else text)


for name, shape in (("images", "3x6x5"), ("rows", "90")):
    write(f"{name}.mlir", TRAINED.replace("SHAPE", shape))
    expect(f"compile {name}.mlir -o {name}1.bin", 0, None)
    expect(f"compile {name}.mlir -o {name}2.bin --set device_num=2 --set parallel_mode=data_parallel", 0, None)

rng = random.Random(1)
pixels = [[[[rng.randrange(256) for _ in range(3)] for _ in range(WIDTH)] for _ in range(HEIGHT)] for _ in range(COUNT)]
classes = [i // 8 for i in range(COUNT)]
flat = [[pixels[i][y][x][c] for c in range(3) for y in range(HEIGHT) for x in range(WIDTH)] for i in range(COUNT)]
put_npy("x.npy", (COUNT, 3, HEIGHT, WIDTH), "|u1", b"".join(bytes(f) for f in flat))
put_npy("y.npy", (COUNT, ), "<i4", struct.pack(f"<{COUNT}i", *classes))
files = [png(HEIGHT, WIDTH, lambda y, x, i=i: pixels[i][y][x]) for i in range(COUNT)]
wanted = {ranks: losses(f"images{ranks}.bin", "x=x.npy y=y.npy") for ranks in (1, 2)}
expect.check("losses", all(len(w) == 7 and w[0] != w[-1] for w in wanted.values()))

# A table: with and without names, some columns, tabs, quotes, empty lines, ends of lines of other systems.
names = [f"p{i}" for i in range(90)]
scaled = [[repr(struct.unpack("<f", struct.pack("<f", v / 255))[0]) for v in row] for row in flat]
write("t.csv", ",".join(["y", *names, '"a ""note"""']) + "\n" +
      "".join(f'{classes[i]},{",".join(scaled[i])},"17"\n\n' for i in range(COUNT)))
write("plain.tsv", "".join("\t".join(row) + "\r\n" for row in scaled).removesuffix("\r\n"))
write("y.csv", "".join(f"{c}\n" for c in classes))
# A file is searched for lines by the MiB: of an empty line, one holds \r and the next one \n.
write("split.csv", "0\r\n".rjust((1 << 20) - 1) + "\r\n" + "".join(f"{c}\r\n" for c in classes[1:]))
# A mark in front of the text, as some programs write it, is no part of the first field.
write("marked.csv", "\ufeff" + "".join(f"{c}\n" for c in classes))
write("named.csv", "\ufeff\"y\"\n" + "".join(f"{c}\n" for c in classes))
columns = ",".join(names)
for ranks in (1, 2):
    for data in (f"x=t.csv:{columns} y=t.csv", "x=plain.tsv y=y.csv", "x=plain.tsv y=t.csv:0", "x=x.npy y=y.csv",
                 "x=x.npy y=split.csv",
                 "x=x.npy y=marked.csv", "x=x.npy y=named.csv:y"):
        expect.check(f"{data[:30]} on {ranks}", losses(f"rows{ranks}.bin", data) == wanted[ranks])
refuses("rows1.bin", "x=t.csv y=y.npy", r"t.csv: shape \[24,92\] does not fit input 'x' of shape \[8,90\]")
refuses("rows1.bin", "x=t.csv:p0,p91 y=y.npy", "t.csv: has no column 'p91': it has 92, named in its first line")
write("bad.csv", "".join("\t".join([*row[:3], "oops" if i == 9 else row[3], *row[4:]]) + "\n"
                         for i, row in enumerate(scaled)))
refuses("rows1.bin", "x=bad.csv y=y.csv", r"bad.csv: line 10, field 4: 'oops' is no number")
write("short.csv", "".join(",".join(row[:90 - (i == 4)]) + "\n" for i, row in enumerate(scaled)))
refuses("rows1.bin", "x=short.csv y=y.csv", "short.csv: line 5 has fewer than 90 fields")
refuses("rows1.bin", "x=plain.tsv y=plain.tsv:0", "plain.tsv: line [0-9]+, field 1: '[0-9.e-]+' is no integer")
# Messages count all lines of the file. A field without a text is no name, and no number either; nor is one too large.
write("gap.csv", "\n\r\n" + "".join(",".join(["1e400" if i == 3 else row[0], *row[1:]]) + "\n\n"
                                     for i, row in enumerate(scaled)))
refuses("rows1.bin", "x=gap.csv y=y.csv", "gap.csv: line 9, field 1: '1e400' is no number within f64")
write("huge.csv", f"{10 ** 20}\n" * COUNT)
refuses("rows1.bin", "x=x.npy y=huge.csv", f"huge.csv: line [0-9]+, field 1: '{10 ** 20}' is no integer of 64 bits")
for empty in ("", " "):
    write("hole.csv", "".join(",".join([row[0], empty if i == 0 else row[1], *row[2:]]) + "\n"
                              for i, row in enumerate(scaled)))
    refuses("rows1.bin", "x=hole.csv y=y.csv", f"hole.csv: line 1, field 2: '{empty}' is no number within f64")
write("index.csv", ",".join(["", *names]) + "\n" + "".join(f'{i},{",".join(row)}\n' for i, row in enumerate(scaled)))
expect.check("a line of names with an empty one", losses("rows1.bin", f"x=index.csv:{columns} y=y.csv") == wanted[1])
write("tiny.csv", "".join(",".join([*row[:89], "1e-400" if row[89] == "0.0" else row[89]]) + "\n" for row in scaled))
expect.check("a number below all of f64 is 0", losses("rows1.bin", "x=tiny.csv y=y.csv") == wanted[1])
write("none.csv", "")
refuses("rows1.bin", "x=none.csv y=y.csv", "none.csv: has no lines")

# Archives: arrays and numbers; a folder of names too long for one field; damage.
arrays = [put_npy(None, (3, HEIGHT, WIDTH), "|u1", bytes(f)) for f in flat]
members = [(f"{'d' * 120}/{i:03}.{end}", data) for i in range(COUNT)
           for end, data in (("npy", arrays[i]), ("cls", b"%d\n" % classes[i]))]
put_tar("a.tar", members)
for ranks in (1, 2):
    expect.check(f"tar on {ranks}", losses(f"images{ranks}.bin", "x=a.tar:npy y=a.tar:cls") == wanted[ranks])
put_tar("pax.tar", members, tarfile.PAX_FORMAT, comment="a" * 5000)  # in front of the name
expect.check("tar of pax", losses("images1.bin", "x=pax.tar:npy y=pax.tar:cls") == wanted[1])
put_tar("pax.tar", members, tarfile.PAX_FORMAT, comment="a" * (1 << 20))
refuses("images1.bin", "x=pax.tar:npy y=y.npy", "pax.tar: a header of 10[0-9]* bytes, 1048576 are the most")
put_tar("long.tar", [("d/" * 2500 + name, data) for name, data in members])
refuses("images1.bin", "x=long.tar:npy y=y.npy", "long.tar: a name of 51[0-9]* bytes, 4095 are the most")
refuses("images1.bin", "x=a.tar y=y.npy", "which members are meant")
refuses("images1.bin", "x=a.tar:jpg y=y.npy", r"sample 0, '.*', has no member .jpg")
put_tar("gap.tar", members[:-2] + members[-1:])
refuses("images1.bin", "x=gap.tar:npy y=y.npy", r"sample 23, 'd+/023', has no member .npy")
put_tar("word.tar", [(n, b"three" if n.endswith("007.cls") else d) for n, d in members])
refuses("images1.bin", "x=x.npy y=word.tar:cls", r"word.tar: sample 7: 'three' is no integer")
open("cut.tar", "wb").write(open("a.tar", "rb").read()[:20000])
refuses("images1.bin", "x=cut.tar:npy y=y.npy", r"cut.tar: the tar archive is cut at byte 20000")

# Pictures.
if not ctypes.util.find_library("png16"):
    print("skipped: PNG: libpng is not there")
    expect.done()
for i in range(COUNT):
    os.makedirs(f"img/{'abc'[classes[i]]}", exist_ok=True)
    open(f"img/{'abc'[classes[i]]}/{i:03}.png", "wb").write(files[i])
put_tar("p.tar", [m for i in range(COUNT) for m in ((f"{i:03}.png", files[i]), (f"{i:03}.cls", b"%d" % classes[i]))])
for ranks in (1, 2):
    for data in ("x=img y=img", "x=p.tar:png y=p.tar:cls", "x=img y=y.npy"):
        expect.check(f"{data} on {ranks}", losses(f"images{ranks}.bin", data) == wanted[ranks])
losses("images1.bin", "x=img y=img", "--ckpt-dir", "ckpt", "--ckpt-every", "4")
expect(f"run images1.bin --trust-native --steps 9 --seed 5 --json --data x=img y=img --ckpt-dir ckpt --resume", 0, "")
refuses("rows1.bin", "x=img y=img", "img: images go to inputs whose samples are")
os.makedirs("bad/a")
open("bad/a/0.png", "wb").write(files[0])
for i in range(1, 8):
    open(f"bad/a/{i}.png", "wb").write(files[i][:60])
refuses("images1.bin", "x=bad y=bad", r"bad/a/\d.png: ")
# Damaged samples among the others are left out of all files, where the user says so.
for i in range(COUNT):
    os.makedirs(f"holes/{'abc'[classes[i]]}", exist_ok=True)
    open(f"holes/{'abc'[classes[i]]}/{i:03}.png", "wb").write(files[i])
    if i % 9 == 4:
        open(f"holes/{'abc'[classes[i]]}/{i:03}+.png", "wb").write(files[i][:60 + i])
put_tar("holes.tar", [m for i in range(COUNT) for m in
                      [(f"{i:03}.npy", arrays[i]), (f"{i:03}.cls", b"%d" % classes[i])] +
                      ([(f"{i:03}+.npy", arrays[i] if i < 9 else arrays[i][:50]),
                        (f"{i:03}+.cls", b"one" if i < 20 else b"1")] if i % 9 == 4 else [])])
left_out = "3 of 27 samples are damaged and left out; of the first: "
for ranks in (1, 2):
    for data, first in (("x=holes y=holes", "holes/a/004+.png"),
                        ("x=holes.tar:npy y=holes.tar:cls", "holes.tar: sample 5: 'one' is no integer")):
        seen = losses(f"images{ranks}.bin", data, "--skip-damaged",
                      err=lambda text: "" if left_out + first in text and text.count("\n") == 1 else left_out + first)
        expect.check(f"{data} without damaged ones on {ranks}", seen == wanted[ranks])
expect.check("nothing is damaged", losses("images1.bin", "x=img y=img", "--skip-damaged") == wanted[1])
refuses("images1.bin", "x=holes y=holes", r"holes/[abc]/\d+\+.png: ")
refuses("images1.bin", "x=bad y=bad --skip-damaged", r"has 1 samples, fewer than one batch of 8")
os.makedirs("flat")
open("flat/1.png", "wb").write(files[0])
refuses("images1.bin", "x=flat y=flat", "flat: has no folders, which would be the classes of label 'y'")

# Half the size, twice the size, the middle of a wider one; colours last.
write("shown.mlir", SHOWN.replace("SHAPE", "4x4x3"))
expect("compile shown.mlir -o shown.bin", 0, None)
os.makedirs("sizes")
open("sizes/0.png", "wb").write(png(8, 8, lambda y, x: (10 * (y // 2), 10 * (x // 2), 200 if (x + y) % 2 else 100)))
open("sizes/1.png", "wb").write(png(4, 8, lambda y, x: (x, y, 255)))
expect("run shown.bin --trust-native --data x=sizes --output same=s.npy", 0, "",
       lambda text: "" if text.startswith("same: in s.npy\n1 rank of ") and "step" not in text else text)
seen = [round(255 * v) for v in read_npy("s.npy")]
expect.check("shrunk", seen[:48] == [v for y in range(4) for x in range(4) for v in (10 * y, 10 * x, 150)])
expect.check("the middle", seen[48:] == [v for y in range(4) for x in range(4) for v in (x + 2, y, 255)])
if ctypes.util.find_library("turbojpeg"):
    os.makedirs("jpegs")
    for i in range(2):
        open(f"jpegs/{i}.jpg", "wb").write(JPEG)
    expect("run shown.bin --trust-native --data x=jpegs --output same=s.npy", 0, "")
    seen = [255 * v for v in read_npy("s.npy")]
    expect.check("JPEG", all(abs(v - (200, 40, 90)[k % 3]) <= 3 for k, v in enumerate(seen)))
    open("jpegs/1.jpg", "wb").write(JPEG[:270])
    expect("run shown.bin --trust-native --data x=jpegs --output same=s.npy", 1,
           lambda err: "" if "jpegs/1.jpg: " in err else "1.jpg")
else:
    print("skipped: JPEG: libturbojpeg is not there")
expect.done()
