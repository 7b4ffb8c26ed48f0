#!/usr/bin/env python3
"""msc run --replace: ranks are killed at random points (with MSC_TEST_SLOW: 20 points, 25 runs each), one, several and
all but one at once, in shared memory and over TCP; a new process takes the place of each, the others stay, and every
loss is that of a run that nobody disturbed. Also: state that no other rank has, more losses than places, another
plan."""
import fcntl
import json
import os
import random
import select
import signal
import socket
import subprocess
import time

from expect import MSC, Expect, write
from paced import Paced
from small_models import two_products, write_samples

os.environ["XDG_CACHE_HOME"] = "/dev/null"
for name in list(os.environ):
    if name.startswith(("MSC_R", "MSC_A", "MSC_T", "OMPI", "PMI", "SLURM", "RANK", "WORLD_SIZE", "MASTER")) and \
            name not in ("MSC_TEST_SLOW", "MSC_TEST_SEED"):
        del os.environ[name]
expect = Expect()
SLOW = bool(os.environ.get("MSC_TEST_SLOW"))
rng = random.Random(int(os.environ.get("MSC_TEST_SEED", "1")))
MODEL = two_products(batch=12, hidden=600, init=0.03, lr=1e-3)
write("net.mlir", MODEL)
write_samples(60)
RUN = "--trust-native --data x=x.idx y=y.idx --seed 5 --json --threads 1 --timeout 30"
DP = "--set parallel_mode=data_parallel"
ZERO = "--set zero=1 --set parallel_optimizer_config={\"parallel_optimizer_threshold\":0}"
for name, keys in {"one": "", "dp3": f"--set device_num=3 {DP}", "dp2": f"--set device_num=2 {DP}",
                   "dp2b": f"--set device_num=2 {DP} --set gradients_mean=true",
                   "pipe": f"--set device_num=4 {DP} --set pipeline_stages=2 --set micro_size=2",
                   "zero": f"--set device_num=2 {DP} {ZERO}"}.items():
    expect(f"compile net.mlir -o {name}.bin {keys}", 0, None)


def losses(text):
    """The loss of every step; a step that the lost rank 0 and the new one have both printed counts once."""
    said = [(line["step"], line["loss"]) for line in map(json.loads, text.splitlines()) if "step" in line]
    return [one for one, before in zip(said, [None, *said]) if one != before]


straight = {}


def undisturbed(plan, steps):
    if plan not in straight:
        straight[plan] = losses(expect(f"run {plan}.bin {RUN} --steps {steps}", 0, "").stdout.decode())
    return straight[plan][:steps]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def rest_of(run):
    """stdout and stderr up to their ends; communicate() would lose what readline() has read ahead. stderr is short."""
    rest = run.stdout.read(), run.stderr.read()
    run.wait(60)
    return rest


def drill(plan, comm, steps, points, at_once=1, more=""):
    """Kills ranks of one run after each number of steps in `points`; the lines of stdout and stderr, exit code."""
    run = Paced([MSC, "run", f"{plan}.bin", *RUN.split(), "--steps", str(steps), "--comm", comm, "--replace",
                 str(len(points) * at_once), *more.split()])
    slowest = 0.0
    for point in sorted(points):
        if not run.read_lines(point):
            break
        while len(ranks := children(run.process.pid)) < at_once and run.process.poll() is None:
            time.sleep(0.0005)  # those that replace others have not begun
        begun, met = time.monotonic(), run.said.count("replaced, ")
        for pid in rng.sample(ranks, at_once):
            os.kill(pid, signal.SIGKILL)
        if not run.read_until(lambda: run.said.count("replaced, ") > met):
            break
        slowest = max(slowest, time.monotonic() - begun)
    code = run.end()
    return run.out, run.said, code, slowest


def same(name, plan, comm, steps, points, at_once=1, more=""):
    out, err, code, slowest = drill(plan, comm, steps, points, at_once, more)
    got, wanted = losses(out), undisturbed(plan, steps)
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    expect.check(
        f"{name}: exit code {code}, {len(got)} steps of {len(wanted)}, different from {got[at:at + 2]} on, not "
                 f"{wanted[at:at + 2]}: {err}", code == 0 and got == wanted)
    expect.check(f"{name}: {err}", err.count("takes its place") == at_once * len(points)
                 and "came from other ranks" in err)
    return slowest


STEPS, LATEST = 2500, 500  # a run is not at its end before all are killed
runs, points = (25, 20) if SLOW else (1, 4)
for comm in ("local", "tcp"):
    worst = [same(f"{comm}, run {i}", "dp3", comm, STEPS, rng.sample(range(1, LATEST), points)) for i in range(runs)]
    two = [same(f"{comm}, two of three at once", "dp3", comm, STEPS, rng.sample(range(1, LATEST), 2), 2)
           for i in range(runs)]
    print(
        f"{comm}: {runs * points} ranks killed one by one, {4 * runs} two at once: all losses are those of an "
        f"undisturbed "
          f"run; from a kill until they have met again at most {max(worst):.2f} and {max(two):.2f} s")

