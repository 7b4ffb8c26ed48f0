#!/usr/bin/env python3
"""msc report: one page that fetches nothing; its data are those of simulate, explain and explain --roofline, and of a
run; values in use never exceed what the plan has room for, and fill it once; its script is a program."""
import html.parser
import json
import re
import shutil
import subprocess

from expect import Expect, write
from small_models import two_products, write_samples

expect = Expect()


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.scripts, self.inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.links += [value for name, value in attrs.items() if name in ("src", "href")]
        self.inside = attrs.get("id", "program") if tag == "script" else None

    def handle_data(self, data):
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data

    def handle_endtag(self, tag):
        self.inside = None


def reported(plan, *options):
    expect(["report", plan, "-o", "r.html", *options])
    with open("r.html") as file:
        text = file.read()
    page = Page(text)
    expect.check("nothing is fetched", not page.links and not re.search(r"https?:|url\(|import |fetch\(", text))
    return page, json.loads(page.scripts["data"])


EVIL = "</script><b>"
write("net.mlir", two_products(batch=32, hidden=16, names=("w", "v")).replace('loc("up"', f'loc("up{EVIL}"'))
write_samples(64)
expect("compile net.mlir -o net.bin --set device_num=2 --set parallel_mode=data_parallel", 0, None)
page, data = reported("net.bin")
_, of_model = reported("net.mlir", "--set", "device_num=2", "--set", "parallel_mode=data_parallel")
expect.check("of the model itself", {**of_model, "plan": "", "simulation": {**of_model["simulation"], "plan": ""}} ==
             {**data, "plan": "", "simulation": {**data["simulation"], "plan": ""}})
expect.check("what stands in the model stays text", any(EVIL in name for name in data["names"]))
figures = json.loads(expect("simulate net.bin --json").stdout)
for key in ("step_ms", "stages", "ranks", "memory_bytes"):
    expect.check(f"{key} is {data['simulation'][key]}, not {figures[key]}",
                 json.dumps(data["simulation"][key])[:9] == json.dumps(figures[key])[:9])
told = json.loads(expect("explain net.bin --json").stdout)
expect.check("the decisions are those of explain",
             [o["op"] for o in data["explain"]["ops"]] == [o["op"] for o in told["ops"]])
last = max(e[2] + e[3] for e in data["events"])
expect.check(f"the step is {data['simulation']['step_ms']} ms, its last event ends at {last} us",
             abs(last / 1e3 - data["simulation"]["step_ms"]) < 1e-6)
expect.check("without a run nothing was measured", "measured" not in data)

# ---- memory ----

dump = expect("dump net.bin").stdout.decode()
room = max(int(n) for n in re.findall(r"^section train.*scratch (\d+) bytes", dump, re.M))
peak = max(bytes_in_use for _, bytes_in_use, _ in data["memory"][0]["use"])
expect.check(f"{peak} bytes in use at most, of {room}", 0 < peak <= room <= peak + 64 * len(data["events"]))

# ---- a run ----

expect("run net.bin -n 2 --data x=x.idx y=y.idx --steps 3 --trace t.json", 0, None)
page, data = reported("net.bin", "--run", "t.json")
expect.check("both ranks were measured", {e[0] for e in data["measured"]} == {0, 1})
expect.check("from the step's begin on", min(e[2] for e in data["measured"]) == 0)
expect.check("calls have times", any("measured_ns" in c for c in data["calls"]))

node = shutil.which("node")
if node:
    write("page.js", page.scripts["program"])
    done = subprocess.run([node, "--check", "page.js"], capture_output=True, text=True)
    expect.check(done.stderr, done.returncode == 0)
else:
    print("skipped: whether the page's script is a program: node is missing")

# ---- what is wrong ----

expect(["compile", "net.mlir", "-o", "other.bin"], 0, None)
expect("report other.bin --run t.json -o r.html", 1, lambda err: "" if "t.json" in err else "the trace")
expect("report net.bin --run net.mlir -o r.html", 1, lambda err: "" if "net.mlir" in err else "the trace")
expect("report net.bin -o net.bin", 1, lambda err: "" if "net.bin" in err else "the file")
expect("report", 2, "msc report: error: needs PLAN|MODEL (msc report --help)\n")
made = ["net.mlir", "net.bin", "other.bin", "r.html", "t.json", "x.idx", "y.idx"]
expect.no_files(*made, *(["page.js"] if node else []))
expect.done()
