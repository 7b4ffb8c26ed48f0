#!/usr/bin/env python3
"""Flight records: a rank of a run over TCP and in shared memory is stopped or killed; the others write what they did,
msc flight says who did not come. SIGUSR1 writes records of a run that goes on. Records that do not agree are told."""
import json
import os
import signal
import subprocess
import time

from expect import MSC, Expect, write
from small_models import write_one_product

expect = Expect()
write_one_product()
expect("compile net.mlir -o net.bin --set device_num=4 --set parallel_mode=data_parallel", 0, None)
RUN = [MSC, "run", "net.bin", "--data", "x=x.idx", "--steps", "100000000", "--json",
       "--trust-native", "--timeout", "1.5",
       "--threads", "1"]


def start(folder, *options, **more):
    """A run that has begun to train, and the processes of its ranks."""
    p = subprocess.Popen([*RUN, "--flight", folder, *options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True,
                         **more)
    for _ in range(50):
        p.stdout.readline()
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as file:
        return p, [int(pid) for pid in file.read().split()]


def merged(folder):
    return json.loads(expect(f"flight {folder} --json", 0, "").stdout)


for comm in ("local", "tcp"):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        folder = f"{comm}-{number}"
        p, ranks = start(folder, "--comm", comm)
        os.kill(ranks[2], number)
        begun = time.time()
        os.set_blocking(p.stdout.fileno(), True)
        said = p.communicate(timeout=30)[1]
        took = time.time() - begun
        name = f"{comm}, signal {number}"
        expect.check(f"{name}: ends soon ({took:.1f} s)", took < 12 and p.returncode == 3)
        expect.check(f"{name}: the others name rank, op and group: {said}",
                     "all_reduce" in said and "(ranks 0,1,2,3): rank " in said and "rank 2 is" in said)
        m = merged(folder)
        stuck = m["not_complete"]
        expect.check(f"{name}: records: {m}", m["ranks"] == 4 and m["without_record"] == [2]
                     and m["divergence"] == [] and
                     [r["rank"] for r in m["of_ranks"]] == [0, 1, 3]
                     and all("rank 2 is" in r["reason"] for r in m["of_ranks"]))
        expect.check(f"{name}: all wait for the rank, here or an operation later: {stuck}", sorted(
            r for o in stuck for r in o["waiting"]) == [0, 1, 3] and
            all(o["op"] == "all_reduce" and 2 in o["not_begun"] for o in stuck))
        expect.check(f"{name}: what the others have done, all have: {stuck}", all(o["waiting"] for o in stuck))

# A rank that stops between two sends of one collective: the ranks that heard it wait for those that did not. The
# library stops its process after the first data that it sends once SIGUSR2 has come.
write("stop.c", """#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
static volatile sig_atomic_t asked;
static void ask(int number) { asked = number; }
__attribute__((constructor)) static void begin(void) { signal(SIGUSR2, ask); }
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
  ssize_t n = ((ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg"))(fd, m, flags);
  if (asked && n > 0 && m->msg_iovlen > 1) raise(SIGSTOP);
  return n;
}
""")
if "asan" in MSC or "tsan" in MSC:  # their runtime wants to be the first library
    print("skipped: a rank that stops between two sends: no library is preloaded before a sanitizer's")
else:
    subprocess.run(["cc", "-shared", "-fPIC", "stop.c", "-o", "stop.so"], check=True)
    for tries in range(3):
        p, ranks = start(f"between{tries}", "--comm", "tcp",
                         env={**os.environ, "LD_PRELOAD": os.path.abspath("stop.so")})
        os.kill(ranks[2], signal.SIGUSR2)
        p.communicate(timeout=30)
        m = merged(f"between{tries}")
        expect.check(f"stopped between two sends: all name the rank: {m}", p.returncode == 3
                     and m["without_record"] == [2] and
                     len(m["of_ranks"]) == 3 and all("rank 2 is" in r["reason"] for r in m["of_ranks"]))

# A run that goes on.
p, ranks = start("asked")
p.send_signal(signal.SIGUSR1)
end = time.time() + 20
while len([f for f in os.listdir("asked") if f.endswith(".json")]) < 4 and time.time() < end:
    p.stdout.readline()
p.send_signal(signal.SIGINT)
p.communicate(timeout=30)
m = merged("asked")
expect.check("on request", m["without_record"] == [] and m["divergence"] == []
             and m["last_common"]["op"] in ("all_reduce", "barrier")
             and all(r["operations"] > 40 and r["reason"] == "SIGUSR1" for r in m["of_ranks"]))


# Records that do not agree.
def record(folder, rank, ops, **more):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/rank-{rank}.json", "w") as file:
        json.dump({"rank": rank, "ranks": 2, "plan": "0", "step": 7, "epoch_ns": 0, "left_out": 0,
                   "reason": "", "operations": [
            {"index": i, "op": op, "name": "n", "loc": "a.py:3", "bytes": 8, "step": i,
             "begin_ns": 1000000 * (10 * i + late),
             "end_ns": end and 1000000 * (10 * i + 5), "ranks": [0, 1]} for i, (op, late, end) in enumerate(ops)],
             **more}, file)


record("other", 0, [("all_reduce", 0, 1), ("all_gather", 0, None)])
record("other", 1, [("all_reduce", 2, 1), ("all_reduce", 1, None)])
text = expect("flight other", 0, "").stdout.decode()
for line in ("records of 2 of 2 ranks\n",
             "last operation that all its ranks have done: all_reduce n at a.py:3, step 0, 8 bytes, ranks 0,1\n",
             "first divergence: rank 0: all_gather n at a.py:3, step 1, 8 bytes\n                  rank 1: "
             "all_reduce n at",
             "not complete: all_gather n at a.py:3, step 1, ranks 0,1; waiting: 0, 1\n"):
    expect.check(f"{line!r} in {text}", line in text)
m = merged("other")
expect.check(f"time lost: {m['of_ranks']}", [r["lost_ms"] for r in m["of_ranks"]] == [3.0, 0.0])
os.mkdir("none")
expect("flight none", 1, "none: error: there is no flight record (rank-*.json) in this folder [E0112]\n", "")
expect("flight absent", 1, "absent: error: cannot be read: No such file or directory [E0112]\n", "")
record("jobs", 0, [])
record("jobs", 1, [], plan="1")
expect("flight jobs", 1, lambda text: "" if "the record is of another job than the others [E0114]" in text else text,
       "")
os.mkdir("bad")
for content in ("", "[]", '{"rank":0,"ranks":2,"operations":[3]}', '{"rank":5,"ranks":2,"operations":[]}',
                '{"rank":0,"ranks":2,"operations":[{"begin_ns":1,"ranks":[9]}]}'):
    write("bad/rank-0.json", content)
    expect("flight bad", 1, lambda text: "" if text.startswith("bad/rank-0.json: error: ") else text, "")
expect.done()
