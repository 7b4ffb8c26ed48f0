#!/usr/bin/env python3
"""Several plans with the same parameters: what one trains, the others see, without a copy; losses and weights are those
of jobs that hand their checkpoints on.  And calls that are cancelled: compilations, by Ctrl-C, and steps."""
import array
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

from expect import MSC, Expect, need_library, write

need_library()

import msc  # noqa: E402
from msc.native import RunError  # noqa: E402

ROOT, BUILD = os.getcwd(), os.path.dirname(MSC)
os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
warnings.simplefilter("ignore", msc.CompileWarning)  # a plan that does not train
FEATURES, CLASSES, HIDDEN = 6, 4, 10


def network(batch, train=True, hidden=HIDDEN, names=("first", "second"), dropout=0.0, cut=False):
    """cut: over two ranks the weights are."""
    g = msc.Graph("net")
    x, y = g.input("x", "f32", [batch, FEATURES]), g.input("y", "i32", [batch], role="label")
    columns, rows = ({"in_strategy": s} for s in ([[1, 1], [1, 2]], [[1, 2], [2, 1]])) if cut else ({}, {})
    h = g.relu(g.dense(x, hidden, name=names[0], **columns))
    logits = g.dense(g.dropout(h, dropout) if dropout else h, CLASSES, name=names[1], **rows)
    g.output("logits", logits)
    g.loss(g.softmax_cross_entropy(logits, y))
    if train:
        g.optimizer("adam", lr=0.01)
    return g


rng = random.Random(5)


def samples(num):
    return {
        "x": array.array("f", [rng.uniform(-1, 1) for _ in range(num * FEATURES)]),
        "y": array.array("i", [rng.randrange(CLASSES) for _ in range(num)])
    }


def refuses(call, kind, text):
    try:
        call()
    except kind as e:
        expect.check(f"wanted: {text}\ngot: {e}", text in str(e))
    else:
        expect.check(f"no error: {text}", False)


def state(job):
    return {name: bytes(job.read(name).memory) for name in job.plan.parameters}


# ---- training by turns, with batches of two sizes ----

batches = [samples(8) if i % 2 else samples(16) for i in range(8)]
new = samples(32)["x"]
for ranks, dropout, cut in ((1, 0.0, False), (1, 0.25, False), (2, 0.0, False), (2, 0.0, True)):
    mode = "semi_auto_parallel" if cut else "data_parallel"
    keys = {"device_num": ranks, "parallel_mode": mode} if ranks > 1 else {}
    of = f"on {ranks} ranks{', with dropout' if dropout else ''}{', weights cut' if cut else ''}: "
    large, small = (msc.compile(network(n, dropout=dropout, cut=cut), libraries=BUILD, **keys) for n in (16, 8))
    answers = msc.compile(network(32, train=False, cut=cut), libraries=BUILD, **keys)
    losses, own, others = [], {}, []
    with large.run(seed=3) as job:
        with small.run(seed=77, parameters_of=job) as less, answers.run(parameters_of=job) as predicting:
            for i, batch in enumerate(batches):
                losses.append((less if i % 2 else job).step(**batch))
            expect.check(f"{of}both plans say the same of all values", state(less) == state(job))
            logits = predicting.predict("logits", x=new)
            expect.check(f"{of}a plan that only predicts has them too",
                         bytes(logits.memory) == bytes(job.predict("logits", x=new).memory))
            less.set("optimizer.lr", 0.5)
            expect.check(f"{of}a number that is set is set in all", abs(job.lr - 0.5) < 1e-6)
            less.set("optimizer.lr", 0.01)
            predicting.checkpoint(f"of_all_{ranks}")
        own = state(job)
        job.checkpoint("last")
    # the same by checkpoints, from plan to plan
    for i, batch in enumerate(batches):
        with (small if i % 2 else large).run(seed=3) as job:
            if i:
                job.resume("handed_on")
            others.append(job.step(**batch))
            job.checkpoint("handed_on")
            handed = state(job)
    expect.check(f"{of}losses {losses} and {others}", losses == others)
    expect.check(f"{of}weights and state", handed == own)
    done = subprocess.run([MSC, "ckpt", "diff", "handed_on", "last"], capture_output=True, text=True)
    expect.check(f"{of}{done.stdout}{done.stderr}", done.returncode == 0)

