#!/usr/bin/env python3
"""msc schedule: JSON judged by a simulation that knows nothing of msc, published figures, the chart, and all wrong
input."""
import itertools
import json

from expect import Expect

expect = Expect()


def arguments(kind, p, m, tf, tb, tw=0, hop=0, **more):
    named = {
        "kind": kind, "stages": p, "micro-batches": m, "tf": tf, "tb": tb, "tw": tw, "tcomm": hop,
        **{k.replace("_", "-"): v for k, v in more.items()}
    }
    return ["schedule", *itertools.chain.from_iterable((f"--{k}", str(v)) for k, v in named.items())]


def misplaced(j, kind, p, m, tf, tb, tw, hop, v):
    """What is wrong with start and end of the entries, or None."""
    place = j.get("place", [k % p for k in range(p * v)])
    length = {"F": tf / v, "B": (tb if kind.startswith("zb") else tb + tw) / v, "W": tw / v}
    own = [[k for k in range(p * v) if place[k] == i] for i in range(p)]
    end = {(e["kind"], own[i][e["chunk"]], e["mb"]): e["end"] for i, l in enumerate(j["order"]) for e in l}
    if len(end) != p * v * m * (3 if kind.startswith("zb") else 2) or len(end) != sum(map(len, j["order"])):
        return "entries are missing, or there twice"
    for i, entries in enumerate(j["order"]):
        free = 0
        for e in entries:
            k, n, ready = own[i][e["chunk"]], e["mb"], free
            needs = {"F": [("F", k - 1)], "B": [("F", k), ("B", k + 1)], "W": [("B", k)]}[e["kind"]]
            for work, at in needs:
                if 0 <= at < p * v:
                    ready = max(ready, end[work, at, n] + (hop if place[at] != i else 0))
            if abs(e["start"] - ready) > 1e-9 * ready or abs(e["end"] - e["start"] -
                                                             length[e["kind"]]) > 1e-9 * e["end"]:
                return f"stage {i}: {e}: can start at {ready}"
            free = e["end"]
    return None


def used(entries, r, v):
    """Most pairs in flight, most memory in the unit of the limit."""
    flight = left = 0
    most = [0, 0.0]
    for e in entries:
        flight += {"F": 1, "B": -1, "W": 0}[e["kind"]]
        left += {"F": 0, "B": 1, "W": -1}[e["kind"]]
        split = any(x["kind"] == "W" for x in entries[-1:])
        most = [max(most[0], flight), max(most[1], (flight + r * left * split) / v)]
    return most


def judged(kind, p, m, tf, tb, tw=0, hop=0, **more):
    """The plan's JSON; every figure in it recomputed from the order."""
    v, r = more.get("chunks", 1), more.get("mem_w", 1)
    run = expect([*arguments(kind, p, m, tf, tb, tw, hop, **more), "--json"])
    j = json.loads(run.stdout)
    name = f"{kind} p={p} m={m} v={v}"
    expect.check(f"{name}: {misplaced(j, kind, p, m, tf, tb, tw, hop, v)}",
                 misplaced(j, kind, p, m, tf, tb, tw, hop, v) is None)
    spans = [l[-1]["end"] - l[0]["start"] for l in j["order"]]
    expect.check(f"{name}: makespan", abs(max(spans) - j["makespan"]) <= 1e-9 * max(spans))
    expect.check(f"{name}: wall", abs(max(l[-1]["end"] for l in j["order"]) - j["wall"]) <= 1e-9 * j["wall"])
    expect.check(f"{name}: bubble", abs((max(spans) - m * (tf + tb + tw)) / max(spans) - j["bubble_fraction"]) < 1e-9)
    peaks = [used(l, r, v) for l in j["order"]]
    expect.check(f"{name}: in flight", [f for f, _ in peaks] == j["in_flight"])
    expect.check(f"{name}: memory {peaks} {j['memory']}",
                 all(abs(b - c) < 1e-9 for (_, b), c in zip(peaks, j["memory"])))
    if kind == "zb-auto":
        expect.check(f"{name}: limit", max(j["memory"]) <= more.get("memory_limit", p) + 1e-9)
        expect.check(f"{name}: bound", j["lower_bound"] <= j["makespan"] * (1 + 1e-12))
    return j


