#!/usr/bin/env python3
"""msc run --output: outputs of all samples in .npy files, the last short batch included, the same for any number of
ranks; without labels; what cannot be written is refused before anything runs."""
import ast
import os
import struct

from expect import Expect, write

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
SAMPLES = 21

# table: no rows of samples; turned: samples along dimension 1; halves: two rows of each sample; sure: depends on labels
MODEL = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x6xf32>, %y: tensor<8xi32>, %w: tensor<6x4xf32>, %t: tensor<8x2xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = "msc.softmax_cross_entropy"(%0, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    %2 = "msc.transpose"(%0) {perm = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %3 = "msc.reshape"(%0) {shape = [16, 2]} : (tensor<8x4xf32>) -> tensor<16x2xf32>
    %4 = "msc.cast"(%0) {dtype = "bf16"} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %5 = "msc.one_hot"(%y) {depth = 4 : i64, dtype = "f32"} : (tensor<8xi32>) -> tensor<8x4xf32>
    %6 = "msc.mul"(%0, %5) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %7 = "msc.neg"(%t) : (tensor<8x2xf32>) -> tensor<8x2xf32>
    "msc.return"(%1, %0, %2, %3, %4, %6, %7) : (tensor<f32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<16x2xf32>, tensor<8x4xbf16>, tensor<8x4xf32>, tensor<8x2xf32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss", "logits", "turned", "halves", "short", "sure", "table"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"},
                   {msc.name = "t", msc.role = "parameter", msc.init = "normal:1.0"}],
      optimizer = {kind = "sgd", lr = 1.0e-01 : f32}} : () -> ()
}
"""


def npy(path):
    """Shape and elements of a file of f32."""
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\1\0" and (10 + data[8] + 256 * data[9]) % 64 == 0, path
    end = 10 + data[8] + 256 * data[9]
    head = ast.literal_eval(data[10:end].decode())
    assert head["descr"] == "<f4" and not head["fortran_order"], head
    return head["shape"], struct.unpack(f"<{(len(data) - end) // 4}f", data[end:])


def put_npy(path, shape, code, descr, values):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() +
                  struct.pack(f"<{len(values)}{code}", *values))


def weights(path):
    data = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    begin, until = __import__("json").loads(data[8:end])["w"]["data_offsets"]
    return struct.unpack(f"<{(until - begin) // 4}f", data[end + begin:end + until])


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 * max(1, abs(y)) for x, y in zip(a, b))


def run(plan, options, code=0, err="", out=None):
    return expect(f"run {plan} --trust-native --data {options}", code, err, out)


def refuses(options, text):
    run("net1.bin", options, 1, f"msc: error: {text} [E0114]\n")


write("net.mlir", MODEL)
x = [((i * 37 + 11) % 101) / 50 - 1 for i in range(SAMPLES * 6)]
y = [i % 4 for i in range(SAMPLES)]
put_npy("x.npy", (SAMPLES, 6), "f", "<f4", x)
put_npy("y.npy", (SAMPLES, ), "i", "<i4", y)
put_npy("few.npy", (3, 6), "f", "<f4", x[:18])
for name, keys in (("net1", "stand_alone"), ("net2", "data_parallel"), ("net4", "auto_parallel")):
    expect(f"compile net.mlir -o {name}.bin --set device_num={name[3]} --set parallel_mode={keys}", 0, None)
run("net1.bin", "x=x.npy y=y.npy --steps 0 --save w.safetensors --seed 3")
w = weights("w.safetensors")
wanted = [sum(x[6 * i + k] * w[4 * k + j] for k in range(6)) for i in range(SAMPLES) for j in range(4)]

# Every sample has its rows, whatever the ranks, and labels are not asked for.
for ranks in (1, 2, 4):
    run(f"net{ranks}.bin", "x=x.npy --init w.safetensors --output logits=l.npy --output halves=h.npy short=s.npy")
    expect.check(f"logits on {ranks} ranks", npy("l.npy")[0] == (SAMPLES, 4) and near(npy("l.npy")[1], wanted))
    expect.check(f"two rows per sample on {ranks}",
                 npy("h.npy")[0] == (2 * SAMPLES, 2) and near(npy("h.npy")[1], wanted))
    short = npy("s.npy")[1]
    expect.check(
        f"bf16 on {ranks}",
        all(abs(a - b) <= abs(b) / 128 for a, b in zip(short, wanted))
        and all(struct.pack("<f", v)[:2] == b"\0\0" for v in short))

# A range, shorter than a batch too; a file shorter than a batch; the order of --data does not matter.
run("net2.bin", "x=x.npy --init w.safetensors --eval 4:7 --output logits=l.npy")
expect.check("three samples", npy("l.npy")[0] == (3, 4) and near(npy("l.npy")[1], wanted[16:28]))
run("net1.bin", "x=few.npy --init w.safetensors --output logits=l.npy")
expect.check("few samples", near(npy("l.npy")[1], wanted[:12]))

# Batches of one sample, also through ops that cannot be cut where a size is 1.
write("one.mlir",
      MODEL.replace("16, 2", "2, 2").replace("16x2x", "2x2x").replace("8x", "1x").replace("1x2xf32", "8x2xf32"))
expect("compile one.mlir -o one.bin", 0, None)
run("one.bin", "x=x.npy y=y.npy --init w.safetensors --output logits=l.npy short=s.npy sure=u.npy")
expect.check("one sample", near(npy("l.npy")[1], wanted))
expect.check("its cast", npy("s.npy") == ((SAMPLES, 4), short))
expect.check("its label", near(npy("u.npy")[1], [v * (j % 4 == y[j // 4]) for j, v in enumerate(wanted)]))

# With labels what depends on them can be written, and --eval evaluates, after training too.
run("net2.bin",
    "x=x.npy y=y.npy --init w.safetensors --eval 0:20 --output sure=u.npy",
    out=lambda text: "" if "evaluation: loss" in text and "(20 samples)" in text and "step " not in text else "text")
expect.check("labels", near(npy("u.npy")[1], [v * (j % 4 == y[j // 4]) for j, v in enumerate(wanted[:80])]))
run("net1.bin",
    "x=x.npy y=y.npy --init w.safetensors --steps 3 --output logits=l.npy --save after.safetensors",
    out=lambda text: "" if "step 3" in text else "no training")
after = weights("after.safetensors")
expect.check(
    "after training", after != w and near(
        npy("l.npy")[1],
        [sum(x[6 * i + k] * after[4 * k + j] for k in range(6)) for i in range(SAMPLES) for j in range(4)]))

# What has no part for each sample: one whole batch or nothing.
run("net1.bin", "x=x.npy --init w.safetensors --eval 8:16 --output turned=t.npy table=b.npy")
expect.check(
    "turned",
    npy("t.npy")[0] == (4, 8) and near(npy("t.npy")[1], [wanted[4 * i + j] for j in range(4) for i in range(8, 16)]))
expect.check("table", npy("b.npy")[0] == (8, 2))
for name in ("l", "h", "s", "u", "t", "b"):
    os.unlink(f"{name}.npy")
run(
    "net1.bin", "x=x.npy --output turned=t.npy", 1,
    "msc: error: output 'turned': its samples lie along dimension 1; of several batches only outputs whose samples lie "
    "along dimension 0 can be written [E0111]\n")
refuses(
    "x=x.npy --output table=t.npy",
    "output 'table' has no part that belongs to a sample, so it can be written for exactly one batch of 8 samples; "
    "there are 21")
refuses("x=x.npy --output sure=t.npy", "output 'sure' depends on labels: give files for all of them")
refuses("x=x.npy --output loss=t.npy", "output 'loss' depends on labels: give files for all of them")
refuses("x=x.npy --output logit=t.npy",
        "the model has no output 'logit'; its outputs are: loss, logits, turned, halves, short, sure, table")
run("net1.bin", "x=x.npy --output logits=t.npy halves=t.npy", 1,
    "t.npy: error: cannot write: it is the output 't.npy' of this command [E0112]\n")
run("net1.bin", "x=x.npy --output logits=no/t.npy", 1,
    "msc: error: no/t.npy: cannot create: No such file or directory [E0114]\n")
refuses("x=x.npy --eval 20:22 --output logits=t.npy", "the evaluation range 20:22 does not lie inside the 21 samples")
refuses("x=x.npy --steps 1 --output logits=t.npy", "input 'y' has no data: give a file for it")
run("net1.bin", "x=x.npy --train 0:8 --output logits=t.npy", 2, None)
run("net1.bin", "x=x.npy --output logits=x.npy", 1, lambda text: "" if "x.npy" in text else "text")
expect("run net1.bin --trust-native --device timed --output logits=t.npy", 1,
       "msc: error: --output: the device timed has no values [E0114]\n")
expect.no_files("net.mlir", "one.mlir", "one.bin", "net1.bin", "net2.bin", "net4.bin", "x.npy", "y.npy", "few.npy",
                "w.safetensors", "after.safetensors")
expect.done()
