#!/usr/bin/env python3
"""msc bench comm: every collective has a time at every size, over both transports and in a job that launchers start;
the bytes received are those that the collective needs, to the byte."""
import json
import os
import re
import socket
import subprocess

from expect import MSC, Expect

expect = Expect()


def bench(command, ranks, comm):
    out = json.loads(expect(command, 0, None).stdout)
    expect.check(f"{command}: {out['ranks']} {out['comm']}", (out["ranks"], out["comm"]) == (ranks, comm))
    ops = {c["op"] for c in out["collectives"]}
    expect.check(f"{command}: {ops}", {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"} <= ops)
    for c in out["collectives"]:
        needed = {"all_reduce": 2 * c["bytes"] * (ranks - 1) // ranks, "permute": c["bytes"]}.get(c["op"],
            c["bytes"] * (ranks - 1) // ranks)
        expect.check(f"{command}: {c}, {needed} bytes", c["ns"] > 0 and c["received_bytes"] == needed)
        speed = needed / c["ns"] * 1e9
        expect.check(f"{command}: {c}: speed", abs(c["bus_bytes_per_s"] - speed) <= 0.01 * speed)
    return out["collectives"]


for comm in ("local", "hosts", "tcp"):
    got = bench(f"bench comm --ranks 2 --sizes 4k..64k --comm {comm} --json", 2, comm)
    expect.check("sizes", {c["bytes"] for c in got} == {4096, 16384, 65536})
bench("bench comm --ranks 4 --sizes 1k --json", 4, "local")
if len(os.sched_getaffinity(0)) > 1:  # a rank stays on its share of the cores
    seen = set()
    with subprocess.Popen([MSC, "bench", "comm", "--ranks", "2", "--sizes", "16M"], stdout=subprocess.DEVNULL) as job:
        while job.poll() is None:
            try:
                with open(f"/proc/{job.pid}/task/{job.pid}/children") as f:
                    seen.add(tuple(frozenset(os.sched_getaffinity(int(pid))) for pid in f.read().split()))
            except (ProcessLookupError, FileNotFoundError):
                pass  # it has just ended
    expect.check(f"cores {seen}", any(len(two) == 2 and two[0] | two[1] == os.sched_getaffinity(0) and
                                      not two[0] & two[1] for two in seen))
else:
    print("skipped: one core cannot be shared out")
with socket.create_server(("127.0.0.1", 0)) as s:
    master = "127.0.0.1:%d" % s.getsockname()[1]
joined = expect(["launch", "-n", "2", "--master", master, MSC, "bench", "comm", "--sizes", "1k..4k", "--json"], 0,
                "").stdout.decode()
out = json.loads(joined.removeprefix("[0] "))
expect.check("a job", out["comm"] == "hosts" and out["ranks"] == 2 and all(c["ns"] > 0 for c in out["collectives"]))
out = json.loads(expect("bench comm --sizes 4k --collectives all_reduce,permute --json", 0, "").stdout)
expect.check(f"two of them: {out}", [t["op"] for t in out["collectives"]] == ["all_reduce", "permute"])
text = expect("bench comm --sizes 4k", 0, "").stdout.decode()
expect.check(f"text: {text}", text.startswith("2 ranks, shared memory\ncollective ") and "\nall_reduce " in text)
for words, said in (("comm --ranks 1", "--ranks is from 2 to 64"), ("disk", "'disk' is not comm"),
                    ("comm --sizes 8k..4k", "--sizes: '8k..4k' is no range of 4 bytes to 1G"),
                    ("comm --sizes a..b", "--sizes: 'a..b' is no range such as 1k..16M"),
                    ("comm --collectives all_reduce,", "--collectives: '' is none that is timed"),
                    ("comm --collectives sum", "--collectives: 'sum' is none that is timed"),
                    ("comm --sizes 1k..2kx", "--sizes: '1k..2kx' is no range such as 1k..16M")):
    expect(f"bench {words}", 2, f"msc bench: error: {said} (msc bench --help)\n", "")
left = int(re.search(r"MemAvailable: *(\d+)", open("/proc/meminfo").read())[1]) << 10
if left < 64 * 2 << 30:
    huge = expect("bench comm --ranks 64 --sizes 1G", 3, None).stderr.decode()
    found = re.search(r"collectives of these sizes take (\d+) bytes of memory on 64 ranks, and (\d+) are left here",
                      huge)
    expect.check(f"too much memory: {huge}", found and int(found[1]) > int(found[2]) and int(found[1]) >= 64 * 2 << 30)
else:
    print("skipped: this host has memory for collectives of 1 GiB on 64 ranks")
expect.done()