def rate(*args, **more):
    return judged(*args, **more)["bubble_fraction"]


# Closed forms: (p-1)/(vm+p-1), in flight; any number of micro-batches.
for p, m in ((1, 7), (4, 8), (3, 2), (8, 24)):
    for kind in ("gpipe", "1f1b"):
        expect.check(f"{kind} {p} {m}", abs(rate(kind, p, m, 1, 2) - (p - 1) / (m + p - 1)) < 1e-9)
for p, v, m in ((4, 2, 8), (8, 3, 16), (4, 2, 7), (5, 3, 13)):
    expect.check(f"interleaved {p} {v} {m}",
                 abs(rate("interleaved", p, m, 1, 2, chunks=v) - (p - 1) / (v * m + p - 1)) < 1e-9)
rate("interleaved", 6, 4, 1.3, 2.1, 0.4, 0.1, chunks=2)
expect.check("1f1b in flight", judged("1f1b", 4, 8, 1, 2)["in_flight"] == [4, 3, 2, 1])
expect.check("zb-h2 in flight", judged("zb-h2", 4, 8, 1, 1, 1)["in_flight"] == [7, 5, 3, 1])

# Published rates (Qi et al. 2024, table 5; 1.5B, 24 micro-batches).
T = (18.522, 18.086, 9.337, 0.601)
for kind, published in (("1f1b", 0.2431), ("zb-h1", 0.1585), ("zb-h2", 0.1083)):
    expect.check(f"{kind} as published", abs(rate(kind, 8, 24, *T) - published) < 1e-4)
expect.check("zb-auto at 1p", rate("zb-auto", 8, 24, *T, mem_w=0.37, time_limit=0.2) < 0.1585 + 1e-4)
expect.check("zb-auto at 2p", rate("zb-auto", 8, 24, *T, mem_w=0.37, memory_limit=16) < 0.0433 + 1e-4)
judged("zb-auto", 6, 9, 1, 2, 0.5, 0.25, memory_limit=1, mem_w=0.5, time_limit=0)
expect.check("V leaves less idle", rate("zb-auto", 4, 8, 1, 1, 1, chunks=2) < rate("zb-auto", 4, 8, 1, 1, 1) / 2)
judged("zb-auto", 5, 7, 1.5, 2, 1, 0.25, chunks=2, memory_limit=3, mem_w=0.4)
judged("zb-auto", 6, 5, 1, 2, 0, 0, memory_limit=1e30, mem_w=0, time_limit=0.1)
judged("zb-auto", 3, 6, 0, 1, 0, 0, chunks=2, memory_limit=6, mem_w=0.5)  # forwards that take no time

expect(
    arguments("zb-h1", 2, 3, 1, 1, 1), 0, "", """\
zb-h1: 1f1b with W postponed into the bubbles; the memory of 1f1b
   0  FFFFFFFFFFFFFFFFFFFFFFFF............BBBBBBBBBBBBWWWWWWWWWWWWFFFFFFFFFFFFBBBBBBBBBBBBWWWWWWWWWWWWBBBBBBBBBBBBWWWWWWWWWWWW
   1  ............FFFFFFFFFFFFBBBBBBBBBBBBFFFFFFFFFFFFBBBBBBBBBBBBWWWWWWWWWWWWFFFFFFFFFFFFBBBBBBBBBBBBWWWWWWWWWWWWWWWWWWWWWWWW
makespan 10, bubble 10.0000 %
stage  in flight    memory  slots FB  FW  BW
    0          2      2.00         2   2   1
    1          1      2.00         1   2   2
""")


def refused(text, *args, **more):
    expect(arguments(*args, **more), 1, lambda err: "" if text in err else f"{text!r} in it")


USAGE = "--kind 1f1b --stages 2 --micro-batches 2 --tf 1 --tb 2".split()
for left_out in range(0, len(USAGE), 2):
    expect(["schedule", *USAGE[:left_out], *USAGE[left_out + 2:]], 2, lambda err, name=USAGE[left_out]: ""
           if f"{name} is missing" in err else f"{name} is missing")
