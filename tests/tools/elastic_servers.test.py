#!/usr/bin/env python3
"""elastic_servers: workers of parameter servers are killed, replaced and added while servers keep what they have; from
each change on every loss is that of a fresh run without servers of as many ranks, from a checkpoint of that step. Also:
a rank that comes late, workers of a plan for one number of ranks that are replaced, state that only lost workers had a
part of, servers that have a copy, a server that is killed, and what is refused."""
import json
import os
import random
import re
import signal
import subprocess
import time

import resized
from expect import MSC, Expect, write
from paced import Paced
from resized import RUN, Run, losses
from small_models import two_products, write_samples

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
rng = random.Random(int(os.environ.get("MSC_TEST_SEED", "1")))
write("net.mlir", two_products(batch=12, hidden=60, init=0.03, lr=1e-3))
write_samples(60)
DP = "--set parallel_mode=data_parallel"
SYNC = {"mode": "sync"}
TWICE = {"mode": "sync", "replication": 2}
PLANS = {"four": (4, [2], f"{DP} --set elastic=true", SYNC),
         "six": (6, [3, 2], f"{DP} --set elastic=true --set gradients_mean=true", SYNC),
         "pipe": (8, [4], f"{DP} --set elastic=true --set pipeline_stages=2 --set micro_size=2", SYNC),
         "copied": (4, [2], f"{DP} --set elastic=true", TWICE),
         "even": (4, [2], f"{DP} --set elastic=true --set gradients_mean=true", SYNC),
         "three": (3, None, DP, SYNC)}


def compile(plan):
    ranks, smaller, keys, servers = PLANS[plan]
    expect(f"compile net.mlir -o {plan}-alone.bin --set device_num={ranks} {keys}", 0, None)
    said = expect(f"compile net.mlir -o {plan}.bin --json --set device_num={ranks} {keys} --set parameter_server="
                  + json.dumps(servers, separators=(",", ":")), 0, None).stdout.decode()
    expect.check(f"{plan}: plans for {json.loads(said).get('smaller')}", json.loads(said).get("smaller") == smaller)


def check(name, plan, run, wanted):
    resized.check(expect, name, run, PLANS[plan][0], wanted)


def start(plan, servers, more="", spares=0):
    run = Run(plan, STEPS, f"--servers {servers} {more}", f"{plan}-alone")
    run.note_servers(PLANS[plan][0] + spares, servers * PLANS[plan][3].get("replication", 1))
    return run


STEPS = 1500
for plan in PLANS:
    compile(plan)
for servers in (1, 2, 3):
    run = start("four", servers)
    run.read_lines(20)
    run.kill(rng.randrange(4))
    run.read_lines(300)
    run.more()
    run.read_lines(500)
    run.kill(0)
    check(f"fewer, more, fewer: {servers} servers", "four", run, [2, 4, 2])
# Six ranks, rank 0 and several at once; then eight of two stages.
run = start("six", 2)
run.read_lines(20)
run.kill(0)
run.read_lines(200)
run.kill(1, 2, 3)
run.read_lines(400)
run.more()
run.read_lines(500)
run.kill(4, 5)
check("six ranks", "six", run, [3, 2, 6, 3])
run = start("pipe", 3)
for lines, lost in ((20, 1), (200, 2)):
    run.read_lines(lines)
    if lost == 2:
        run.more()
    run.kill(lost)
check("stages", "pipe", run, [4, 8, 4])
# A rank stands still while another is lost, and comes again to a later meeting, with the state of long ago.
run = start("pipe", 3)
run.read_lines(20)
os.kill(slow := run.ranks()[7], signal.SIGSTOP)
run.kill(1)
run.read_lines(200)
run.process.send_signal(signal.SIGUSR2)
time.sleep(0.3)
os.kill(slow, signal.SIGCONT)
run.go_on()
check("a slow rank", "pipe", run, [4, 8])

# Spares and new processes take the places of those that are lost; so do they in a plan for one number of ranks.
run = start("four", 2, "--spares 2", 2)
for lines in (20, 300):
    run.read_lines(lines)
    run.kill(2)
run.read_lines(500)
run.kill(0)
check("spares", "four", run, [4, 4, 2])
run = start("four", 2, "--replace 1")
run.read_lines(20)
run.kill(1)
run.read_lines(300)
run.kill(0)
check("replaced, then fewer", "four", run, [4, 2])


