#!/usr/bin/env python3
"""msc reshard: the JSON of a plan, its table, and every way to ask for something that cannot be had."""
import json

from expect import Expect

expect = Expect()
MOVE = [
    "reshard", "--mesh", "x=4,y=2", "--shape", "16,16,16", "--bytes", "4", "--from", "[{y},{},{x}]", "--to",
    "[{},{x,y},{}]"
]
SUM = ["reshard", "--mesh", "x=8", "--shape", "1024,4096", "--from", "[{},{}] partial={x}", "--to", "[{},{}]"]


def plan(args, **wanted):
    """The plan's JSON has these values, and steps that follow each other."""
    def wrong(text):
        j = json.loads(text)
        if sum(s["bytes"] for s in j["steps"]) != j["bytes"]:
            return "bytes are not the sum of the steps'"
        if any(a["to"] != b["from"] for a, b in zip(j["steps"], j["steps"][1:])):
            return "a step does not start where the one before ends"
        got = {**j, "ops": " ".join(s["op"] for s in j["steps"])}
        return "" if {k: got[k] for k in wanted} == wanted else f"{wanted} in {got}"
    expect([*args, "--json"], 0, "", wrong)


expect([*MOVE, "--json"], 0, "",
       '{"steps":[{"op":"all_to_all","from":"[{y},{},{x}]","to":"[{},{x,y},{}]","bytes":1792}],'
       '"bytes":1792,"lower_bound":1792,"peak_bytes":4096,"proven":true}\n')
expect(MOVE, 0, "", """\
step           layout            bytes received     local in + out
               [{y},{},{x}]
all_to_all     [{},{x,y},{}]              1,792              4,096
total                                     1,792              4,096
lower bound    1,792 bytes: no plan moves less
""")
expect([
    "reshard", "--mesh", "node=4,gpu=4", "--shape", "8192,8192", "--bytes", "2", "--from", "[{},{}] partial={node,gpu}",
    "--to", "[{},{}]", "--link", "node=20:50", "gpu=3:400"
], 0, "", """\
step           layout                         bytes received     local in + out           us
               [{},{}] partial={node,gpu}
reduce_scatter [{gpu},{}] partial={node}         100,663,296        167,772,160        270.7
all_reduce     [{gpu},{}]                         50,331,648         67,108,864       1096.6
all_gather     [{},{}]                           100,663,296        167,772,160        270.7
total                                            251,658,240        167,772,160       1638.0
""")
plan(SUM, ops="all_reduce", bytes=29360128, lower_bound=None, peak_bytes=33554432)
plan([*SUM, "--peak", "24M"], ops="reduce_scatter all_gather", bytes=29360128, peak_bytes=18874368)
plan(["reshard", "--mesh", "x=2,y=4", "--shape", "4096,1024", "--from", "[{x},{}]", "--to", "[{y},{}]"],
     ops="slice permute", bytes=4194304, lower_bound=4194304)
plan(["reshard", "--mesh", "x=2,y=2", "--shape", "8,8", "--from", "[{x},{y}]", "--to", "[{y},{x}]"], ops="permute",
     bytes=64)
plan([
    "reshard", "--mesh", "x=2,y=2", "--shape", "8,8", "--from", "[{x},{y}]", "--to", "[{y},{x}]", "--set",
    "enable_alltoall=false"
], ops="permute", bytes=64)
plan([
    "reshard", "--mesh", "x=4", "--shape", "8,8", "--from", "[{x},{}]", "--to", "[{},{x}]", "--set",
    "enable_alltoall=false"
], ops="all_gather slice", bytes=192)
plan(["reshard", "--mesh", "x=4", "--shape", "8", "--from", "[{x}]", "--to", "[{x:(1)2,x:(2)2}]"], ops="", bytes=0,
     lower_bound=0, peak_bytes=8)
plan(["reshard", "--mesh", "x=4", "--shape", "", "--from", "[] partial_max={x}", "--to", "[]"], ops="all_reduce",
     bytes=6)
plan(["reshard", "--mesh", "x=4", "--shape", "10", "--bytes", "1", "--from", "[{x}]", "--to", "[{}]"], lower_bound=9)

