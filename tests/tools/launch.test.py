#!/usr/bin/env python3
"""msc launch: what ranks are told, prefixed output, the first failure's exit code, signals, restarts; ranks of msc run
on one host and as two hosts, with a token."""
import json
import os
import signal
import socket
import subprocess
import sys
import time

from expect import MSC, Expect
from small_models import write_one_product

expect = Expect()
for name in list(os.environ):
    if name.startswith(("MSC_R", "MSC_A", "MSC_T", "OMPI", "PMI", "SLURM", "RANK", "WORLD_SIZE",
                        "MASTER", "JOB_COMPL", "PET_")):
        del os.environ[name]


def launch(*words, env=None, timeout=60):
    return subprocess.run([MSC, "launch", *words], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})


def same(name, got, wanted):
    expect.cases += 1
    if got != wanted:
        expect.fail(name, "differs", wanted, got)


def lines(text):
    return sorted(text.splitlines())


said = ("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MSC_RANK $MSC_RANKS $MASTER_ADDR "
        "$TORCHELASTIC_RESTART_COUNT")
run = launch("-n", "3", "--", "sh", "-c", said)
same("environment", (run.returncode, lines(run.stdout), run.stderr),
     (0, [f"[{r}] {r} 3 {r} 3 {r} 3 127.0.0.1 0" for r in range(3)], ""))
run = launch("-n", "2", "--nodes", "3", "--node-rank", "2", "--master", "[fe80::1]:77", "sh", "-c",
             said + " $MASTER_PORT $MSC_ADDRESS")
same("third of three hosts", (run.returncode, lines(run.stdout)),
     (0, [f"[{r}] {r} 6 {r - 4} 2 {r} 6 fe80::1 0 77 [fe80::1]:77" for r in (4, 5)]))
run = launch("-n", "1", "--nodes", "2", "--master", "h:1", "--", "sh", "-c", "echo $RANK",
             env={"JOB_COMPLETION_INDEX": "1"})
same("host by index", run.stdout, "[1] 1\n")
run = launch("-n", "1", "--", "sh", "-c", "echo $RANK $WORLD_SIZE $MSC_ADDRESS",
             env={"PET_NNODES": "3", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "m", "PET_MASTER_PORT": "7"})
same("host by its launcher", run.stdout, "[2] 2 3 m:7\n")

# Lines do not mix, and keep their stream; a last line without an end gets one; options of the program are its own.
run = launch("-n", "2", "sh", "-c", "printf 'a\\nb'; echo $RANK-error >&2", "-n", "9")
same("lines", (lines(run.stdout), lines(run.stderr)),
     (["[0] a", "[0] b", "[1] a", "[1] b"], ["[0] 0-error", "[1] 1-error"]))
run = launch("-n", "2", "--", sys.executable, "-c", "print('x' * 200000)")
same("long lines", sum(line.count("x") for line in run.stdout.splitlines()), 400000)
same("long lines have a rank", {line[:4] for line in run.stdout.splitlines()}, {"[0] ", "[1] "})
run = subprocess.run([MSC, "launch", "-n", "2", "cat"], input="of rank 0\n", capture_output=True, text=True, timeout=30)
same("stdin", run.stdout, "[0] of rank 0\n")

# The first that failed counts; the others are ended.
start = time.time()
run = launch("-n", "3", "--grace", "0.3", "--", "sh", "-c", "test $RANK = 1 && exit 5; exec sleep 60")
same("first failure", (run.returncode, run.stderr), (5, "msc launch: rank 1 ended with exit code 5\n"))
expect.check("the others are ended", time.time() - start < 30)
run = launch("-n", "2", "--grace", "0.3", "--", "sh",
             "-c", "trap '' TERM; test $RANK = 0 && kill -9 $$; while :; do sleep 0.1; done")
same("killed", (run.returncode, run.stderr), (137, "msc launch: rank 0 was ended by signal 9 (Killed)\n"))
# a rank that was stopped cannot end: nobody waits for it once another has failed and the others have ended
begun = time.monotonic()
run = launch("-n", "3", "--grace", "60", "--", "sh", "-c", "test $RANK = 1 && kill -STOP $$; sleep 0.5; exit 5")
expect.check(f"stopped: {run.returncode} {run.stderr}", run.returncode == 5 and time.monotonic() - begun < 30)

# Restarts.
# Rank 1 fails when rank 0 has printed, which could be ended before otherwise.
run = launch("-n", "2", "--restarts", "3", "--grace", "0.3", "--", "sh", "-c",
             "n=$TORCHELASTIC_RESTART_COUNT; echo $n; touch said-$RANK-$n; test $n = 2 -o $RANK = 0 && exit; "
             "until test -e said-0-$n; do sleep 0.01; done; exit 4")
