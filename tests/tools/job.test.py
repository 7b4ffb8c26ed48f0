#!/usr/bin/env python3
"""Models compiled and run in a Python process: the losses of msc run for any number of ranks, outputs of any number of
samples, arrays of others without copies, messages with places, an interrupt that leaves nothing behind."""
import array
import gc
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

from expect import MSC, Expect, write, need_library

need_library()

import msc  # noqa: E402
from msc import native, runtime  # noqa: E402
from msc.array import Array, Borrowed  # noqa: E402
from msc.job import Job, Workspace  # noqa: E402

ROOT, BUILD = os.getcwd(), os.path.dirname(MSC)
os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()


def network(batch=8):
    g = msc.Graph("net")
    x, y = g.input("x", "f32", [batch, 6]), g.input("y", "i32", [batch], role="label")
    logits = g.dense(g.relu(g.dense(x, 5, name="first")), 4, name="second")
    g.output("logits", logits)
    g.output("pairs", g.reshape(logits, [-1, 2]))
    g.output("sum", g.reduce_sum(logits, [0]))
    g.output("right", g.mul(logits, g.one_hot(y, 4)))
    g.loss(g.softmax_cross_entropy(logits, y))
    g.optimizer("adam", lr=0.01)
    return g


def refuses(call, kind, text):
    try:
        call()
    except kind as e:
        expect.check(f"wanted: {text}\ngot: {e}", text in str(e))
    else:
        expect.check(f"no error: {text}", False)


# The structures of the headers and their copies are equally large.
STRUCTS = {
    "msc_open_size": native.OpenSize,
    "msc_compiler_options": native.CompilerOptions,
    "msc_message": native.CMessage,
    "msc_report": native.Report
}
write(
    "sizes.c", '#include <stdio.h>\n#include "ir/msc.h"\nint main(void) { printf("' + "%zu " * len(STRUCTS) + '", ' +
    ", ".join(f"sizeof({n})" for n in STRUCTS) + "); }\n")
subprocess.run(["cc", "-I", ROOT, "sizes.c", "-o", "sizes"], check=True)
sizes = [int(n) for n in subprocess.run(["./sizes"], check=True, capture_output=True, text=True).stdout.split()]
import ctypes  # noqa: E402

expect.check(f"sizes {sizes}", sizes == [ctypes.sizeof(s) for s in STRUCTS.values()])

# ---- the losses of msc run, on one rank and several ----

N = 24
xs = [[((i * 37 + j * 11) % 101) / 50 - 1 for j in range(6)] for i in range(N)]
ys = [i * 7 % 4 for i in range(N)]
network().save("net.fbs")
for name, code, shape, values in (("x", "f", (N, 6), sum(xs, [])), ("y", "i", (N, ), ys)):
    head = f"{{'descr': '<{code}4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    with open(f"{name}.npy", "wb") as out:
        out.write(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + array.array(code, values).tobytes())
plans = {}
for ranks, keys in ((1, {}), (2, {
        "parallel_mode": "data_parallel",
        "gradients_mean": True
}), (4, {
        "parallel_mode": "auto_parallel"
})):
    plan = plans[ranks] = msc.compile("net.fbs", libraries=BUILD, device_num=ranks, **keys)
    plan.save("plan.bin")
    told = expect(
        "run plan.bin --trust-native --data x=x.npy y=y.npy --in-order --steps 3 --seed 5 --json --output "
        "logits=l.npy", 0, "").stdout.decode().splitlines()
    told = [line["loss"] for line in map(json.loads, told) if "step" in line]
    logits = open("l.npy", "rb").read()[-N * 16:]
    with plan.run(seed=5) as job:
        losses = [job.step(x=xs[b:b + 8], y=array.array("i", ys[b:b + 8])) for b in (0, 8, 16)]
        expect.check(f"losses on {ranks}: {losses} {told}",
                     len(told) == 3 and all(abs(a - b) <= 1e-6 * b for a, b in zip(losses, told)))
        expect.check(f"logits on {ranks}", bytes(job.predict("logits", x=xs).memory) == logits)
        again = job.predict(x=array.array("f", sum(xs[:19], [])))
        expect.check(f"all outputs with rows on {ranks}",
                     sorted(again) == ["logits", "pairs"] and again["pairs"].shape == (38, 2))
        job.save("w.safetensors")
        weight = job.read("first.weight")
    expect.check(f"a parameter of {ranks}", weight.shape == (6, 5) and weight.dtype == "f32")
    with plan.run() as job:
        job.load("w.safetensors")
        expect.check(f"loaded on {ranks}", job.read("first.weight").tolist() == weight.tolist())
        expect.check(f"evaluation on {ranks}", job.evaluate(x=xs[:8], y=ys[:8]) < losses[0])
