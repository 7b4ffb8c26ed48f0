#!/usr/bin/env python3
"""msc simulate: on its own cluster a plan takes what it predicts; the parts of a stage's step add up to it; times of
one product and of its all_reduce are those of a description written by hand; the trace says the same as the figures;
a model that the command compiles itself is simulated as its plan is."""
import json
import subprocess
import sys

from expect import Expect, write
from small_models import two_products

expect = Expect()


def layers(num, stages=1, width=256, batch=64):
    """Products of one size in a row, with a loss and sgd, in stages with as many of them each."""
    x, w = f"tensor<{batch}x{width}xf32>", f"tensor<{width}x{width}xf32>"
    body = "".join(
        f'    %{i} = "msc.matmul"(%{i - 1 if i else "x"}, %w{i}) {{pipeline_stage = {i * stages // num}}} : '
        f'({x}, {w}) -> {x} loc("fc{i}"("net.py":{i}:1))\n' for i in range(num))
    parameters = ", ".join(
        f'{{msc.name = "w{i}", msc.role = "parameter", msc.init = "normal:0.1"}}' for i in range(num))
    return f"""module attributes {{msc.name = "net"}} {{
  "msc.func"() ({{
  ^bb0(%x: {x}, {", ".join(f"%w{i}: {w}" for i in range(num))}):
{body}    %s = "msc.mul"(%{num - 1}, %{num - 1}) : ({x}, {x}) -> {x}
    %l = "msc.reduce_mean"(%s) {{dims = [0, 1]}} : ({x}) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }}) {{sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {parameters}],
      optimizer = {{kind = "sgd", lr = 1.0e-02 : f64}}}} : () -> ()
}}
"""


def cluster(path="c.json", flops=1e12, bytes_per_s=1e12, launch_ns=10, latency_ns=100, link=1e9, memory=10**12,
            **more):
    write(path, json.dumps({"device": {"name": "by hand", "flops_per_s": {"f32": flops}, "memory_bytes": memory,
                                       "bytes_per_s": bytes_per_s, "launch_ns": launch_ns, **more},
                            "levels": [{"name": "all", "latency_ns": latency_ns, "bytes_per_s": link}]}))
    return path


def near(what, got, wanted, tolerance=1e-6):
    expect.check(f"{what} is {got}, not {wanted}", abs(got - wanted) <= tolerance)


def simulated(plan, *options):
    m = json.loads(expect(["simulate", plan, "--json", *options]).stdout)
    for s in m["stages"]:
        total = sum(s["ms"].values()) + sum(s["exposed_ms"].values())
        near(f"{plan}, stage {s['stage']}: the sum of its parts", total, m["step_ms"])
    return m


# ---- one product on one device, and its gradient's all_reduce on four: by hand ----

write("one.mlir", layers(1))
cluster()
expect("compile one.mlir -o one.bin --cluster c.json", 0, None)
flops = 2 * 64 * 256 * 256
m = simulated("one.bin")
near("forward", m["stages"][0]["ms"]["forward"], flops / 1e12 * 1e3, 1e-3)  # the mean is 10 to 70 ns beside it
kept = m["stages"][0]["persistent_bytes"] + m["stages"][0]["scratch_bytes"]
near("memory", m["memory_bytes"], kept, 2 * 64 * 256 * 4 + 256)  # and two batches
m = simulated("one.bin", "--cluster", cluster("slow.json", flops=1e11))
near("forward, ten times slower", m["stages"][0]["ms"]["forward"], 10 * flops / 1e12 * 1e3, 1e-3)

FOUR = "--cluster c.json --set device_num=4 --set parallel_mode=data_parallel"
expect(f"compile one.mlir -o four.bin {FOUR}", 0, None)
m = simulated("four.bin")
(stage,) = m["stages"]
near("ranks", m["ranks"], 4)
# a rank receives 3/4 of the gradient twice; the loss is 4 bytes more
sent = 2 * 3 / 4 * 256 * 256 * 4
near("received", sum(stage["received_bytes"].values()), sent, 16)
exposed = sum(stage["exposed_ms"].values())
near("exposed", exposed, (10 + 4 * 100 + sent) / 1e6, 2e-3)  # a launch, two rounds of a tree twice, the bytes at 1 GB/s
for link in (2e9, 4e9):
    (stage,) = simulated("four.bin", "--cluster", cluster("fast.json", link=link))["stages"]
    near(f"exposed at {link} bytes/s", sum(stage["exposed_ms"].values()), (410 + sent / (link / 1e9)) / 1e6, 2e-3)

# ---- what of the gradients' all_reduces runs beside the backward, as the trace shows it ----