# ---- memory: what is shared is there once ----

wide = [msc.compile(network(n, hidden=1 << 19), libraries=BUILD) for n in (1, 2)]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(**options):
    before = resident()
    with wide[1].run(threads=1, **options) as other:
        other.step(**samples(2))
        return resident() - before


with wide[0].run(threads=1) as job:
    job.step(**samples(1))
    values = sum(len(v) for v in state(job).values())
    growth()
    alone, shared = growth(), growth(parameters_of=job)
    expect.check(f"{shared} bytes more, {alone} without sharing {values} of parameters and state",
                 abs(alone - shared - values) < 0.1 * values)

# ---- what is refused ----

plan, other = (msc.compile(network(n), libraries=BUILD) for n in (8, 4))
with plan.run() as job:
    refuses(lambda: msc.compile(network(8, names=("first", "last")), libraries=BUILD).run(parameters_of=job), RunError,
            "the other plan has no parameter 'last.weight' that this one could have")
    refuses(lambda: msc.compile(network(8, hidden=12), libraries=BUILD).run(parameters_of=job), RunError,
            "is cut or typed otherwise than in the plan whose parameters this one is to have")
    refuses(lambda: msc.compile(network(8), libraries=BUILD, device_num=2, parallel_mode="data_parallel").run(
        parameters_of=job), msc.Error, "a job of 2 ranks cannot have the parameters of one of 1")
    sharing = other.run(parameters_of=job)
refuses(lambda: sharing.step(**samples(4)), msc.Error, "this job is closed")
refuses(lambda: other.run(parameters_of=job), msc.Error, "this job is closed")

# ---- cancelled ----

with plan.run() as job:
    batch = samples(8)
    job.cancel()
    refuses(lambda: job.step(**batch), RunError, "cancelled after 0 steps of training")
    job.step(**batch)
    threading.Timer(0.05, job.cancel).start()

    def train():
        while True:
            job.step(**batch)

    refuses(train, RunError, "cancelled after ")
    expect.check("it goes on", job.step(**batch) > 0)
two = msc.compile(network(8), libraries=BUILD, device_num=2, parallel_mode="data_parallel")
with two.run() as job:
    job.step(**batch)
    threading.Timer(0.05, job.cancel).start()
    refuses(train, RunError, "cancelled after ")

write(
    "deep.py", f"""import msc
g = msc.Graph("deep")
x, y = g.input("x", "f32", [64, 64]), g.input("y", "f32", [64, 64], role="label")
h = x
for i in range(1500):
    h = g.relu(g.dense(h, 64, name=f"dense{{i}}"))
g.loss(g.reduce_mean(g.mul(h - y, h - y), [0, 1]))
g.optimizer("adam", lr=0.01)
g.save("deep.fbs")
print("begun", flush=True)
msc.compile("deep.fbs", libraries={BUILD!r}, device_num=64, parallel_mode="auto_parallel")
print("done", flush=True)
""")


def seconds_of_children():
    """CPU time of those that have ended: others may have the cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


begin = seconds_of_children()
subprocess.run([sys.executable, "deep.py"], check=True, capture_output=True)
whole = seconds_of_children() - begin
run = subprocess.Popen([sys.executable, "deep.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert run.stdout.readline() == "begun\n", run.stderr.read()
time.sleep(0.2)
begin = seconds_of_children()
run.send_signal(signal.SIGINT)
out, err = run.communicate()
took = seconds_of_children() - begin
expect.check(f"Ctrl-C ends a compilation: after {took} s of {whole} s, {out}{err}",
             "KeyboardInterrupt" in err and not out and took < 0.7 * whole)
print(f"a compilation of {whole:.1f} s of CPU time was ended after {took:.1f} s")
expect.done()
