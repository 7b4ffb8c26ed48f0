#!/usr/bin/env python3
"""Plans with the key elastic: ranks are killed and the others go on as fewer, more are started and they go on as more,
spares take places. From each change on every loss is that of a fresh run of the new number of ranks from a checkpoint
of that step. Also: state that no rank has any more, a stopped rank, what is refused."""
import json
import os
import random
import signal
import subprocess

import resized
from expect import MSC, Expect, write
from resized import RUN, Run, children, losses
from small_models import two_products, write_samples

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
SLOW = bool(os.environ.get("MSC_TEST_SLOW"))
rng = random.Random(int(os.environ.get("MSC_TEST_SEED", "1")))
MODEL = two_products(batch=12, hidden=600, init=0.03, lr=1e-3)
write("net.mlir", MODEL)
write_samples(60)
DP = "--set parallel_mode=data_parallel --set elastic=true"
ZERO = "--set zero=1 --set parallel_optimizer_config={\"parallel_optimizer_threshold\":0}"
PLANS = {"dp4": (4, [2, 1], f"--set device_num=4 {DP}"),
         "dp6": (6, [3, 2, 1], f"--set device_num=6 {DP} --set gradients_mean=true"),
         "zero": (4, [2, 1], f"--set device_num=4 {DP} {ZERO}"),
         "away": (4, [2, 1], f"--set device_num=4 {DP} --set offload={{\"param\":\"cpu\"}}"),
         "pipe": (4, [2], f"--set device_num=4 {DP} --set pipeline_stages=2 --set micro_size=2"),
         "mesh": (4, [2], "--set mesh={\"dp\":2,\"tp\":2} --set parallel_mode=auto_parallel --set elastic=true")}
for name, (ranks, smaller, keys) in PLANS.items():
    said = expect(f"compile net.mlir -o {name}.bin --json {keys}", 0, None).stdout.decode()
    expect.check(f"{name}: plans for {json.loads(said).get('smaller')}", json.loads(said).get("smaller") == smaller)
expect(f"compile net.mlir -o plain.bin --set device_num=2 --set parallel_mode=data_parallel", 0, None)


def check(*words):
    resized.check(expect, *words)


STEPS = 3000
slowest = 0.0
for comm in ("local", "tcp"):
    run = Run("dp4", STEPS, f"--comm {comm}")
    run.read_lines(20)
    slowest = max(slowest, run.kill(rng.randrange(4)))
    run.read_lines(300)
    slowest = max(slowest, run.kill(0))  # of two ranks and one that waits
    run.read_lines(500)
    slowest = max(slowest, run.kill(1))
    run.read_lines(700)
    run.more()
    check(f"shrinks and grows, {comm}", run, 4, [2, 2, 1, 4])

run = Run("dp6", STEPS)
run.read_lines(20)
run.kill(0)
run.read_lines(200)
run.kill(1, 2, 3)
run.read_lines(400)
run.more()
run.read_lines(500)
run.kill(5)
check("six ranks", run, 6, [3, 2, 6, 3])

for plan in ("pipe", "mesh"):
    for lost in range(4):
        run = Run(plan, STEPS)
        run.read_lines(20)
        run.kill(lost)
        run.read_lines(200)
        run.more()
        check(f"{plan}, rank {lost}", run, 4, [2, 4])

# Who asks for more ranks until a run has ended does not end it.
for i in range(5):
    run = Run("dp4", 20)
    run.read_lines(1)
    while run.process.poll() is None:
        run.process.send_signal(signal.SIGUSR2)
    expect.check(f"asked to the end: {run.process.returncode}", run.end()[0] == 0)

# Spares take places, and all the others go on as before.
run = Run("dp4", STEPS, "--spares 2")
for point in (20, 300):
    run.read_lines(point)
    run.kill(2)
run.read_lines(500)
run.kill(0)
check("spares", run, 4, [4, 4, 2])
run = Run("dp4", STEPS, "--replace 1")
run.read_lines(20)
run.kill(1)
run.read_lines(300)
run.kill(0)
check("replaced, then fewer", run, 4, [4, 2])