# Many devices, many axes, parts that differ or are empty: an answer soon, and in little memory.
LARGE = ["--max-memory", "256M", "--mesh"]
plan(["reshard", *LARGE, "d=65536", "--shape", "50257,768", "--bytes", "2", "--from", "[{d},{}]", "--to", "[{},{d}]"],
     ops="exchange", bytes=100512, lower_bound=100512)
plan(["reshard", *LARGE, "d=8", "--shape", "50257,768", "--from", "[{d},{}]", "--to", "[{},{}]"], ops="all_gather",
     bytes=135109632, lower_bound=135109632)
plan(["reshard", *LARGE, "d=8", "--shape", "9", "--from", "[{d}]", "--to", "[{}]"], ops="all_gather", bytes=36,
     lower_bound=36)
plan(["reshard", *LARGE, "d=1000", "--shape", "1000,1000", "--from", "[{d},{}]", "--to", "[{},{d}]"], ops="all_to_all",
     bytes=3996)
plan([
    "reshard", *LARGE, "a=6,b=8,c=1000", "--shape", "48000,48000", "--from", "[{a,c},{b}] partial={}", "--to",
    "[{b},{c,a}]"
], lower_bound=192000, bytes=192000)
plan([
    "reshard", *LARGE, "a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2", "--shape", "1024,1024,1024,1024", "--bytes", "1", "--from",
    "[{a,b},{c},{},{}] partial={d,e,f}", "--to", "[{d,c},{b,a},{h},{g}]"
], ops="slice reduce_scatter permute all_gather", bytes=47244640256, proven=True)
plan([
    "reshard", *LARGE, "a=4,b=4,c=4,d=4,e=4,f=4,g=4,h=4", "--shape", "65536,65536,65536", "--bytes", "4", "--from",
    "[{a,b,c},{},{f,g}] partial={d,e,h}", "--to", "[{h,g,f},{e,d},{c,b,a}]"
], bytes=1099511627776, proven=True)

# Nothing fits, and what cannot be.
expect(
    [*SUM, "--peak", "100"], 1,
    "--peak: error: no plan stays within 100 bytes of local memory in and out; the smallest limit that would do is "
    "18874368 [E0118]\n",
    "")
plan([*SUM, "--peak", "18874368"], peak_bytes=18874368)
expect([*SUM, "--peak", "18874367"], 1, lambda text: "" if "would do is 18874368" in text else "smallest limit", "")
expect(
    ["reshard", "--mesh", "x=8", "--shape", "8", "--from", "[{}]", "--to", "[{}] partial={x}"], 1,
    '--to: error: "[{}] partial={x}" is partial where "[{}]" is not; a plan can finish partial values, not make them '
    '[E0107]\n'
)
expect(
    ["reshard", "--mesh", "x=8", "--shape", "8", "--from", "[{}] partial={x}", "--to", "[{}] partial_max={x}"], 1,
    '--to: error: "[{}] partial_max={x}" is another reduction than "[{}] partial={x}"; a partial value can only be '
    'finished [E0107]\n'
)

# Input.
BASE = {"mesh": "x=4", "shape": "8", "from": "[{x}]", "to": "[{}]"}


def faulty(code, message, **changed):
    options = {**BASE, **changed}
    expect(["reshard", *(w for k, v in options.items() if v is not None for w in ("--" + k, v))], code, message)


faulty(2, "msc reshard: error: --mesh is missing (msc reshard --help)\n", mesh=None)
faulty(2, "msc reshard: error: --to is missing (msc reshard --help)\n", to=None)
faulty(2, "msc reshard: error: --peak: at least 1 byte (msc reshard --help)\n", peak="0")
faulty(1, '--mesh: error: mesh "x=0": 0 is not between 1 and 65536 [E0110]\n', mesh="x=0")
faulty(
    1,
    '--from: error: layout "[{y}]": the mesh has no axis \'y\' [E0107]\n--to: error: layout "[{},{}]" has 2 '
    'dimensions and the shape 1 [E0107]\n',
    mesh="long=4", **{"from": "[{y}]", "to": "[{},{}]"})
faulty(
    1,
    '--from: error: layout "[({x}2,{}4)]": a dimension that is a product, ({x}2,{y}3), is not supported yet [E0111]\n',
    **{"from": "[({x}2,{}4)]"})