def on_three(servers, kills):
    """The losses of three ranks, of which so many are killed and replaced. Meanwhile the first server is stopped: then
    the lost rank has often pushed to it alone, and it takes back the update that the others do not make."""
    run = start("three", servers, f"--replace {kills}")
    for i in range(kills):
        run.read_lines(20 + 150 * i)
        os.kill(run.servers[0], signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(rng.choice(run.ranks()), signal.SIGKILL)
        os.kill(run.servers[0], signal.SIGCONT)
    code, out = run.end()
    expect.check(f"three ranks, {servers} servers: {code} {run.said}", code == 0)
    return losses(out)


wanted = losses(expect(f"run three-alone.bin {RUN} --steps {STEPS}", 0, None).stdout.decode())
for servers in (1, 2):
    got = on_three(servers, 8)
    wrong = [s for s in wanted if got.get(s) != wanted[s]]
    expect.check(f"three ranks, {servers} servers: step {wrong[:1]}", not wrong)
# So under msc launch, which starts another process in the place of the lost one.
words = [MSC, "launch", "-n", "3", "--servers", "2", "--replace", "2", "--", MSC, "run", "three.bin", *RUN.split()]
run = Paced([*words, "--steps", str(STEPS)])
run.read_lines(100)
os.kill(resized.children(run.process.pid)[rng.randrange(3)], signal.SIGKILL)
code = run.end()
got = losses(re.sub(r"^\[\d+\] ", "", run.out, flags=re.M))
wrong = [s for s in wanted if got.get(s) != wanted[s]]
expect.check(f"launched: {code}, step {wrong[:1]}: {run.said}", code == 0 and not wrong and "another takes its place" in
             run.said)

# Both ranks of a stage are lost, or all, and with them what they alone had: servers take what the newest checkpoint
# has, or the initial values.
for more in ("", "--ckpt-dir kept --ckpt-every 9"):
    run = start("pipe", 2, more)
    run.read_lines(100)
    run.kill(4, 5, 6, 7)
    code, out = run.end()
    steps = [json.loads(line)["step"] for line in out.splitlines() if '"step"' in line]
    back = [b - 1 for a, b in zip(steps, steps[1:]) if b != a + 1]
    expect.check(f"a stage is lost, {more}: {code} {back} {run.said}", code == 0 and len(back) == 1 and
                 "nobody has all parts of a later state" in run.said and (back[0] > 80 if more else back[0] == 0))
    got = losses(out)
    piece = resized.fresh(expect, run.plan, 4, back[0], STEPS, [(8, back[0])] if back[0] else [])
    wrong = [s for s in piece if s > back[0] and piece[s] != got[s]]
    expect.check(f"a stage is lost, {more}: from step {back} on, step {wrong[:1]}", not wrong)

# Servers have copies: a server is lost, then a worker, then another server.
run = start("copied", 2)
for i, lost in enumerate((0, 3)):
    run.read_lines(20 + 300 * i)
    os.kill(run.servers[lost], signal.SIGKILL)
    run.read_lines(150 + 300 * i)
    run.kill(1) if i == 0 else run.more()
check("copies", "copied", run, [2, 4])
expect.check(f"copies: {run.said}", run.said.count("its copy goes on") == 2)

# A server that has no copy ends the run, and is named.
for plan, more in (("four", ""), ("three", "--replace 5")):
    run = start(plan, 2, more)
    run.read_lines(20)
    os.kill(run.servers[1], signal.SIGKILL)
    code, out = run.end()
    expect.check(f"a server is lost, {plan}: {code} {run.said}", code == 3 and
                 f"server 1 (process {run.servers[1]}) was ended by signal 9" in run.said)

# Changes at random points, while others are under way. The batch is cut into equal parts, 4 or 2, so that all losses
# are those of a run that nobody disturbs.
write("net.mlir", two_products(batch=16, hidden=60, init=0.03, lr=1e-3))
compile("even")
STEPS = 20000
wanted = losses(expect(f"run even-alone.bin {RUN} --steps {STEPS}", 0, None).stdout.decode())
run, killed = start("even", 2), set()
for i in range(40):
    run.read_until(lambda: False, rng.random() * 0.1)
    if run.process.poll() is None and len(living := set(run.ranks()) - killed) > 2 and rng.random() < 0.7:
        killed.add(lost := rng.choice(sorted(living)))
        os.kill(lost, signal.SIGKILL)
    elif run.process.poll() is None:
        run.process.send_signal(signal.SIGUSR2)
code, out = run.end()
got = losses(out)
wrong = [s for s in wanted if got.get(s) != wanted[s]]
expect.check(f"at random: {code} step {wrong[:1]} of {len(got)}: {run.said}", code == 0 and not wrong)
print(f"at random: {len(run.changes)} changes of the number of ranks")

for keys, said in {
        '{"mode":"async"}': "elastic: not supported yet with parameter_server.*, whose workers are at different steps",
        '{"mode":"sync"}': "elastic: there is no plan of fewer ranks than 2, whose parameters live on servers",
}.items():
    words = ["compile", "net.mlir", "-o", "no.bin", "--set", "device_num=2", *DP.split(), "--set", "elastic=true",
             "--set", f"parameter_server={keys}"]
    done = subprocess.run([MSC, *words], capture_output=True, text=True)
    expect.check(f"{words}: {done.returncode} {done.stderr}", done.returncode == 1 and re.search(said, done.stderr))
expect.done()