# What lives in host memory goes to new ranks, too, and to those that are fewer or more.
run = Run("away", STEPS, "--replace 1")
run.read_lines(20)
run.kill(1)
run.read_lines(300)
run.kill(0)
run.read_lines(500)
run.more()
check("parameters in host memory", run, 4, [4, 2, 4])
totals = json.loads(run.out.splitlines()[-1])
expect.check(f"parameters in host memory: {totals}", totals["host_bytes"] > 30000)

# Changes at random points, while others are under way.
run = Run("dp4", 20000 if not SLOW else 200000)
run.read_lines(1)
for i in range(12 if not SLOW else 300):
    run.read_until(lambda: False, rng.random() * 0.2)
    if run.process.poll() is None and len(living := children(run.process.pid)) > 1 and rng.random() < 0.7:
        os.kill(rng.choice(living), signal.SIGKILL)
    elif run.process.poll() is None:
        run.process.send_signal(signal.SIGUSR2)
code, out = run.end()
got = losses(out)
expect.check(f"at random: {code} {len(got)}: {run.said}", code == 0 and len(got) == run.steps)
print(
    f"at random: {len(run.changes)} changes of the number of ranks; of a kill until the others go on at most "
    f"{slowest:.2f} s")

# The optimizer's state of a rank is on it alone: all go back to the newest checkpoint.
run = Run("zero", 1500, "--ckpt-dir kept --ckpt-every 7")
run.read_lines(100)
run.kill(1)
code, out = run.end()
steps = [json.loads(line)["step"] for line in out.splitlines() if '"step"' in line]
back = [a + 1 - b for a, b in zip(steps, steps[1:]) if b != a + 1]
expect.check(f"state on one rank: {code} back {back} {run.said}", code == 0 and len(back) == 1 and 0 < back[0] <= 15 and
             steps[-1] == 1500 and "nobody has all parts of a later state" in run.said)
# A zero plan grows without a loss: those that are left have all.
run = Run("zero", 1500, "-n 2")
check("the optimizer's state is cut", run, 2, [])

# A rank that is stopped is ended.
run = Run("dp4", STEPS, "--timeout 2")
run.read_lines(20)
run.kill(1, by=signal.SIGSTOP)
check("stopped", run, 4, [2])

# SIGTERM ends all, spares too, after a checkpoint.
run = Run("dp4", 1000000, "--ckpt-dir ended --spares 1")
run.read_lines(20)
run.kill(3)
run.kill(3)
run.process.terminate()
code, out = run.end()
expect.check(f"SIGTERM: {code} {run.said} {os.listdir('ended')}",
             code == 143 and any(f.startswith("step") for f in os.listdir("ended")))

# Nobody is left; what is refused.
run = Run("dp4", 1000000)
run.read_lines(20)
for pid in children(run.process.pid):
    os.kill(pid, signal.SIGKILL)
code, out = run.end()
expect.check(f"all are lost: {code} {run.said}", code == 3 and "was ended by signal 9" in run.said)
for text, said in {
        "run plain.bin --spares 1 "
        + RUN: "--spares: they need a plan of several ranks that was compiled with --set elastic=true",
        "run dp4.bin --spares 65 " + RUN: "--spares is 0 to 64",
        "run dp4.bin --trace t.json " + RUN: "--trace is for one number of ranks, and the plan is elastic",
        "run dp4.bin -n 3 " + RUN: "the plan is for 4 ranks, not for 3",
        "compile net.mlir -o no.bin --set elastic=true": "elastic says nothing without several devices",
        "compile net.mlir -o no.bin --set elastic=true --set parallel_mode=auto_parallel --set mesh={\"tp\":2}":
            "elastic says nothing without several devices, and an axis dp if there is a mesh",
        f"compile net.mlir -o no.bin --set device_num=2 {DP} --set offload={{\"param\":\"disk\"}} --set "
        "offload_path=.": "elastic: not supported yet with offload",
        "compile net.mlir -o no.bin --set device_num=2 --set elastic=true --set parallel_mode=hybrid_parallel":
        "elastic contradicts",
        f"compile net.mlir -o no.bin --set device_num=2 {DP} --target cuda": "elastic: not supported yet with the "
                                                                             "target cuda",
}.items():
    done = subprocess.run([MSC, *text.split()], capture_output=True, text=True)
    expect.check(f"{text}: {done.returncode} {done.stderr}", done.returncode in (1, 2) and said in done.stderr)

expect.done()
