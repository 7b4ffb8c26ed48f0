#!/usr/bin/env python3
"""An image of 4096 x 4096 whose windows ranks hold: each reads its window from the file and nothing else, gets the
borders from its neighbours, and the losses are those of one rank and of PyTorch, for windows cut along height, width
and both; `msc run --timing` tells what was read."""
import json
import os
import random
import string
import struct

from expect import Expect, write

expect = Expect()
os.environ["XDG_CACHE_HOME"] = "/dev/null"
STEPS = 2
LOSSES = 1.38629436, 3.24422489  # PyTorch's, of doubles
AHEAD = 2  # batches at most
MODEL = string.Template("""module {
  "msc.func"() ({
  ^bb0(%x: tensor<1x1x4096x4096xf32>, %y: tensor<1xi32>, %k: tensor<4x1x5x5xf32>):
    %0 = "msc.conv2d"(%x, %k) {in_strategy = [[1, 1, $down, $across], [1, 1, 1, 1]], padding = [2, 2, 2, 2], stride = [4, 4]} : (tensor<1x1x4096x4096xf32>, tensor<4x1x5x5xf32>) -> tensor<1x4x1024x1024xf32> loc("conv")
    %1 = "msc.relu"(%0) : (tensor<1x4x1024x1024xf32>) -> tensor<1x4x1024x1024xf32>
    %2 = "msc.reduce_mean"(%1) {dims = [2, 3]} : (tensor<1x4x1024x1024xf32>) -> tensor<1x4xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<1x4xf32>, tensor<1xi32>) -> tensor<f32>
    "msc.return"(%3, %2) : (tensor<f32>, tensor<1x4xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.init = "normal:0.3", msc.name = "k", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "sgd", lr = 0.5 : f64}, results = ["loss", "out"], sym_name = "forward"} : () -> ()
}
""")


def npy(path, kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    write(path, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)


def train(down, across):
    """The losses of some steps, and what --timing says after them."""
    ranks = down * across
    write("net.mlir", MODEL.substitute(down=down, across=across))
    keys = [f"device_num={ranks}", "parallel_mode=semi_auto_parallel", f"dataset_strategy=[[1,1,{down},{across}],[1]]"]
    expect(["compile", "net.mlir", "-o", "net.bin", *[w for key in keys[:99 * (ranks > 1)] for w in ("--set", key)]], 0,
           None)
    done = expect(["run", "net.bin", "-n", str(ranks), "--data", "x=x.npy", "y=y.npy", "--steps", str(STEPS),
                   "--in-order", "--init", "k.safetensors", "--timing", "--json", "--trust-native"], 0, None)
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return [line["loss"] for line in lines[:-1]], lines[-1]


def check_read(name, told, window):
    """Every rank has read its windows of the steps, and of those batches that were read ahead."""
    for per_step in told["data_bytes"]:
        batches = round(per_step * STEPS / window)
        expect.check(f"{name}: {told['data_bytes']} bytes per step, a window has {window}",
                     abs(per_step * STEPS - batches * window) < 1 and STEPS <= batches <= STEPS + AHEAD)
    expect.check(f"{name}: waits {told['data_wait_ms']}", all(0 <= w < 60e3 for w in told["data_wait_ms"]))


draw = random.Random(1)
kernels = struct.pack("<100f", *[random.Random(2).gauss(0, 0.3) for _ in range(100)])
header = json.dumps({"k": {"dtype": "F32", "shape": [4, 1, 5, 5], "data_offsets": [0, len(kernels)]}}).encode()
write("k.safetensors", struct.pack("<Q", len(header)) + header + kernels)
npy("y.npy", "<i4", [2], struct.pack("<2i", 1, 3))
npy("x.npy", "|u1", [2, 4096, 4096], draw.randbytes(2 << 24))
for down, across in (1, 1), (2, 2), (4, 1), (1, 2):
    losses, told = train(down, across)
    check_read(f"{down} x {across}", told, (1 << 24) // (down * across))
    expect.check(f"{down} x {across}: {losses}, wanted {LOSSES}", len(losses) == STEPS and
                 all(abs(a - b) <= 2e-5 * b for a, b in zip(losses, LOSSES)))
expect.done()
