#!/usr/bin/env python3
"""Ranks as processes: msc.spawn, and those that torchrun started: the losses of threads, errors of one rank, interrupts
that leave no process behind."""
import os
import signal
import subprocess
import sys
import time

from expect import MSC, Expect, write, need_library

need_library()
BUILD = os.path.dirname(MSC)
os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()

write(
    "work.py", f"""import os, sys, time
import msc

def plan(ranks, **keys):
    g = msc.Graph("net")
    x, y = g.input("x", "f32", [8, 6]), g.input("y", "i32", [8], role="label")
    logits = g.dense(g.relu(g.dense(x, 5, name="first")), 4, name="second")
    g.output("logits", logits)
    g.loss(g.softmax_cross_entropy(logits, y))
    g.optimizer("adam", lr=0.01)
    mode = dict(parallel_mode="data_parallel", gradients_mean=True) if ranks > 1 else dict()
    return msc.compile(g, libraries={BUILD!r}, device_num=ranks, **mode, **keys)

X = [[((i * 37 + j * 11) % 101) / 50 - 1 for j in range(6)] for i in range(8)]
Y = [i * 7 % 4 for i in range(8)]

def train(job, steps):
    losses = [job.step(x=X, y=Y) for _ in range(steps)]
    return losses, job.predict("logits", x=X).tolist(), os.getpid()

def fails(job, rank):
    job.step(x=X, y=Y)
    if list(job._contexts) == [rank]:
        raise ValueError(f"rank {{rank}} of the user")
    for _ in range(10):
        job.step(x=X, y=Y)

def bad_label(job):
    job.step(x=X, y=[9] * 8)

def dies(job):
    if list(job._contexts) == [1]:
        os._exit(7)
    job.step(x=X, y=Y)

def unsendable(job):
    return lambda: 0

def endless(job):
    job.step(x=X, y=Y)
    open(f"pid{{os.getpid()}}", "w").close()
    while True:
        job.step(x=X, y=Y)
""")
write(
    "main.py", """import os, time
import msc, work

def says(act, kind, text):
    try:
        act()
    except kind as e:
        assert text in str(e), f"'{text}' is not in {e}"
    else:
        raise AssertionError(f"nothing says {text}")

if __name__ == "__main__":
    for ranks in (1, 2, 3):
        plan = work.plan(ranks)
        with plan.run(seed=5) as job:
            losses, logits, _ = work.train(job, 3)
        told = msc.spawn(plan, work.train, 3, seed=5, threads=1)
        assert [t[0] for t in told] == [losses] * ranks, (told, losses)
        assert all(t[1] == logits for t in told)
        assert len({t[2] for t in told} | {os.getpid()}) == ranks + 1
    plan = work.plan(2)
    begin = time.monotonic()
    says(lambda: msc.spawn(plan, work.fails, 1, timeout=5), ValueError, "rank 1 of the user")
    says(lambda: msc.spawn(plan, work.bad_label), msc.RunError, "an index is out of range")
    says(lambda: msc.spawn(plan, work.dies, timeout=5), msc.Error, "rank")
    says(lambda: msc.spawn(plan, work.unsendable), msc.Error, "cannot be sent")
    assert time.monotonic() - begin < 60
    for rank, address, text in ((None, None, None), (0, None, "need an address to meet at"), (7, "@here", "rank 7 of 2"),
                                ("torchrun", None, "was not started by torchrun: RANK, WORLD_SIZE")):
        if text:
            says(lambda: plan.run(rank=rank, address=address), (msc.Error, msc.RunError), text)
    print("done")
""")
write(
    "joined.py", """import work
plan = work.plan(2)
with plan.run(rank="torchrun", seed=5) as job:
    first = work.train(job, 3)[0]
with plan.run(rank="torchrun", seed=5) as job:
    assert work.train(job, 3)[0] == first
print(first)
""")
write("interrupted.py", """import msc, work
if __name__ == "__main__":
    msc.spawn(work.plan(2), work.endless)
""")


def run(*words, **env):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, **env})


done = run("main.py")
expect.check(f"spawned: {done.stderr}", done.stdout == "done\n" and done.returncode == 0)

# Two processes as torchrun starts them; a number of processes that the plan is not for, and others elsewhere.
words = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(os.getpid())}
ranks = [
    subprocess.Popen([sys.executable, "joined.py"],
                     stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE,
                     text=True,
                     env={**os.environ, **words, "RANK": str(i)}) for i in range(2)
]
told = [r.communicate(timeout=120) for r in ranks]
expect.check(f"joined: {told}", told[0][0] == told[1][0] != "" and all(r.returncode == 0 for r in ranks))
for changed, text in (({"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"},
                       "the plan is for 2 ranks, torchrun has 3 processes"),
                      ({"LOCAL_WORLD_SIZE": "1"}, "torchrun has 2 processes on several hosts, 1 on this one")):
    done = run("joined.py", **{**words, "RANK": "0", **changed})
    expect.check(f"{text}: {done.stderr}", text in done.stderr and done.returncode)

# An interrupt, as of Ctrl-C to the parent alone.
parent = subprocess.Popen([sys.executable, "interrupted.py"], stderr=subprocess.PIPE, text=True)
deadline = time.monotonic() + 120
while sum(n.startswith("pid") for n in os.listdir(".")) < 2 and time.monotonic() < deadline and parent.poll() is None:
    time.sleep(0.05)
children = [int(n[3:]) for n in os.listdir(".") if n.startswith("pid")]
parent.send_signal(signal.SIGINT)
said = parent.communicate(timeout=60)[1]
expect.check(f"interrupted: {said}", len(children) == 2 and "KeyboardInterrupt" in said and parent.returncode != 0)
expect.check("no process is left", not [c for c in children if os.path.exists(f"/proc/{c}")])
expect.done()
