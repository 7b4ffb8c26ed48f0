#!/usr/bin/env python3
"""Parameters whose initial values the model takes from files: loaded by msc run on any number of ranks, from the
model's folder wherever the plan lies; files that are missing, changed or of other tensors are told before anything
runs."""
import ctypes
import ctypes.util
import json
import os
import shutil
import struct
import sys

from expect import Expect, write

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
NUM = 24


def put(path, tensors):
    """A safetensors file of f32 tensors: name -> (shape, values)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        part = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def get(path):
    data = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {n: t["data_offsets"] for n, t in json.loads(data[8:end]).items()}
    return {n: list(struct.unpack(f"<{(b - a) // 4}f", data[end + a:end + b])) for n, (a, b) in tensors.items()}


def model(more=""):
    return f"""module attributes {{msc.name = "net"}} {{
  "msc.func"() ({{
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %b: tensor<4xf32>, %v: tensor<4x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.add"(%0, %b) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %2 = "msc.matmul"(%1, %v) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3, %2) : (tensor<f32>, tensor<8x4xf32>) -> ()
  }}) {{sym_name = "forward", loss = 0 : i64, results = ["loss", "logits"],
      arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
                   {{msc.name = "w", msc.role = "parameter", msc.weights = {{file = "start/a.st", tensor = "dense.w"{more}}}}},
                   {{msc.name = "b", msc.role = "parameter", msc.init = "constant:0.5"}},
                   {{msc.name = "v", msc.role = "parameter", msc.weights = {{file = "b.st", tensor = "v"}}}}],
      optimizer = {{kind = "sgd", lr = 1.0e-01 : f32}}}} : () -> ()
}}
"""


W, V = [i / 10 for i in range(NUM)], [-i / 7 for i in range(16)]
put("m/start/a.st", {"other": ([2], [1, 2]), "dense.w": ([6, 4], W)})
put("m/b.st", {"v": ([4, 4], V)})
write("m/net.mlir", model())
write("x.idx", b"")
with open("x.idx", "wb") as out:
    out.write(struct.pack(">BBBBII", 0, 0, 8, 2, 8, 6) + bytes(48))
with open("y.idx", "wb") as out:
    out.write(struct.pack(">BBBBI", 0, 0, 8, 1, 8) + bytes(8))
RUN = "--trust-native --data x=x.idx y=y.idx --steps 0 --save out.st"
near = lambda a, b: all(abs(x - y) < 1e-6 for x, y in zip(a, b)) and len(a) == len(b)  # noqa: E731

# From the model's folder, wherever the plan is; rank by rank its part.
os.makedirs("plans/deep", exist_ok=True)
for plan, ranks, keys in (("m/net.bin", 1, "stand_alone"), ("net.bin", 2, "data_parallel"), ("plans/deep/net.bin", 4,
                                                                                             "auto_parallel")):
    expect(f"compile m/net.mlir -o {plan} --set device_num={ranks} --set parallel_mode={keys}", 0, lambda text: ""
           if "warning" not in text else text)
    expect(f"run {plan} {RUN}", 0, "")
    got = get("out.st")
    expect.check(f"{ranks} ranks", near(got["w"], W) and near(got["v"], V) and got["b"] == [0.5] * 4)
os.chdir("plans")
expect(f"run deep/net.bin {RUN}".replace("=x.idx", "=../x.idx").replace("=y.idx", "=../y.idx"), 0, "")
os.chdir("..")

# So does the optimizer's state that these files have: x is zero, and with it w's gradient.
momentum = model().replace('kind = "sgd", lr = 1.0e-01 : f32',
                           'kind = "momentum", lr = 1.0e-01 : f32, momentum = 0.5 : f32')
write("m/momentum.mlir", momentum)
put("m/start/a.st", {"dense.w": ([6, 4], W), "w.m": ([6, 4], [2.0] * NUM)})
for ranks, mode in ((1, "stand_alone"), (2, "auto_parallel")):
    expect(f"compile m/momentum.mlir -o s.bin --set device_num={ranks} --set parallel_mode={mode}", 0, None)
    expect(f"run s.bin {RUN} --weights m".replace("--steps 0", "--steps 1"), 0, None)
    expect.check(f"state on {ranks} ranks", near(get("out.st")["w"], [w - 0.1 for w in W]))
put("m/start/a.st", {"dense.w": ([6, 4], W), "w.m": ([4, 6], [2.0] * NUM)})
wrong = "m/start/a.st: tensor 'w.m' has shape [4,6], the model's parameter [6,4]"
expect(f"run s.bin {RUN} --weights m", 1, lambda text: "" if wrong in text else text)
put("m/start/a.st", {"other": ([2], [1, 2]), "dense.w": ([6, 4], W)})

# --init gives all and --weights another folder; the plan may be moved with the model.
expect("run net.bin " + RUN.replace("out.st", "again.st") + " --init out.st", 0, "")
os.rename("m", "n")
missing = "m/start/a.st: cannot open: No such file or directory"
note = ("note: the model takes initial values from its files; --weights names another folder, "
        "--init a file with all parameters")
for plan in ("net.bin", ):
    expect(f"run {plan} {RUN}", 1, lambda text: "" if missing in text and note in text else text)
expect(f"run net.bin {RUN} --init again.st", 0, "")
expect(f"run net.bin {RUN} --weights n", 0, "")
expect.check("another folder", near(get("out.st")["w"], W))
shutil.copytree("n", "elsewhere")
expect(f"run elsewhere/net.bin {RUN}", 0, "")
expect(f"run net.bin {RUN} --weights n --init again.st", 2, None)

# What is not as the model says.
os.rename("n", "m")
for tensors, text in (({
        "dense.w": ([4, 6], W)
}, "m/start/a.st: tensor 'dense.w' has shape [4,6], the model's parameter [6,4]"), ({
        "w": ([6, 4], W)
}, "m/start/a.st: lacks tensor 'dense.w', the initial value of parameter 'w'")):
    put("m/start/a.st", tensors)
    expect(f"run net.bin {RUN}", 1, lambda got: "" if text in got and note in got else got)
put("m/start/a.st", {"dense.w": ([6, 4], W)})
size = os.path.getsize("m/start/a.st")
write("m/net.mlir", model(f", bytes = {size} : i64"))
expect("compile m/net.mlir -o net.bin", 0, None)
expect(f"run net.bin {RUN}", 0, "")
put("m/start/a.st", {"dense.w": ([6, 4], W), "more": ([1], [3])})
expect(
    f"run net.bin {RUN}", 1, lambda got: ""
    if f"m/start/a.st: has changed: the model was made with {size} bytes, now there are" in got else got)
library = ctypes.util.find_library("xxhash")
if library:
    put("m/start/a.st", {"dense.w": ([6, 4], W)})
    data = open("m/start/a.st", "rb").read()
    xxh3 = ctypes.CDLL(library).XXH3_64bits
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    number = xxh3(data, len(data))
    signed = number - (1 << 64) if number >> 63 else number
    write("m/net.mlir", model(f", bytes = {size} : i64, xxh3 = {signed} : i64"))
    expect("compile m/net.mlir -o net.bin", 0, None)
    expect(f"run net.bin {RUN}", 0, "")
    put("m/start/a.st", {"dense.w": ([6, 4], W[::-1])})
    expect(f"run net.bin {RUN}", 1, lambda got: "" if "m/start/a.st: has changed: its hash is" in got else got)
else:
    print("skipped: a file's hash: there is no libxxhash.so")

# What the text of a model says wrongly.
for wrong in ('{file = "../a.st", tensor = "w"}', '{file = "a.st"}', '{file = 3 : i64, tensor = "w"}',
              '{file = "a.st", tensor = "w", more = 1 : i64}'):
    write("bad.mlir", model().replace('{file = "b.st", tensor = "v"}', wrong))
    expect(
        "compile bad.mlir -o bad.bin", 1, lambda text: "" if "argument 'v': annotation msc.weights = " in text and
        "must be {file = PATH, tensor = NAME}" in text else text)

# The builder names the files, and notes how large they are.
try:
    import msc
except ImportError as e:
    print(f"skipped: the builder: {e}; run tools/setup")
else:
    put("m/start/a.st", {"dense.w": ([6, 4], W)})
    g = msc.Graph("built")
    x = g.input("x", "f32", [8, 6])
    g.output("y", g.matmul(x, g.parameter("w", "f32", [6, 4], weights=("start/a.st", "dense.w"))))
    g.save("m/built.fbs")
    expect("compile m/built.fbs -o m/built.bin", 0, None)
    expect("run m/built.bin --trust-native --data x=x.idx --output y=y.npy --save out.st", 0, "")
    expect.check("built", near(get("out.st")["w"], W))
    put("m/start/a.st", {"dense.w": ([6, 4], W), "more": ([1], [3])})
    expect("run m/built.bin --trust-native --data x=x.idx --output y=z.npy", 1, lambda got: ""
           if "has changed" in got else got)
    expect.check("nothing half-written", not os.path.exists("z.npy"))
expect.done()