plan = plans[1]
expect.check(
    "what a plan says of itself", plan.ranks == 1 and plan.trains and plan.inputs["x"].shape == (8, 6)
    and plan.inputs["y"].role == "label" and plan.outputs["forward"]["pairs"].batch == 0
    and plan.parameters["first.bias"].shape == (5, ) and plan.memory["all"] >= plan.memory["parameters"] > 0)
expect.check("explained", "first" in plan.explain() and "second" in plan.explain("second"))
loaded = msc.Plan.load("plan.bin", libraries=BUILD)
expect.check("a plan from a file", loaded.ranks == 4)
refuses(lambda: loaded.run(ranks=2), msc.Error, "the plan is for 4 ranks, not for 2: compile it with device_num=2")
with plan.run(ranks=2, seed=1) as job:
    expect.check("compiled again for two ranks", job.plan.ranks == 2 and job.step(x=xs[:8], y=ys[:8]) > 0)

# ---- inputs and outputs ----

# A step of several micro-batches takes all of them, in any cut; evaluation takes one.
micro = []
for keys in ({}, {"micro_size": 2}, {"micro_size": 4}, {
        "micro_size": 4,
        "device_num": 4,
        "parallel_mode": "auto_parallel",
        "pipeline_stages": 2
}):
    cut = msc.compile(network(16), **keys)
    num = cut.micro_batches
    expect.check(f"micro-batches {keys}", num == keys.get("micro_size", 1) and cut.inputs["x"].shape[0] * num == 16)
    with cut.run(seed=3) as job:
        micro.append([job.step(x=xs[:16], y=ys[:16]), job.step(x=xs[8:24], y=ys[8:24])])
        expect.check("predictions", job.predict("logits", x=xs).shape == (24, 4))
        if num > 1:
            few = 16 // num
            refuses(lambda: job.step(x=xs[:few], y=ys[:few]), msc.Error, "input 'x' has the shape [16, 6], not")
            refuses(lambda: job.step(x=bytes(24 * few), y=bytes(4 * few)), msc.RunError,
                    f"input 'x' was set for one micro-batch, and a step takes {num} at once")
            job.predict("logits", x=xs[:few])
            micro[-1].append(job.evaluate(x=xs[:few], y=ys[:few]))
expect.check(f"losses of micro-batches: {micro}",
             all(abs(a - b) < 1e-5 for m in micro[1:] for a, b in zip(m, micro[0])))

# On one rank arrays are borrowed: no copy is made, and what is written there the next step sees.
with msc.compile(network()).run(seed=3) as job:
    flat = array.array("f", sum(xs[:8], []))
    first = job.evaluate(x=flat, y=ys[:8])
    flat[0] += 1
    second = job.evaluate()
    expect.check("borrowed", second != first and second == job.evaluate(x=flat, y=ys[:8]))
    shifted = (ctypes.c_char * (4 * 48 + 1))()
    shifted[1:] = flat.tobytes()
    expect.check("not aligned", job.evaluate(x=memoryview(shifted)[1:].tobytes()) == second)