expect(["schedule", "--kind", "2f2b"], 2, lambda err: "" if "is none of gpipe|1f1b" in err else "the kinds")
refused("--stages: error: from 1 to", "1f1b", 0, 2, 1, 2)
refused("--micro-batches: error: from 1 to", "1f1b", 2, -3, 1, 2)
refused("--tb: error: a time is from 0", "1f1b", 2, 3, 1, -2)
refused("--chunks: error: from 1 to", "interleaved", 2, 2, 1, 2, chunks=0)
refused("1f1b has at most 1 chunk per stage, not 2; interleaved has up to 256", "1f1b", 2, 2, 1, 2, chunks=2)
refused("more than 4194304 entries", "gpipe", 4096, 4000000, 1, 2)
refused("--memory-limit: error: 0.99: one micro-batch on a stage takes 1", "zb-auto", 2, 2, 1, 2, 1, memory_limit=0.99)
refused("--mem-w: error:", "zb-auto", 2, 2, 1, 2, 1, mem_w=1.01)
refused("--mem-w: error:", "zb-auto", 2, 2, 1, 2, 1, mem_w=-0.01)
refused("--time-limit: error:", "zb-auto", 2, 2, 1, 2, 1, time_limit=-1)
for tiny, huge in ((1e-310, 0), (1e-200, 1e-201), (1e100, 1e100), (0, 0)):
    expect([*arguments("zb-h2", 3, 4, huge, tiny, huge), "--json"], 0, "", lambda out: ""
           if json.loads(out)["makespan"] >= 0 else "a makespan")

# Bytes of a transformer's layers (Korthikanti et al. 2022, table 2), from the order itself.
GPT = dict(layers=24, s=1024, b=2, h=2048, a=16, t=4)
AGAIN = {
    "none": lambda h, whole, cut, scores: whole + cut + scores, "selective": lambda h, whole, cut, scores: whole + cut,
    "full": lambda h, whole, cut, scores: 2
}


def sized(kind, p, m, again, together, layers, s, b, h, a, t, **more):
    """The plan's bytes against sums over its own entries; with zb kinds half of the memory stays until W."""
    words = [
        "--transformer", layers, "--sequence", s, "--samples", b, "--hidden", h, "--heads", a, "--tensor-parallel", t,
        "--recompute", again
    ]
    words += ["--sequence-parallel"] if together else []
    j = json.loads(expect([*arguments(kind, p, m, 1, 2, 1, mem_w=0.5, **more), *map(str, words), "--json"]).stdout)
    kept = s * b * h * AGAIN[again](h, 10 / t if together else 10, 24 / t, 5 * a * s / h / t)
    peaks = [used(l, 0.5, more.get("chunks", 1))[1] * layers / p * kept for l in j["order"]]
    name = f"{kind} p={p} m={m} {again} {together} {more}"
    expect.check(f"{name}: a layer keeps {kept}, not {j['layer_bytes']}", abs(j["layer_bytes"] - kept) <= 1e-9 * kept)
    expect.check(f"{name}: {peaks}, not {j['activation_bytes']}",
                 all(abs(x - y) <= 1 + 1e-9 * x for x, y in zip(peaks, j["activation_bytes"], strict=True)))
    expect.check(f"{name}: state", abs(j["state_bytes"] - 18 * 12 * h * h * layers / p / t) < 1)


for again, together in itertools.product(AGAIN, (False, True)):
    sized("1f1b", 4, 8, again, together, **GPT)
sized("gpipe", 4, 7, "none", True, **GPT)
sized("1f1b", 4, 2, "none", True, **GPT)
sized("interleaved", 4, 8, "none", False, chunks=3, **GPT)
sized("zb-h1", 4, 8, "none", False, **GPT)
sized("zb-h2", 4, 8, "selective", True, **GPT)
sized("zb-auto", 4, 8, "none", False, chunks=2, time_limit=0.1, **GPT)
SIZES = "--transformer 4 --sequence 1024 --hidden 1024 --heads 8".split()
STAGES = "schedule --kind 1f1b --stages 2 --micro-batches 2".split()
expect([*STAGES, *SIZES], 0, "", lambda text: "" if text.endswith("""
77594624 bytes kept by a layer for a micro-batch; on a stage 0.42 GiB of parameters, gradients and optimizer
stage  in flight    memory  slots FB  FW  BW  activations GiB
    0          2      2.00         2   0   0             0.29
    1          1      1.00         1   0   0             0.14
""") else text)
for i in range(2, len(SIZES), 2):
    expect([*STAGES, *SIZES[:i], *SIZES[i + 2:]], 2, lambda err, name=SIZES[i]: ""
           if f"{name} is missing" in err else f"{name} is missing")