# A rank that has just taken a place is lost, before the others have seen much of it.
same("again at once", "dp3", "local", STEPS, [5] * 6)

same("a pipeline of two stages", "pipe", "local", STEPS, rng.sample(range(1, LATEST), 3))
same("a pipeline of two stages, tcp", "pipe", "tcp", STEPS, rng.sample(range(1, LATEST), 3))

# The optimizer's state of a rank is on it alone: all go back to the newest checkpoint, or to the start.
for more, back in (("--ckpt-dir kept --ckpt-every 7", 7), ("", 2000)):
    out, err, code, _ = drill("zero", "local", 2000, [50], 1, more)
    got, wanted = losses(out), dict(undisturbed("zero", 2000))
    steps = [step for step, _ in got]
    expect.check(f"state on one rank {more}: {code} {err}",
                 code == 0 and all(wanted[step] == loss for step, loss in got))
    falls = [a + 1 - b for a, b in zip(steps, steps[1:]) if b != a + 1]
    expect.check(f"state on one rank {more}: back {falls}", steps[-1] == 2000
                 and len(falls) <= 1 and sum(falls) <= 2 * back)
    expect.check(f"state on one rank {more}: {err}",
                 f"all go back to the {'newest checkpoint' if more else 'start'}" in err and
                 "warning: nobody else holds the part of w.m that rank 0 has" in err)
    expect.check(f"state on one rank {more}: {err}", "of whose state nobody else has all parts" in err)