write("deep.mlir", layers(4))
shares = []
for link in (1e9, 4e9, 64e9):
    cluster("deep.json", link=link, latency_ns=1, launch_ns=1, flops=1e11)
    expect("compile deep.mlir -o deep.bin --cluster deep.json --set device_num=4 --set parallel_mode=data_parallel", 0,
           None)
    (stage,) = simulated("deep.bin", "--trace", "t.json")["stages"]
    events = [e for e in json.load(open("t.json"))["traceEvents"] if e["ph"] == "X"]
    calls, links = ([(e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == c] for c in ("call", "collective"))
    busy = sum(end - begin for begin, end in links)
    beside = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in links for b in calls)
    (link_ms,), (received,), (hidden,) = (stage[k].values() for k in ("link_ms", "received_bytes", "hidden_bytes"))
    near(f"time of collectives at {link} bytes/s", link_ms, busy / 1e3, 1e-5)
    near(f"hidden bytes at {link} bytes/s", hidden, received * beside / busy, received * 1e-4)
    shares.append(hidden / received)
    said = f"{received} bytes a step in {link_ms:.3f} ms, {100 * shares[-1]:.1f} % of it beside calls"
    text = expect("simulate deep.bin").stdout.decode()
    expect.check(f"'{said}' is not in {text}", said in text)
expect.check(f"faster links hide more: {shares}", shares[0] < 0.1 < shares[1] < 0.9 < shares[2])

# ---- a pipeline: four stages alike, eight micro-batches; what is not its own work is a bubble or a message ----

write("four.mlir", layers(4, 4))
write("two.mlir", layers(4, 2))
cluster("links.json", link=1e15, latency_ns=1, launch_ns=1)
expect(["compile", "four.mlir", "-o", "pipe.bin", "--cluster", "links.json",
        *"--set device_num=4 --set pipeline_stages=4 --set micro_size=8 --set parallel_mode=semi_auto_parallel "
        "--set pipeline_scheduler=gpipe".split()], 0, None)
m = simulated("pipe.bin", "--trace", "t.json")
for s in m["stages"]:
    work = sum(s["ms"][k] for k in ("forward", "backward", "recompute", "launch"))
    idle = s["ms"]["bubble"] / (m["step_ms"] - s["ms"]["optimizer"])
    share = 1 if s["stage"] else 2 / 3  # the first stage's input has no gradient
    near(f"bubble of stage {s['stage']}, beside {work} ms of work", idle, 1 - share * 8 / 11, 0.06)

events = [e for e in json.load(open("t.json"))["traceEvents"] if e["ph"] == "X"]
for s in m["stages"]:
    own = sorted((e["ts"], e["ts"] + e["dur"], e["cat"]) for e in events if e["pid"] == s["stage"] and e["tid"] == 0)
    overlaps = [(a, b) for a, b in zip(own, own[1:]) if b[0] < a[1] - 1e-6]
    expect.check(f"stage {s['stage']}: {overlaps[:1]} at once", own and not overlaps)
    busy = sum(end - begin for begin, end, kind in own if kind == "call") / 1e3
    near(f"work of stage {s['stage']} in the trace", busy,
         sum(s["ms"][k] for k in ("forward", "recompute", "backward", "optimizer", "launch")))
expect.check("no event begins before the step", min(e["ts"] for e in events) == 0)

# ---- to begin the forward or backward of a micro-batch takes time, to prepare and update parameters does not ----

plain = simulated("pipe.bin", "--cluster", cluster("plain.json", link=1e15, latency_ns=1, launch_ns=1))
m = simulated("pipe.bin", "--cluster", cluster("begins.json", link=1e15, latency_ns=1, launch_ns=1, section_ns=10**7),
              "--trace", "t.json")
for s, before in zip(m["stages"], plain["stages"]):  # eight forwards and eight backwards of 10 ms
    near(f"stage {s['stage']} begins", s["ms"]["launch"] - before["ms"]["launch"], 160, 1e-3)
# a stage begins a section while it waits for the message that the section begins with
near("the step with beginnings", m["step_ms"] - plain["step_ms"], 160, 1)
begins = [e for e in json.load(open("t.json"))["traceEvents"] if e.get("cat") == "begin"]
expect.check(f"{len(begins)} beginnings in the trace", len(begins) == 4 * 16)
expect.check("a beginning is called like its section", begins[0]["name"].startswith("begin: train."))
expect(["compile", "one.mlir", "-o", "own.bin", "--cluster", "begins.json"], 0, None)
m = simulated("own.bin")
expect.check("a step of one section begins once", 10 < m["step_ms"] < 11)
near("step of a plan whose sections take time to begin", m["step_ms"], m["planned_step_ms"], 1e-9)

# ---- what is computed again has a time of its own ----

write("again.mlir", two_products(batch=64, hidden=64, dropout=False).replace(
    '"msc.matmul"(%x, %w) :', '"msc.matmul"(%x, %w) {recompute = true} :'))
expect("compile again.mlir -o again.bin --cluster c.json", 0, None)
dump = expect("dump again.bin").stdout.decode()
m = simulated("again.bin")
expect.check("up is computed again", "(up.recompute)" in dump and m["stages"][0]["ms"]["recompute"] > 0)

# ---- a part of what a rank has comes from nobody ----