same("restarts", (run.returncode, run.stderr, lines(run.stdout)),
     (0,
      "msc launch: rank 1 ended with exit code 4; restart 1 of 3\nmsc launch: rank 1 ended with exit code 4; restart "
      "2 of 3\n",
      [f"[{r}] {k}" for r in (0, 1) for k in (0, 1, 2)]))
run = launch("-n", "1", "--restarts", "1", "--", "sh", "-c", "exit 4")
same("no more restarts", (run.returncode, run.stderr.count("\n")), (4, 2))

# Signals.
for number, code in ((signal.SIGTERM, 128 + 15), (signal.SIGINT, 128 + 2)):
    p = subprocess.Popen([MSC, "launch", "-n", "2", "--", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    while sorted(p.stdout.readline() for _ in range(2)) != ["[0] up\n", "[1] up\n"]:
        pass
    p.send_signal(number)
    p.communicate(timeout=30)
    same(f"signal {number}", p.returncode, code)
p = subprocess.Popen([MSC, "launch", "-n", "2", "--", "sh",
                      "-c", "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.05; done"],
                     stdout=subprocess.PIPE, text=True)
for _ in range(2):
    p.stdout.readline()
p.send_signal(signal.SIGUSR1)
same("SIGUSR1 is passed on", (lines(p.communicate(timeout=30)[0]), p.returncode), (["[0] got", "[1] got"], 0))
# Signals that ask ranks for something do not end a launcher whose ranks have ended meanwhile.
for i in range(40):
    p = subprocess.Popen([MSC, "launch", "-n", "2", "--", "sh", "-c", "trap '' USR1; echo up"], stdout=subprocess.PIPE)
    p.stdout.readline(), p.stdout.readline()
    while p.poll() is None:
        p.send_signal(signal.SIGUSR1)
    same("asked to the end", p.returncode, 0)

# Usage.
for words, text in (("-n 0 true", "-n and --nodes are at least 1, and make 4096 ranks at most"),
                    ("true", "-n and --nodes are at least 1, and make 4096 ranks at most"),
                    ("-n 2", "needs PROGRAM [ARGUMENT ...]"),
                    ("-n 1 --nodes 2 --master a:1 true", "--nodes 2 needs --node-rank"),
                    ("-n 1 --nodes 2 --node-rank 0 true", "--nodes 2 needs --master HOST:PORT, a host of rank 0"),
                    ("-n 1 --nodes 2 --node-rank 2 --master a:1 true", "--node-rank 2 of 2 nodes: counted from 0"),
                    ("-n 1 --master a:0 true", "--master: 'a:0' is no HOST:PORT"),
                    ("-n 1 --restarts -1 true", "--restarts is not negative"),
                    ("-n 1 --grace 0 true", "--grace is a number of seconds above 0")):
    expect(f"launch {words}", 2, f"msc launch: error: {text} (msc launch --help)\n", "")
expect("launch -n 2 no-such-program", 1,
       "msc: error: cannot start no-such-program: No such file or directory [E0112]\n", "")

# Ranks of msc run: one host; two hosts, here two launchers that meet over TCP with a token.
write_one_product()
expect("compile net.mlir -o net.bin --set device_num=4 --set parallel_mode=data_parallel", 0, None)
RUN = ["run", "net.bin", "--data", "x=x.idx", "--steps", "3", "--json", "--trust-native"]


def losses(text):
    return [json.loads(line.split("] ")[-1])["loss"] for line in text.splitlines() if '"loss"' in line]


plain = subprocess.run([MSC, *RUN], capture_output=True, text=True, timeout=60)
wanted = losses(plain.stdout)
same("losses", (len(wanted), plain.returncode), (3, 0))
run = launch("-n", "4", MSC, *RUN)
same("ranks of msc run", (run.returncode, losses(run.stdout), run.stderr),
     (0, wanted, "[0] msc run: rank 0 of 4, as MSC_* says\n"))
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
hosts = [subprocess.Popen([MSC, "launch", "-n", "2", "--nodes", "2", "--node-rank", str(i),
                           "--master", f"127.0.0.1:{port}", "--",
                           MSC, *RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "MSC_TOKEN": "0123456789abcdef0123456789abcdef"}) for i in range(2)]
ends = [p.communicate(timeout=60) for p in hosts]
same("two hosts", ([p.returncode for p in hosts], losses(ends[0][0]), ends[1][0]), ([0, 0], wanted, ""))
# a rank that is killed: the others end with 3, all start again and finish
run = launch("-n", "4", "--restarts", "1", "--", "sh", "-c",
             f'test $TORCHELASTIC_RESTART_COUNT = 0 -a $RANK = 2 && {{ sleep 0.5; kill -9 $$; }}; exec {MSC} '
             f'{" ".join(RUN)} --comm tcp --timeout 20')
expect.check("a rank is killed before it joins", run.returncode == 0 and losses(run.stdout) == wanted
             and "restart 1 of 1" in run.stderr)
expect.done()
