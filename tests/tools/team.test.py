#!/usr/bin/env python3
"""msc.init, get_rank, get_group_size and the functions of Team, in the processes of msc launch, of torchrun's variables
and of numbers of one's own: against values computed here; what is refused."""
import os
import socket
import subprocess
import sys

from expect import MSC, Expect, write, need_library

need_library()
expect = Expect()
write("work.py", f"""import array, sys
import msc
backend, *place = sys.argv[1:]
place = dict(rank=int(place[0]), ranks=3, address=place[1]) if place else {{}}
team = msc.init(backend or None, **place, libraries={os.path.dirname(MSC)!r})
rank, size = msc.get_rank(), msc.get_group_size()
assert size == 3 and team.rank == rank
own, made = array.array("d", [rank + 1, 10 * rank]), array.array("d", [0, 0])
team.all_reduce(own, made)
assert list(made) == [6, 30], made
team.all_reduce(own, made, "max")
assert list(made) == [3, 20], made
all_of = array.array("d", [0] * 6)
team.all_gather(own, all_of)
assert list(all_of) == [1, 0, 2, 10, 3, 20], all_of
part = array.array("d", [0] * 2)
team.reduce_scatter(all_of, part)
assert list(part) == [3 * (rank + 1), 30 * rank], part
turned = array.array("i", [0] * 3)
team.all_to_all(array.array("i", [10 * rank + i for i in range(3)]), turned)
assert list(turned) == [10 * i + rank for i in range(3)], turned
said = bytearray(b"of rank 1" if rank == 1 else bytes(9))
team.broadcast(said, root=1)
assert said == b"of rank 1", said
pair = team.group([2, 0])
assert msc.get_rank(pair) == (0, -1, 1)[rank] and msc.get_group_size(pair) == 2
if rank == 0:
    pair.send(b"hello", 1)
elif rank == 2:
    heard = bytearray(5)
    pair.receive(heard, 0)
    assert heard == b"hello"
for wrong in (lambda: team.all_gather(own, part), lambda: team.all_reduce(own, array.array("f", [0, 0])),
              lambda: team.send(b"x", rank), lambda: msc.init(), lambda: team.broadcast(b"read-only")):
    try:
        wrong()
    except msc.Error:
        continue
    raise AssertionError("not refused")
team.barrier()
pair.close()
msc.finalize()
print("well")
""")
for name in list(os.environ):
    if name.startswith(("MSC_R", "MSC_A", "MSC_T", "RANK", "WORLD_SIZE", "MASTER")):
        del os.environ[name]
for backend in ("local", "tcp"):
    run = subprocess.run([MSC, "launch", "-n", "3", "--", sys.executable, "work.py", backend],
                         capture_output=True, text=True,
                         timeout=60)
    expect.check(f"{backend}: {run.stderr}", sorted(run.stdout.split("\n")) == ["", "[0] well", "[1] well", "[2] well"])


def started(words, env):
    runs = [subprocess.Popen([sys.executable, "work.py", *words(r)], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True,
                             env={**os.environ, **env(r)}) for r in range(3)]
    said = [p.communicate(timeout=60)[0] for p in runs]
    expect.check(f"{words(0)} {env(0)}: {said}", said == ["well\n"] * 3)


started(lambda r: ["local", str(r), f"@msc-team-{os.getpid()}"], lambda r: {})
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
started(lambda r: [""], lambda r: {"RANK": str(r), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                                   "MASTER_PORT": str(port - 1)})
run = subprocess.run([sys.executable, "-c", f"""import msc
try:
    msc.get_rank()
except msc.Error as e:
    assert "msc.init" in str(e)
team = msc.init(libraries={os.path.dirname(MSC)!r})
assert (msc.get_rank(), msc.get_group_size()) == (0, 1)
"""], capture_output=True, text=True)
expect.check(f"alone: {run.stderr}", run.returncode == 0)
expect.done()