# A rank that is stopped does not answer: it is ended, and replaced.
for comm in ("local", "tcp"):
    run = subprocess.Popen([MSC, "run", "dp3.bin", *RUN.replace("--timeout 30", "--timeout 2").split(),
                            "--steps", "2500", "--comm",
                            comm, "--replace", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = [run.stdout.readline() for _ in range(20)]
    begun = time.monotonic()
    os.kill(children(run.pid)[1], signal.SIGSTOP)
    out, err = rest_of(run)
    expect.check(f"stopped, {comm}: {run.returncode} {err}", run.returncode == 0 and "takes its place" in err and
                 losses("".join(first) + out) == undisturbed("dp3", 2500))
    print(f"{comm}: a rank was stopped with a limit of 2 s, {time.monotonic() - begun:.2f} s later all was done")

# So does msc launch with a process of its; one that goes on in time stays.
for stopped, goes_on in ((0, False), (2, False), (1, True)):
    run = subprocess.Popen([MSC, "launch", "-n", "3", "--replace", "1", "--", MSC, "run", "dp3.bin",
                            *RUN.replace("--timeout 30", "--timeout 2").split(), "--steps", "2500"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = [run.stdout.readline() for _ in range(100)]
    pid = children(run.pid)[stopped]
    os.kill(pid, signal.SIGSTOP)
    if goes_on:
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)
    out, err = rest_of(run)
    got = losses("".join(line[4:] for line in (first + out.splitlines(True)) if line.endswith("}\n")))
    wanted, what = undisturbed("dp3", 2500), f"msc launch, rank {stopped} stopped, {goes_on}: {run.returncode} {err}"
    expect.check(what, run.returncode == 0 and ("takes its place" in err) is not goes_on)
    expect.check(what, goes_on or f"rank {stopped} was stopped by a signal for 2 seconds; it is killed" in err)
    missed = {step for step, _ in wanted} - {step for step, _ in got}
    expect.check(f"{what}: losses, {missed}", len(missed) <= (not goes_on) and set(got) <= set(wanted))

# Processes of msc launch: the losses that rank 0, whoever it was, printed.
for killed in (0, 2):
    run = subprocess.Popen([MSC, "launch", "-n", "3", "--replace", "1", "--", MSC, "run", "dp3.bin",
                            *RUN.split(), "--steps", "2500",
                            "--ckpt-dir", f"launched-{killed}", "--ckpt-every", "500"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    first = [run.stdout.readline() for _ in range(700)]
    os.kill(children(run.pid)[killed], signal.SIGKILL)
    out, err = rest_of(run)
    got = dict(losses("".join(line[4:] for line in (first + out.splitlines(True)) if line.endswith("}\n"))))
    wanted = undisturbed("dp3", 2500)
    expect.check(f"msc launch, rank {killed}: {run.returncode} {err}", run.returncode == 0
                 and "takes its place" in err and
                 "came from other ranks" in err)
    expect.check(f"msc launch, rank {killed}: losses", len(got) >= 2499 and all(got.get(k, v) == v for k, v in wanted))

# A scheduler of its own leads the job on.
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


def with_role(role, number=None):
    env = {**os.environ, "MS_ROLE": role, "MS_SCHED_HOST": "127.0.0.1",
           "MS_SCHED_PORT": str(port), "MS_WORKER_NUM": "3"}
    if number is not None:
        env["MS_NODE_ID"] = str(number)
    return subprocess.Popen([MSC, "run", "dp3.bin", *RUN.split(), "--steps", "2500", "--replace", "1"],
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=env)


leader, ranks = with_role("MS_SCHED"), [with_role("MS_WORKER", r) for r in range(3)]
first = [ranks[0].stdout.readline() for _ in range(20)]
ranks[1].kill()
ranks.append(with_role("MS_WORKER", 1))
out, err = rest_of(ranks[0])
ended = [p.wait(60) for p in (leader, ranks[0], ranks[2], ranks[3])]
expect.check(f"led by a scheduler: {ended} {err} {leader.stderr.read()}", ended == [0] * 4
             and "came from other ranks" in err and
             losses("".join(first) + out) == undisturbed("dp3", 2500))
for p in [leader, *ranks[1:]]:
    p.communicate()



# Ranks that exchange nothing are a step ahead of rank 0, which is lost: what it did not print the next one prints.
WHOLE = {"w": "[1, 1], [1, 1]", "v": "[1, 1], [1, 1]", "y": "[1, 1], [1]"}  # by the last operand of each op
free = two_products(batch=12, hidden=600, dropout=False, init=0.03, lr=1e-3)
for operand, parts in WHOLE.items():
    free = free.replace(f"%{operand}) : (", f"%{operand}) {{in_strategy = [{parts}]}} : (", 1)
write("free.mlir", free)
expect("compile free.mlir -o free.bin --set device_num=2 --set parallel_mode=semi_auto_parallel", 0, None)
run = subprocess.Popen([MSC, "run", "free.bin", *RUN.split(), "--steps", "300", "--replace", "1"],
                       stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
fcntl.fcntl(run.stdout.fileno(), fcntl.F_SETPIPE_SZ, 4096)  # rank 0 cannot print on, as nobody reads
select.select([run.stdout], [], [])
time.sleep(0.5)  # until the other is ahead
os.kill(children(run.pid)[0], signal.SIGKILL)
out, err = rest_of(run)
got = losses(out)
expect.check(f"far ahead: {run.returncode} {err}", run.returncode == 0 and "came from other ranks" in err)
expect.check(f"far ahead: {got}", got == undisturbed("free", 300))

# Ranks are lost when all have done their work and the others have left: it is said at once.
for lost in (0, 1):
    part = f"t.json.{lost}.part"
    os.mkfifo(part)  # which nobody reads: the rank cannot write its part of the timeline
    run = subprocess.Popen([MSC, "run", "dp2.bin", *RUN.split(), "--steps", "50",
                            "--replace", "1", "--trace", "t.json"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out = [run.stdout.readline() for _ in range(51)]
    while len(ranks := children(run.pid)) > 1:
        time.sleep(0.01)
    begun = time.monotonic()
    os.unlink(part)
    os.kill(ranks[0], signal.SIGKILL)
    err = rest_of(run)[1]
    expect.check(f"at the end, rank {lost}: {run.returncode} {err}", run.returncode == (1 - lost) * 3)
    expect.check(f"at the end, rank {lost}: {err}", ("rank 0 was lost when all work was done" in err) == (lost == 0))
    expect.check(f"at the end, rank {lost}: it takes long", time.monotonic() - begun < 10)
    expect.check(f"at the end, rank {lost}: {os.listdir()}", not any(f.endswith(".part") for f in os.listdir()))

# More ranks are lost than may be replaced.
run = Paced([MSC, "run", "dp3.bin", *RUN.split(), "--steps", "1000000", "--replace", "1"])
for lines in (20, 500):
    run.read_lines(lines)
    os.kill(children(run.process.pid)[2], signal.SIGKILL)
code = run.end()
expect.check(f"more are lost: {code} {run.said}", code == 3 and "came from" in run.said
             and "was ended by signal 9" in run.said)


# A process with another plan takes no place; the right one does, and the others have waited.
def rank_of(plan, rank, address, comm, steps):
    env = {**os.environ, "MSC_RANK": str(rank), "MSC_RANKS": "2", "MSC_ADDRESS": address}
    return subprocess.Popen([MSC, "run", f"{plan}.bin", *RUN.split(), "--steps", str(steps),
                             "--replace", "2", "--comm", comm],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


for comm in ("local", "tcp"):
    address = f"@msc-test-{os.getpid()}-{comm}"
    zero, lost = (rank_of("dp2", r, address, comm, 4000) for r in (0, 1))
    first = [zero.stdout.readline() for _ in range(20)]
    lost.kill()
    other = rank_of("dp2b", 1, address, comm, 4000)
    said = other.communicate(timeout=60)[1]
    expect.check(f"another plan, {comm}: {other.returncode} {said}", other.returncode == 1 and
                 "rank 1 has another plan than rank 0" in said)
    right = rank_of("dp2", 1, address, comm, 4000)
    out, err = rest_of(zero)
    right.communicate(timeout=60)
    lost.communicate(timeout=60)
    expect.check(f"the right plan, {comm}: {zero.returncode} {right.returncode} {err}", zero.returncode == 0 and
                 right.returncode == 0 and losses("".join(first) + out) == undisturbed("dp2", 4000))

expect.done()