expect([*STAGES, *SIZES, "--heads", "0", "--samples", "-1"], 1, lambda err: ""
       if "--heads: error: from 1 to" in err and "--samples: error: from 1 to" in err else "sizes")
expect([*STAGES, *SIZES, "--stages", "3"], 1, lambda err: ""
       if "4 layers cannot be cut evenly into 3 stages of 1 chunks" in err else "even parts")
for wrong in ("--kind 1f1b --stages 2 --micro-batches 2 --tf 1 --tb 2 --hidden 8",
              "--stages 2 --micro-batches 2 --layers 1,2 --transformer 2",
              "--checkpoints 2 --chain 4 --sequence-parallel"):
    expect(f"schedule {wrong}", 2, lambda err: ""
           if "belongs to a schedule with --transformer" in err else "what belongs to what")

# A chain's backward with few checkpoints.
expect("schedule --checkpoints 2 --chain 4", 0, "", """\
store 0
F 0
F 1
store 2
F 2
B 3
restore 2
B 2
free 2
restore 0
F 0
B 1
restore 0
B 0
free 0
4 steps, 2 checkpoints: 4 forwards, 2 at most of one step, which is enough for 6 steps
""")
expect("schedule --checkpoints 3 --repeats 2 --json", 0, "", lambda text: ""
       if json.loads(text)["max_steps"] == json.loads(text)["steps"] == 10 else "10 steps")
for wrong in ("--checkpoints 2", "--chain 5", "--repeats 2", "--checkpoints 2 --chain 5 --repeats 1"):
    expect(f"schedule {wrong}", 2, lambda err: ""
           if "--checkpoints goes with either --chain or --repeats" in err else "what goes with what")
expect(
    "schedule --checkpoints 0 --chain 1048577", 1, lambda err: "" if "--checkpoints: error: from 1 to 4096, not 0" in
    err and "--chain: error: from 1 to 1048576, not 1048577" in err else "counts")
expect("schedule --checkpoints 1 --chain 100000", 1, lambda err: ""
       if "--chain: error: 100000 steps: their order is longer" in err else "too long")

# Layers for stages (Zheng et al. 2022, eq. 2).
LAYERS = ["schedule", "--stages", "4", "--micro-batches", "8", "--layers"]
expect([*LAYERS, "3,5,4,4", "--json"], 0, "",
       '{"total":51,"proven":true,"stage_times":[3,5,4,4],"first_layer":[0,1,2,3]}\n')
expect([*LAYERS, "1,2,5,4,2,2", "--borders", "0,9,0,0,0.5,0"], 0, "", """\
stage          time  layers
    0             3  0..1
    1             5  2..2
    2             4  3..3
    3             4  4..5
a step takes 60, the least
""")
expect([
    *LAYERS, "1,1,1,1,1,1,1,1", "--fixed", "1,1,1,1,1,1,1,1", "--kept", "1,1,1,1,1,1,1,1", "--memory-limit", "8",
    "--json"
], 0, "", lambda text: ""
       if json.loads(text)["first_layer"] == [0, 1, 3, 5] else "fewer layers on the stages that keep more")
expect([*LAYERS, "3,5,4"], 1, lambda err: "" if "3 layers cannot be cut into 4 stages" in err else "too few layers")
expect([*LAYERS, "3,5,x,4"], 1, lambda err: "" if 'number 3 of "3,5,x,4"' in err else "the number")
expect([*LAYERS, "3,5,4,4", "--kept", "1,2"], 1, lambda err: ""
       if "2 numbers for 4 layers" in err else "how many numbers")
expect([*LAYERS, "3,5,4,4", "--fixed", "9,9,9,9", "--memory-limit", "8"], 1, lambda err: ""
       if "every stage needs 1 bytes more" in err else "what is missing")
expect(["schedule", *USAGE, "--kept", "1"], 2, lambda err: "" if "belong to --layers" in err else "usage")
expect.done()