def borrowed_outputs():
    """Outputs in memory of the caller, from arenas that share memory."""
    g = msc.Graph("pure")
    a = g.input("a", "f32", [8, 6])
    h = g.relu(g.matmul(a, g.transpose(a, [1, 0])))
    g.output("h", h)
    g.output("sums", g.reduce_sum(h, dims=[1]))
    g.output("input", g.reshape(a, [48]))
    data = array.array("f", sum(xs[:8], []))
    wanted, sizes = {}, {"h": 64, "sums": 8, "input": 48}
    with msc.compile(g).run() as job:
        job.evaluate(a=data)
        wanted = {n: bytes(job.read(n).memory) for n in sizes}
    workspace = Workspace()
    jobs = [Job(msc.compile(g, own_outputs=True), workspace=workspace) for _ in range(2)]
    expect.check("one workspace", len(workspace._blocks) == 1)
    for job, shift in (jobs[0], 0), (jobs[1], 0), (jobs[0], 0), (jobs[1], 2):
        memory = {n: (ctypes.c_char * (4 * size + 4))() for n, size in sizes.items()}
        at = {n: ctypes.addressof(m) + shift for n, m in memory.items()}
        job._compute([(b"a", data.buffer_info()[0], 192)], [(n.encode(), at[n], 4 * sizes[n]) for n in sizes])
        expect.check("results", all(memory[n][shift:shift + 4 * sizes[n]] == wanted[n] for n in sizes))
        job._last = "forward"
        expect.check("read", bytes(job.read("h").memory) == wanted["h"])
        tensor = runtime._Tensor()
        job._check("mscrt_local", 0, b"h", ctypes.byref(tensor))
        expect.check("written where it is wanted, unless it is not aligned", (tensor.data == at["h"]) == (shift == 0))
    # another output stays where it was put before; taken back, it is the runtime's own again
    job = jobs[0]
    kept = bytes(memory["h"])
    job._compute([], [(n.encode(), None, 0) for n in sizes])
    expect.check("taken back", bytes(memory["h"]) == kept and bytes(job.read("h").memory) == wanted["h"])
    refuses(lambda: job._compute([], [(b"h", at["h"], 8)]), msc.RunError, "output 'h' has 256 bytes, not 8")
    refuses(lambda: job._compute([], [(b"none", at["h"], 8)]), msc.RunError, "section 'forward' has no output 'none'")
    for job in jobs:
        job.close()
    small = Workspace()
    small._map = lambda nbytes: (_ for _ in ()).throw(OSError())
    refuses(lambda: Job(msc.compile(g), workspace=small), msc.RunError, "the caller has no")
    two = msc.compile(network(), device_num=2, parallel_mode="data_parallel")
    refuses(lambda: Job(two, workspace=workspace), msc.RunError,
            "only a job of one rank on the device cpu takes memory of the caller")


borrowed_outputs()

with plan.run(seed=2) as job:
    few = job.predict("logits", "pairs", x=xs[:3])
    whole = job.predict("logits", x=xs[:8])
    expect.check("few samples", few["logits"].tolist() == whole[:3] and few["pairs"].shape == (6, 2))
    expect.check("21 samples", job.predict("logits", x=xs[:21]).tolist()[:8] == whole.tolist())
    expect.check("labels", job.predict("right", x=xs[:8], y=ys[:8])[1][ys[1]] == whole[1][ys[1]])
    expect.check("a sum", abs(sum(row[0] for row in whole) - job.predict("sum", x=xs[:8])[0]) < 1e-5)
    refuses(lambda: job.predict("sum", x=xs[:5]), msc.Error,
            "output sum has no rows of samples: give exactly 8 samples")
    refuses(lambda: job.predict("right", x=xs[:8]), msc.Error, "output right depends on labels: give y")
    refuses(lambda: job.predict("logit", x=xs[:8]), msc.Error,
            "section forward has no output logit; it has loss, logits")
    refuses(lambda: job.step(z=1), msc.Error, "the model has no input 'z'; its inputs are: x, y")
    refuses(lambda: job.step(x=xs[:7], y=ys[:8]), msc.Error, "input 'x' has the shape [8, 6], not [7, 6]")
    refuses(lambda: job.step(x=b"123"), msc.RunError, "input 'x' has 192 bytes, not 3")
    refuses(lambda: job.step(x=array.array("d", [0] * 48)), msc.Error,
            "input 'x' has elements of f32, not of format 'd' (64 bits)")
    refuses(lambda: job.step(x=[[1, 2], [3]]), msc.Error, "input 'x': lists of different lengths")
    refuses(lambda: job.step(x="text"), msc.Error, "input 'x' is no array")
    refuses(lambda: job.read("logit"), msc.Error, "there is no parameter 'logit'")
    refuses(lambda: job.load("no.safetensors"), msc.RunError, "no.safetensors")
    try:
        job.step(x=xs[:8], y=[9] * 8)
    except msc.RunError as e:
        expect.check(f"a bad label: {e} {e.code}", "an index is out of range" in str(e) and e.code == "INPUT"
                     and e.trail)
    else:
        expect.check("a bad label", False)
for use in (lambda: job.step(), lambda: job.predict(), lambda: job.read("first.bias"), job.__enter__):
    refuses(use, msc.Error, "this job is closed")