faulty(1, '--shape: error: "8,x" is not a list of sizes such as 16,16,16 [E0102]\n', shape="8,x")
faulty(1, '--shape: error: "-8" is not a list of sizes such as 16,16,16 [E0102]\n', shape="-8")
faulty(1, '--shape: error: "8," is not a list of sizes such as 16,16,16 [E0102]\n', shape="8,")
faulty(1, '--shape: error: "1,1,1,1,1,1,1,1,1" has more than 8 dimensions [E0102]\n', shape="1,1,1,1,1,1,1,1,1")
faulty(1, '--shape: error: "99999999999999999999": 99999999999999999999 is too large [E0102]\n',
       shape="99999999999999999999")
faulty(1, '--shape: error: "2000000000,2000000000" is too large: more than 2^61 bytes [E0102]\n',
       shape="2000000000,2000000000")
faulty(1, "--bytes: error: an element has 1, 2, 4 or 8 bytes, not 3 [E0102]\n", bytes="3")
faulty(1, "--link: error: x=1: expected AXIS=MICROSECONDS:GIGABYTES_PER_SECOND, such as node=20:50 [E0110]\n",
       link="x=1")
faulty(1, "--link: error: x=1:0: expected AXIS=MICROSECONDS:GIGABYTES_PER_SECOND, such as node=20:50 [E0110]\n",
       link="x=1:0")
faulty(1, "--link: error: y=1:2: the mesh has no axis 'y' [E0107]\n", link="y=1:2")
faulty(1, "--link: error: axis 'y' is missing: the time of a plan needs every axis [E0110]\n", mesh="x=4,y=2",
       link="x=1:2")
# ---- device matrices and ranks ----

MATRICES = [
    "reshard", "--from-device-matrix", "2,2,2", "--from-tensor-map", "2,1,0", "--to-device-matrix", "8,1,1",
    "--to-tensor-map", "2,1,0", "--shape", "32,64,128"
]


def ranks(args, needed, *groups):
    """Whom ranks need, and with --rank from whom it gets its part in each step."""
    def wrong(text):
        j = json.loads(text)
        got = ({k: sorted(v) for k, v in j["needed"].items()}, [s.get("ranks") for s in j["steps"]])
        return "" if got == (needed, list(groups)) else str(got)
    expect([*args, "--json"], 0, "", wrong)


plan(MATRICES, ops="all_to_all", bytes=98304)
ranks([*MATRICES, "--rank", "1"], {"1": [0, 1, 2, 3]}, [0, 1, 2, 3])
ranks([*MATRICES, "--rank", "17", "--ranks", "10..17"], {"17": [14, 15, 16, 17]}, [14, 15, 16, 17])
plan([
    "reshard", "--from-device-matrix", "2", "--from-tensor-map", "0", "--to-device-matrix", "4", "--to-tensor-map", "0",
    "--shape", "8"
], ops="slice permute", bytes=8)
PAIR = [
    "reshard", "--from-device-matrix", "2,2", "--from-tensor-map", "1,0", "--to-device-matrix", "4,2",
    "--to-tensor-map", "1,0", "--shape", "8,8"
]
ranks([*PAIR, "--from-ranks", "0..3", "--to-ranks", "0..7"],
      {"0": [0], "1": [1], "2": [0], "3": [1], "4": [2], "5": [3], "6": [2], "7": [3]}, None)
expect([*PAIR, "--from-ranks", "0..3", "--to-ranks", "4..11", "--rank", "6"], 0, "",
       "each rank fetches what it lacks, at most 32 bytes\nrank 6        from [0]\n")
expect([*PAIR, "--from-ranks", "0..3"], 2, lambda err: "" if "belong together" in err else "usage", "")
expect([*PAIR, "--mesh", "x=2"], 2, lambda err: "" if "not both" in err else "usage", "")
expect([*PAIR, "--rank", "9"], 1, lambda err: "" if "rank 9 is not among the 8 ranks" in err else "message", "")

faulty(2, "msc reshard: error: --launch: microseconds, from 0 on (msc reshard --help)\n", launch="-5")
# Parts of chosen sizes: no plan moves less than what the worst device lacks, and this one moves no more.
plan = json.loads(
    expect([
        "reshard", "--mesh", "x=4", "--shape", "64,8", "--from", "[{x}/(10,20,30,4),{}]", "--to", "[{x},{}]", "--json"
    ]).stdout)
expect.check(f"chosen sizes: {plan}", plan["bytes"] == plan["lower_bound"] == 384 and plan["proven"])
expect.done()
