#!/usr/bin/env python3
"""msc launch --hosts, with an ssh that runs its command here: ranks and lines of all hosts, the token, signals and the
end of the first launcher reach the ranks, the losses are those of one host; files that are no list of hosts."""
import json
import os
import signal
import subprocess
import time

from expect import MSC, Expect, write
from small_models import write_one_product

expect = Expect()
for name in list(os.environ):
    if name.startswith(("MSC_R", "MSC_A", "MSC_T", "OMPI", "PMI", "SLURM", "RANK", "WORLD_SIZE", "MASTER", "PET_")):
        del os.environ[name]
os.mkdir("bin")
write("bin/ssh", """#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
echo "$1" >>ssh.log
shift
exec sh -c "$*"
""")
os.chmod("bin/ssh", 0o755)
os.environ["PATH"] = os.path.abspath("bin") + ":" + os.environ["PATH"]
os.environ["TMPDIR"] = os.getcwd()  # where tokens are
write("hosts", "127.0.0.1 slots=2  # rank 0 is here\n\nuser@127.0.0.2\tslots=2\n")


def same(name, got, wanted):
    expect.cases += 1
    if got != wanted:
        expect.fail(name, "differs", wanted, got)


def launch(*words, **env):
    return subprocess.run([MSC, "launch", "--hosts", "hosts", *words], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **env})


def tokens():
    return [f for f in os.listdir(".") if f.startswith("tmp.")]


said = "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR \"$0\" ${MSC_LIFELINE-none} $(cat $MSC_TOKEN_FILE | wc -c)"
run = launch("--", "sh", "-c", said, "it's a word")
same("ranks", (run.returncode, sorted(run.stdout.splitlines()), run.stderr),
     (0, [f"[{r}] {r} 4 {r % 2} 127.0.0.1 it's a word none 65" for r in range(4)], ""))
same("hosts", sorted(open("ssh.log").read().split()), ["127.0.0.1", "user@127.0.0.2"])
same("tokens are gone", tokens(), [])
write("token", "0123456789abcdef0123456789abcdef\n")
run = launch("-n", "1", "--", "sh", "-c", "cat $MSC_TOKEN_FILE", MSC_TOKEN_FILE="token")
same("a token of one's own", sorted(run.stdout.splitlines()),
     [f"[{r}] 0123456789abcdef0123456789abcdef" for r in (0, 1)])

# The first that failed counts, and the other host's ranks end too.
begin = time.time()
run = launch("--grace", "0.3", "--", "sh", "-c", "test $RANK = 3 && exit 5; exec sleep 60")
same("first failure", (run.returncode, run.stderr.splitlines()),
     (5, ["msc launch: rank 3 ended with exit code 5",
          "msc launch: on host user@127.0.0.2 ssh ended with exit code 5"]))
expect.check("the others are ended", time.time() - begin < 20)

# Signals reach every rank; without its first launcher the job ends.
for number, code in ((signal.SIGTERM, 128 + 15), (signal.SIGINT, 128 + 2), (signal.SIGKILL, -9)):
    write("pids", "")
    p = subprocess.Popen([MSC, "launch", "--hosts", "hosts", "--", "sh",
                          "-c", "echo $$ >>pids; echo up; exec sleep 60"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for _ in range(4):
        p.stdout.readline()
    p.send_signal(number)
    p.wait(timeout=20)
    same(f"signal {number}", p.returncode, code)
    pids = [int(pid) for pid in open("pids").read().split()]
    for _ in range(200):
        left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        if not left:
            break
        time.sleep(0.05)
    same(f"ranks after signal {number}", (len(pids), left), (4, []))
p = subprocess.Popen([MSC, "launch", "--hosts", "hosts", "--", "sh", "-c",
                      "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done"],
                      stdout=subprocess.PIPE, text=True)
for _ in range(4):
    p.stdout.readline()
p.send_signal(signal.SIGUSR1)
same("SIGUSR1", (sorted(p.communicate(timeout=20)[0].splitlines()), p.returncode),
     ([f"[{r}] got" for r in range(4)], 0))

# Training over TCP.
write_one_product()
expect("compile net.mlir -o net.bin --set device_num=4 --set parallel_mode=data_parallel", 0, None)
RUN = [MSC, "run", "net.bin", "--data", "x=x.idx", "--steps", "3", "--json", "--trust-native"]


def losses(text):
    return [json.loads(line.split("] ")[-1])["loss"] for line in text.splitlines() if '"loss"' in line]


wanted = losses(subprocess.run(RUN, capture_output=True, text=True, timeout=60).stdout)
run = launch("--", *RUN, "--alive", "alive")
same("losses", (len(wanted), run.returncode, losses(run.stdout)), (3, 0, wanted))
expect.check("the file of liveness", os.path.getsize("alive") == 0 and time.time() - os.path.getmtime("alive") < 60)
expect(f"run net.bin --data x=x.idx --steps 3 --trust-native --alive none/alive", 1,
       lambda text: "" if "none/alive: cannot be touched: No such file or directory" in text else "alive")

# Parameter servers, on the host of rank 0, and a copy of each.
for mode in ('{"mode":"sync"}', '{"mode":"sync","replication":2}'):
    expect(["compile", "net.mlir", "-o", "served.bin", "--set", "device_num=4", "--set", "parallel_mode=data_parallel",
            "--set", "parameter_server=" + mode], 0, None)
    run = launch("--servers", "2", "--", MSC, "run", "served.bin", *RUN[3:])
    same(f"losses with servers, {mode}", (run.returncode, losses(run.stdout)), (0, wanted))
said = "echo $MS_ROLE ${MSC_SERVER-none} ${RANK-none} $MS_NODE_ID $MS_WORKER_NUM $MS_SERVER_NUM"
run = launch("--servers", "2", "--", "sh", "-c", said)
same("roles", (run.returncode, sorted(line.split("] ")[1] for line in run.stdout.splitlines())),
     (0, sorted([f"MS_WORKER none {r} {r} 4 2" for r in range(4)] +
                [f"MS_PSERVER {s + 1} none {s} 4 2" for s in range(2)])))

# Files that are none.
for text, words, code, said in (
    ("", "true", 1, "bad: error: names no hosts"),
    ("a b\n", "true", 1, "bad:1:1: error: behind a host stands slots=N, with at least one slot, not 'b'"),
    ("a\nu@a\n", "true", 1, "bad:2:1: error: the file names a host twice: 'u@a'"),
    ("-oProxyCommand=x\n", "true", 1, "bad:1:1: error: this is no name of a host: '-oProxyCommand=x'"),
    ("a slots=2\nb slots=3\n", "true", 2, "msc launch: error: host b has other slots than those before it: -n says how "
     "many ranks each host has (msc launch --help)"),
    ("a slots=2\n", "-n 3 true", 2, "msc launch: error: -n 3: host a has 2 slots (msc launch --help)"),
    ("a slots=2\n", "--servers -1 true", 2, "msc launch: error: --servers is 0 to 64 (msc launch --help)"),
    ("a\n", "-n 1 --nodes 2 true", 2,
     "msc launch: error: --hosts says how many nodes there are; it goes without --nodes and --node-rank (msc launch "
     "--help)")):
    write("bad", text)
    got = expect(f"launch --hosts bad {words}", code, None, "").stderr.decode()
    same(f"{text!r} {words}", got.rstrip("\n").split(" [E")[0], said)
expect.done()