# Elements of others.
a = Array("f32", (2, 3))
a.memory.cast("f")[:] = array.array("f", range(6))
expect.check("lists", a.tolist() == [[0, 1, 2], [3, 4, 5]] and len(a) == 2 and Array("f32", ()).item() == 0)
expect.check("borrowed", Borrowed("a", a.memory.cast("f"), "f32", None).address == a.address)
expect.check("turned", Borrowed("a", memoryview(array.array("f", range(6)))[::2], "f32", None).nbytes == 12)
bf16 = Array("bf16", (2, ))
bf16.memory[:] = Borrowed("b", [1.5, -3.0], "bf16", None)._kept
expect.check("bf16", bf16.tolist() == [1.5, -3.0])
capsule = a.__dlpack__()
expect.check("DLPack", "dltensor" in repr(capsule) and msc.array._given and a.__dlpack_device__() == (1, 0))
del capsule
gc.collect()
expect.check("nothing is held", not msc.array._given)
try:
    import numpy
except ImportError:
    print("skipped: arrays of numpy: it is not installed")
else:
    n = numpy.asarray(a)
    n[0, 0] = 9
    expect.check("numpy looks at the same memory", a[0][0] == 9)
    expect.check("and msc at numpy's", Borrowed("n", n, "f32", None).address == n.ctypes.data)

# ---- messages ----

g = msc.Graph("wrong")
x = g.input("x", "f32", [4, 4])
g.output("y", g.matmul(x, x, name="product", in_strategy=((3, 1), (1, 1))))
try:
    msc.compile(g, libraries=BUILD, device_num=4, parallel_mode="semi_auto_parallel")
except msc.CompileError as e:
    expect.check(
        f"a place: {e} {e.code} {e.file}:{e.line}",
        e.file.endswith("job.test.py") and e.line > 100 and e.code[0] == "E" and e.messages and e.text in str(e))
else:
    expect.check("no error", False)
refuses(lambda: msc.compile(g, libraries=BUILD, device_nmu=4), msc.CompileError, "did you mean 'device_num'?")
refuses(lambda: msc.compile(3), msc.Error, "a model is a Graph, a path or the bytes of a model.fbs, not int")
refuses(lambda: msc.compile(b"", libraries=BUILD), msc.CompileError, "error")
refuses(lambda: msc.compile(g, libraries="/nowhere"), msc.Error, "/nowhere has no libmsc.so.0")
g = msc.Graph("idle")
x, y = g.input("x", "f32", [4, 4]), g.input("y", "i32", [4], role="label")
g.loss(g.softmax_cross_entropy(g.dense(x, 4, name="d"), y))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    msc.compile(g, libraries=BUILD)
expect.check(
    "a warning",
    len(caught) == 1 and caught[0].category is msc.CompileWarning and "no optimizer" in str(caught[0].message)
    and caught[0].filename.endswith("job.test.py"))

# ---- the end ----

before = threading.active_count()
with plans[4].run() as job:
    expect.check("threads", threading.active_count() == before + 4)
    job.step(x=xs[:8], y=ys[:8])
expect.check("no thread is left", threading.active_count() == before)
forgotten = plans[4].run()
forgotten.step(x=xs[:8], y=ys[:8])
del forgotten
gc.collect()
expect.check("a job that nobody has is closed", threading.active_count() == before)
gc.disable()
forgotten = plans[4].run()
try:
    forgotten.step(x=xs[:8], y=[9] * 8)
except msc.Error as e:
    expect.check(f"labels of no class: {e}", "out of range" in str(e))