write("cut.mlir", layers(1).replace("{pipeline_stage = 0}", "{in_strategy = [[1, 1], [1, 1]]}").replace(
    '"msc.mul"(%0, %0)', '"msc.mul"(%0, %0) {in_strategy = [[4, 1], [4, 1]]}'))
expect(f"compile cut.mlir -o cut.bin {FOUR.replace('data_parallel', 'semi_auto_parallel')}", 0, None)
(stage,) = simulated("cut.bin")["stages"]
expect.check(f"groups {stage['received_bytes']}", list(stage["received_bytes"]) == ["{d}"])

# ---- on its own cluster a plan takes what it predicts ----

for options in ("", "--set device_num=4 --set parallel_mode=data_parallel --set zero=1",
                "--set device_num=4 --set parallel_mode=auto_parallel",
                "--set device_num=4 --set parallel_mode=semi_auto_parallel --set pipeline_stages=2 --set micro_size=4",
                "--set device_num=4 --set parallel_mode=auto_parallel --cluster h100 --target cuda"):
    expect(f"compile {'two' if 'pipeline' in options else 'one'}.mlir -o own.bin {options}", 0, None)
    m = simulated("own.bin")
    near(f"step with {options}", m["step_ms"], m["planned_step_ms"], 1e-9)
    model = "two.mlir" if "pipeline" in options else "one.mlir"  # it is compiled by the command itself
    of_model = json.loads(expect(["simulate", model, "--json", *options.split()]).stdout)
    expect.check(f"of the model itself, with {options}: {of_model} {m}",
                 {**of_model, "plan": ""} == {**m, "plan": ""} and of_model["plan"] == model)

# ---- a search counts what happens once per step once, not once per micro-batch ----

write("many.mlir", layers(4, batch=4096))
cluster("narrow.json", link=1e10)
step = {}
for mode in ("auto_parallel", "data_parallel"):
    expect(f"compile many.mlir -o many.bin --cluster narrow.json --set device_num=4 --set parallel_mode={mode} "
           "--set micro_size=16", 0, None)
    step[mode] = simulated("many.bin", "--cluster", "narrow.json")["step_ms"]
expect.check(f"16 micro-batches take {step}", step["auto_parallel"] <= 1.001 * step["data_parallel"])

# ---- what a search finds is no slower than data parallelism, whose kernels fuse more of the loss here ----

subprocess.run([sys.executable, "-m", "msc.models", "gpt", "-o", "gpt.fbs",
                *"--layers 1 --hidden 256 --heads 4 --seq 256 --batch 64 --vocab 50304".split()], check=True)
for options in ("", "--set compute_type=bf16", "--set micro_size=4"):
    step = {mode: json.loads(expect(["simulate", "gpt.fbs", "--json", *f"--cluster h100 --target cuda {options} --set "
                                     f"device_num=8 --set parallel_mode={mode}".split()], 0, None).stdout)["step_ms"]
            for mode in ("auto_parallel", "data_parallel")}
    expect.check(f"with {options or 'nothing'} a step takes {step}", step["auto_parallel"] <= step["data_parallel"])

# ---- what is said, and what is wrong ----

cluster("small.json", memory=100000)
text = expect("simulate four.bin --cluster small.json", 0, lambda err: ""
              if "bytes per rank, and a device of the cluster has 100000" in err else "a warning").stdout.decode()
expect.check(text, text.startswith("a step takes ") and "4 x by hand" in text and "exposed" in text)
expect("simulate four.bin --cluster h101", 1, lambda err: "" if "h101" in err else "the name")
expect("simulate none.mlir", 1, lambda err: "" if "none.mlir" in err else "the file")
write("not.mlir", "not a model")
expect("simulate not.mlir", 1, lambda err: "" if "not.mlir:1:" in err else "the place")
expect("simulate one.mlir --set device_num=3x", 1, lambda err: "" if "device_num" in err else "the key")
expect("simulate one.mlir --target rocm", 1, lambda err: "" if "rocm" in err else "the target")
expect("simulate one.mlir --dim batch=4", 1, lambda err: "" if "a text states all" in err else "the size")
expect("simulate four.bin --target cpu", 1, lambda err: "" if "--target is for models" in err else "the option")
expect("simulate four.bin --set device_num=2", 1, lambda err: "" if "device_num is 2" in err else "the key")
expect("simulate four.bin -o four.bin", 1, lambda err: "" if "four.bin" in err else "the file")
expect("simulate", 2, "msc simulate: error: needs PLAN|MODEL (msc simulate --help)\n")
expect.no_files(*(f"{n}.bin" for n in ("one", "four", "pipe", "again", "cut", "own", "many", "deep", "not")), "gpt.fbs",
                *(f"{n}.mlir" for n in ("one", "two", "four", "again", "cut", "many", "deep", "not")),
                *(f"{n}.json" for n in ("c", "slow", "fast", "links", "small", "t", "plain",
                                         "begins", "narrow", "deep")))
expect.done()
