#!/usr/bin/env python3
"""The Python binding of the runtime: a plan trained and evaluated in this process gives what `msc run` gives."""
import array
import ctypes
import json
import os
import subprocess
import sys
import threading

from expect import MSC, Expect, need_library

need_library()

from msc import runtime  # noqa: E402
from msc.runtime import Error, Plan  # noqa: E402

ROOT = os.getcwd()
LIBRARY = os.path.join(os.path.dirname(MSC), "libmscrt.so")
expect = Expect()

# The structures of the header and their copies are equally large.
STRUCTS = {
    "mscrt_tensor": runtime._Tensor, "mscrt_plan_options": runtime._PlanOptions, "mscrt_options": runtime._Options
}
with open("sizes.c", "w") as out:
    out.write('#include <stdio.h>\n#include "runtime/mscrt.h"\nint main(void) { printf("' + "%zu " * len(STRUCTS) +
              '", ' + ", ".join(f"sizeof({n})" for n in STRUCTS) + "); }\n")
subprocess.run(["cc", "-I", ROOT, "sizes.c", "-o", "sizes"], check=True)
sizes = [int(n) for n in subprocess.run(["./sizes"], check=True, capture_output=True, text=True).stdout.split()]
expect.check(f"sizes {sizes}", sizes == [ctypes.sizeof(s) for s in STRUCTS.values()])



def refuses(call, text):
    try:
        call()
    except Error as e:
        expect.check(f"wanted: {text}\ngot: {e}", str(e) == text)
    else:
        expect.check(f"no error: {text}", False)


def shaped(values, *shape):
    return memoryview(values.tobytes()).cast("f", shape=shape)


subprocess.run([sys.executable, "-m", "msc.models", "ffn", "--flat", "--batch", "4", "-o", "ffn.fbs"], check=True)
expect("compile ffn.fbs -o ffn.bin", 0, None)
x, y = array.array("B", [(7 * i) % 256 for i in range(8 * 784)]), array.array("i", [3, 1, 4, 1, 5, 9, 2, 6])
with open("x.idx", "wb") as out:
    out.write(b"\0\0\x08\x02" + (8).to_bytes(4, "big") + (784).to_bytes(4, "big") + x.tobytes())
with open("y.idx", "wb") as out:
    out.write(b"\0\0\x08\x01" + (8).to_bytes(4, "big") + bytes(y.tolist()))
told = expect(
    "run ffn.bin --data x=x.idx y=y.idx --in-order --steps 2 --seed 5 --eval 0:8 --json").stdout.decode().splitlines()
told = [json.loads(line) for line in told]

with Plan("ffn.bin", library=LIBRARY, seed=5) as plan:
    losses, evaluated = [], []
    batches = [{"x": array.array("f", [v / 255 for v in x[784 * b:784 * (b + 4)]]), "y": y[b:b + 4]} for b in (0, 4)]
    for batch in batches:
        losses.append(plan.run("train", **batch))
    expect.check("losses", all(abs(a - line["loss"]) <= 1e-6 * a for a, line in zip(losses, told)))
    for batch in batches:
        evaluated.append(plan.run("forward", **batch))
        logits = plan.run("forward", "logits", **batch)
        expect.check("logits", len(logits) == 40 and plan.outputs["forward", "logits"] == (0, (4, 10)))
    mean = next(line["eval"]["loss"] for line in told if "eval" in line)
    expect.check(f"evaluation {evaluated} {mean}", abs(sum(evaluated) / 2 - mean) <= 1e-6 * mean)
    plan.save("w.safetensors")
with Plan("ffn.bin", library=LIBRARY) as plan:
    plan.load("w.safetensors")
    expect.check("loaded", plan.run("forward", **batches[1]) == evaluated[1])
    right, whole = batches[1]["x"], 4 * 784
    of_f32 = "input 'x' has elements of f32, not of format"
    refuses(lambda: plan.run("forward", "logit"), "section forward has no output logit; it has loss, logits")
    refuses(lambda: plan.run("forward", x=b"12345"), "input 'x' has 12544 bytes, not 5")
    refuses(lambda: plan.run("forward", z=right), "the model has no input 'z'; its inputs are: x, y")
    # as many bytes, or as many elements, of another type
    refuses(lambda: plan.run("forward", x=array.array("d", [0.5] * (whole // 2))), f"{of_f32} 'd' (64 bits)")
    refuses(lambda: plan.run("forward", x=array.array("i", [1] * whole)), f"{of_f32} 'i' (32 bits)")
    refuses(lambda: plan.run("forward", x=array.array("B", [1] * 4 * whole)), f"{of_f32} 'B' (8 bits)")
    refuses(lambda: plan.run("forward", y=array.array("f", [1] * 4)),
            "input 'y' has elements of i32, not of format 'f' (32 bits)")
    # as many elements in another shape
    refuses(lambda: plan.run("forward", x=shaped(right, 784, 4)), "input 'x' has the shape [4, 784], not [784, 4]")
    refuses(lambda: plan.run("forward", x=right[1:]), "input 'x' has the shape [4, 784], not [3135]")
    neither = "input 'x' is neither bytes nor an array: memoryview: a bytes-like object is required, not"
    refuses(lambda: plan.run("forward", x=12544), f"{neither} 'int'")
    refuses(lambda: plan.run("forward", x=list(right)), f"{neither} 'list'")
    for same in (right.tobytes(), bytearray(right.tobytes()), shaped(right, 4, 784)):
        expect.check("the same batch", plan.run("forward", x=same, y=batches[1]["y"]) == evaluated[1])

# What is closed says so, wherever it was closed.
closed = (lambda: plan.run("forward", **batches[1]), lambda: plan.run("forward", "logits"), lambda: plan.run("train"),
          lambda: plan.load("w.safetensors"), lambda: plan.save("again.safetensors"), plan.__enter__)
for use in closed:
    refuses(use, "this plan is closed")
plan.close()
expect.check("nothing written", not os.path.exists("again.safetensors"))

# One that another thread closes is closed between two calls.
with Plan("ffn.bin", library=LIBRARY) as plan:
    ends = []
    def work():
        try:
            while len(ends) < 4:
                plan.run("train", **batches[0])
        except Error as e:
            ends.append(str(e))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    plan.run("train", **batches[0])
    plan.close()
    for t in threads:
        t.join()
    expect.check(f"threads {ends}", ends == ["this plan is closed"] * 4)
try:
    Plan("missing.bin", library=LIBRARY)
except Error as e:
    expect.check(f"missing: {e}", "missing.bin" in str(e))
for name in ("ffn.fbs", "ffn.bin", "x.idx", "y.idx", "w.safetensors"):
    os.unlink(name)
expect.done()