del forgotten
expect.check("so is one that failed, at once", threading.active_count() == before)
gc.enable()
write(
    "endless.py", f"""import msc
plan = msc.Plan.load("plan.bin", libraries={BUILD!r})
print("begun", flush=True)
with plan.run() as job:
    while True:
        job.step(x=[[0.5] * 6] * 8, y=[1] * 8)
        print("step", flush=True)
""")
run = subprocess.Popen([sys.executable, "endless.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
while (line := run.stdout.readline()) != "step\n":
    assert line, run.stderr.read()
run.send_signal(signal.SIGINT)
threading.Thread(target=run.stdout.read, daemon=True).start()
begin = time.monotonic()
expect.check("an interrupt ends it", "KeyboardInterrupt" in run.stderr.read() and run.wait(30) != 0
             and time.monotonic() - begin < 30)

# Calls of several threads wait for each other: together they train as one does. What is closed meanwhile says so.
for ranks in (1, 2):
    with plans[ranks].run(seed=3) as job:
        alone = [job.step(x=xs[:8], y=ys[:8]) for _ in range(24)]
    with plans[ranks].run(seed=3) as job:
        together, ends = [], []

        def train():
            for _ in range(6):
                together.append(job.step(x=xs[:8], y=ys[:8]))
                job.predict("logits", x=xs[:3])

        def train_on():
            try:
                while True:
                    job.step(x=xs[:8], y=ys[:8])
            except msc.Error as e:
                ends.append(str(e))

        for work in (train, train_on):
            threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            if work is train_on:
                job.close()
            for thread in threads:
                thread.join(60)
        expect.check(f"{ranks} ranks: {sorted(together)} {sorted(alone)}", sorted(together) == sorted(alone))
        expect.check(f"{ranks} ranks: {ends}", ends == ["this job is closed"] * 4)

# A path is text, bytes of any kind, or an object that has one; no byte of it is lost.
with plans[1].run() as job:
    for path in (b"weights \xff.st", os.fsdecode(b"weights \xff.st")):
        job.save(path)
        job.load(path)
        os.unlink(path)
    refuses(lambda: job.save("weights.st\0.old"), ValueError, "'weights.st\\x00.old' has a zero byte")
    refuses(lambda: job.read("second.weight\0"), msc.Error, "there is no parameter")
    refuses(lambda: job.load(None), TypeError, "NoneType")
expect.check("nothing written", not os.path.exists("weights.st"))

# A process that is forked while a job is open has none of its threads: it is told so at once, and closes nothing.
for ranks in (1, 2):
    with plans[ranks].run() as job:
        loss, weight = job.step(x=xs[:8], y=ys[:8]), job.read("second.weight").tolist()
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(60)
            said = []
            for call in (lambda: job.step(x=xs[:8], y=ys[:8]), lambda: job.predict("logits", x=xs[:8]),
                         lambda: job.read("second.weight"), lambda: job.save("child.safetensors"), job.__enter__):
                try:
                    said.append(repr(call()))
                except msc.Error as e:
                    said.append(str(e))
            job.close()
            os.write(theirs, json.dumps(said).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as told:
            said = told.read()
        expect.check(f"{ranks} ranks, a forked process: {said}", os.waitpid(child, 0)[1] == 0 and json.loads(said) == [
            f"this job belongs to process {os.getpid()}, which forked this one: open another here"] * 5)
        expect.check(f"{ranks} ranks go on", job.read("second.weight").tolist() == weight
                     and job.step(x=xs[:8], y=ys[:8]) < loss)

# Numbers that make no sense are named.
plan = msc.Plan.load("plan.bin", libraries=BUILD)
for words, given in (("seed=-1: from 0", {"seed": -1}), (f"seed={1 << 70}: from 0", {"seed": 1 << 70}),
                     ("timeout=-1: a number of seconds above 0", {"timeout": -1}),
                     ("address='@net': where several processes meet; say which rank", {"address": "@net"})):
    try:
        plan.run(**given).close()
        said = "accepted"
    except msc.Error as e:
        said = str(e)
    expect.check(f"{words}: {said}", words in said)
for limit in (-1, math.nan):
    refuses(lambda: msc.compile("net.fbs", libraries=BUILD, time_limit=limit), msc.Error,
            f"time limit {limit}: seconds")

# The chosen strategies are written where the key says, as msc compile does.
AUTO = dict(libraries=BUILD, device_num=2, parallel_mode="auto_parallel")
msc.compile("net.fbs", **AUTO, strategy_ckpt_save_file="chosen.json")
expect("compile net.fbs -o c.bin --set device_num=2 --set parallel_mode=auto_parallel "
       "--set variable_lr=true --set strategy_ckpt_save_file=told.json", 0, None)
expect.check("strategies in a file", open("chosen.json").read() == open("told.json").read())
refuses(lambda: msc.compile("net.fbs", **AUTO, strategy_ckpt_save_file="none/chosen.json"), msc.CompileError,
        "none/chosen.json: No such file or directory")
with plan.run() as job:
    name = next(iter(plan.outputs["forward"]))
    for words, call in (("the inputs have no samples", lambda: job.predict(name, x=bytes(0))),
                        ("optimizer.lr = nan: no finite number", lambda: job.set("optimizer.lr", math.nan))):
        try:
            said = repr(call())
        except msc.Error as e:
            said = str(e)
        expect.check(f"{words}: {said}", words in said)

# The help's example is what it says.
import inspect  # noqa: E402

lines = [line[4:] for line in inspect.getdoc(msc).splitlines() if line.startswith("    ")]
write(
    "example.py", "images = [[0.5] * 784] * 32\nbatches = [(images, [3] * 32)] * 2\nnew_images = images[:5]\n" +
    "\n".join(lines).replace(".numpy()", "") + "\nassert scores.shape == (5, 10), scores\n")
done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True)
expect.check(f"example: {done.stderr}", done.returncode == 0 and os.path.exists("trained.safetensors"))
expect.done()
