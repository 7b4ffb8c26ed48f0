#!/usr/bin/env python3
"""msc compile: the same bytes every time and from a loaded strategy file; batches of several sizes; every kind of
wrong input with its exact messages, all of a run at once, and no file left behind."""
import json
import os
import re
import subprocess
import sys

from expect import Expect, write

expect = Expect()
os.environ["XDG_CACHE_HOME"] = "/dev/null"


def network(name, *options):
    subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", name, *options], check=True)


MODES = "--set device_num=8 --set parallel_mode=auto_parallel --set search_mode=sharding_propagation"
STRATEGIES = ["--strategy", "dense1=((2,4),(4,1))", "--strategy", "dense3=((1,8),(8,1))"]
quiet = None  # what goes to stderr is not the point

# ---- right input ----

network("ffn.fbs", *STRATEGIES)
expect(f"compile ffn.fbs -o a.bin {MODES} --set strategy_ckpt_save_file=s.json --depfile a.d", 0, quiet, "")
expect(f"compile ffn.fbs -o b.bin {MODES} --set strategy_ckpt_save_file=t.json", 0, quiet, "")
plan = open("a.bin", "rb").read()
expect(f"compile ffn.fbs -o b.bin {MODES} --set strategy_ckpt_load_file=s.json", 0, quiet, "")
expect.check("what was decided before gives the same plan, bit for bit", open("b.bin", "rb").read() == plan)
expect.check("strategy files are equal", open("s.json").read() == open("t.json").read())
expect.check("depfile", open("a.d").read() == "a.bin: ffn.fbs\n")
report = json.loads(expect(f"compile ffn.fbs -o c.bin {MODES} --json", 0, quiet).stdout)
for field in ("ops", "ranks", "stages", "compile_ms", "passes", "memory_bytes_per_rank", "collectives",
              "comm_subgraphs", "comm_bytes_per_rank", "predicted_step_ms"):
    expect.check(f"--json has {field}", field in report)
expect.check("--json counts ranks", report["ranks"] == 8)
peak = report["peak"]
expect.check(
    f"what is in use at the peak: {peak}", peak["op"] and 0 < peak["live"] <= report["memory"]["scratch"] and
    sum(u["bytes"] for u in peak["uses"]) == peak["live"])
expect(
    f"compile ffn.fbs -o c.bin {MODES}", 0, lambda t: "" if
    f"values of a step {report['memory']['scratch']} bytes\n  at {peak['op']} {peak['live']} of them are in use: "
    f"{peak['uses'][0]['op']}"
    in t else t)
report = json.loads(expect(f"compile ffn.fbs -o bad.bin {MODES} --set overlap=false --json", 0,
                           quiet).stdout)  # no order needs less
peak, limit = report["peak"], report["memory_bytes_per_rank"] - 1
os.unlink("bad.bin")
expect(
    f"compile ffn.fbs -o bad.bin {MODES} --set memory_limit={limit}", 1, lambda t: "" if
    f"memory_limit is {limit} [E0118]" in t and f"most values live at once, {peak['live']} bytes, are at {peak['op']}"
    in t and f"{peak['uses'][0]['bytes']} bytes of them are" in t else t, "")
# Nothing that is computed again helps where evaluation alone needs more: that is said, and no choices are tried.
subprocess.run([
    sys.executable, "-m", "msc.models", "gpt", "--layers", "1", "--hidden", "32", "--heads", "2", "--seq", "64",
    "--batch", "65536", "--vocab", "4000", "-o", "wide.fbs"
], check=True)
WIDE = "compile wide.fbs -o wide.bin --target cuda --cluster h100 --set compute_type=bf16 --set recompute=auto"
expect(f"{WIDE} --timing", 0, lambda t: "" if
       "evaluation, which returns the outputs of the model, needs most" in t and "are at loss of the evaluation" in t
       and "computed again" not in t and "allocate, trials: 1\n" in t else t)
os.unlink("wide.fbs")
os.unlink("wide.bin")
expect.check("same input, same bytes",
             open("c.bin", "rb").read() == expect(f"compile ffn.fbs -o - {MODES}", 0, quiet).stdout)
expect("verify a.bin", 0, "", "a.bin: sound (plan)\n")

# Kernels enough for LLVM to make in several parts, on all CPUs and on one.
GPT = "compile gpt.fbs --set device_num=4 --set parallel_mode=auto_parallel"
subprocess.run([
    sys.executable, "-m", "msc.models", "gpt", "--layers", "4", "--hidden", "64", "--heads", "4", "--seq", "32",
    "--batch", "8", "--vocab", "96", "-o", "gpt.fbs"
], check=True)
told = expect(f"{GPT} -o one.bin", 0, quiet).stderr.decode()
listed = expect(f"{GPT} -o one.bin -v", 0, quiet).stderr.decode()
counts = dict(reversed(pair.split()) for pair in re.search(r"ops were given layouts \((.*?)\); ", told)[1].split(", "))
expect.check("the number of ops by who decided, and with -v each of them",
             "(search)\n" not in told and int(counts.get("search", 0)) > 100
             and all(listed.count(f" ({by})\n") == int(num) for by, num in counts.items()))
cpus = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(cpus)})
expect(f"{GPT} -o other.bin", 0, quiet)
os.sched_setaffinity(0, cpus)
expect.check("the number of CPUs changes no byte", open("one.bin", "rb").read() == open("other.bin", "rb").read())
for name in ("gpt.fbs", "one.bin", "other.bin"):
    os.unlink(name)

network("plain.fbs")

# What ran is what the table says: between two checkpoints every pass for the target, as often as each other, in the
# order of the table; and in the whole, beside trials, once.  Trials are runs of such stretches on copies.
ROWS = json.loads(expect("opt --list-passes --json", 0).stdout)["passes"]
expect.check("the table has rows for one target", {row["name"]: row["target"] for row in ROWS if row["target"]}.items()
             >= {"tile": "cpu", "align": "cuda"}.items())
expect.check("the table begins and ends at a checkpoint", ROWS[0]["checkpoint"] and ROWS[-1]["checkpoint"])

def stretches(timed, target):
    """{"propagated": (2, 0), ...}: how often the passes behind each checkpoint ran, on the module itself and in
    trials."""
    rows = re.findall(r"^ *[0-9.]+ ms  (\w+)(?:, (runs|trials): (\d+))?$", timed, re.MULTILINE)
    counts = {name: [0, 0] for name, _, _ in rows}
    for name, what, number in rows:
        counts[name][what == "trials"] = int(number or 1)
    expect.check(
        f"order of {rows}",
        list(counts) == [row["name"] for row in ROWS if not row["checkpoint"] and row["target"] in (None, target)])
    ran = {}
    for row in ROWS:
        if row["checkpoint"]:
            behind = ran[row["name"]] = set()
        elif row["name"] in counts:
            behind.add(tuple(counts[row["name"]]))
    expect.check(f"whole stretches: {ran}", all(len(behind) == 1 for behind in list(ran.values())[:-1]))
    return {name: behind.pop() for name, behind in ran.items() if behind}

SEARCHES = "--set device_num=8 --set parallel_mode=auto_parallel"
STAGES = "--set micro_size=8 --set pipeline_stages=2 --set device_num=2 --set parallel_mode=semi_auto_parallel"
CHECKPOINTS = [row["name"] for row in ROWS if row["checkpoint"]]
write(
    "merged.mlir", """module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x6x8xf32>, %w: tensor<8x10xf32>):
    %0 = "msc.reshape"(%x) {shape = [24, 8]} : (tensor<4x6x8xf32>) -> tensor<24x8xf32> loc("merge")
    %1 = "msc.matmul"(%0, %w) : (tensor<24x8xf32>, tensor<8x10xf32>) -> tensor<24x10xf32> loc("dense")
    %2 = "msc.reshape"(%1) {shape = [4, 6, 10]} : (tensor<24x10xf32>) -> tensor<4x6x10xf32> loc("back")
    "msc.return"(%2) : (tensor<4x6x10xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.init = "zeros", msc.name = "w", msc.role = "parameter"}], results = ["y"], sym_name = "forward"} : () -> ()
}
""")
network("free.fbs", "--batch", "512")
for words, trials in (("plain.fbs", {}), (f"plain.fbs {MODES}", {}), (f"plain.fbs {STAGES}",
                                                                      {}), ("plain.fbs --target cuda", {}),
                      (f"plain.fbs {SEARCHES}", {"read": 1}), (f"merged.mlir {SEARCHES}", {
                          name: 2 for name in CHECKPOINTS[:CHECKPOINTS.index("searched")]
                      }), (f"plain.fbs {MODES} --set recompute=auto", {"partitioned": "some"}),
                      (f"plain.fbs {STAGES} --set micro_batch_interleaved=auto", {name: 3
                                                                                  for name in CHECKPOINTS[:-1]})):
    timed = expect(f"compile -o d.bin --timing {words}", 0, None, "").stderr.decode()
    ran = stretches(timed, "cuda" if "cuda" in words else "cpu")
    searches = SEARCHES in words and MODES not in words  # data parallelism is tried, too; code comes last
    expect.check(f"once with {words}: {ran}",
                 all(runs == 1 or (searches and name == "propagated" and runs == 2)
                     for name, (runs, _) in ran.items()))
    expect.check(f"trials with {words}: {ran}",
                 {name: "some" if number > 3 else number for name, (_, number) in ran.items() if number} == trials)
    took = [(float(ms), what) for ms, what in re.findall(r"^ *([0-9.]+) ms  (.+)$", timed, re.MULTILINE)]
    expect.check(f"code for no plan of a trial with {words}",
                 ("plans without code" in [what for _, what in took]) ==
                 (searches or list(trials) == CHECKPOINTS[:-1]))
    rest, whole = took[-2:]
    expect.check(f"rows of the rest and of all with {words}", (rest[1], whole[1]) == ("the rest", "in all"))
    expect.check(f"all of it accounted for with {words}: {took}",
                 abs(sum(ms for ms, _ in took[:-1]) - whole[0]) < 0.1 and rest[0] < 50 + whole[0] / 4)
needs = json.loads(expect(f"compile free.fbs -o d.bin --json {SEARCHES}", 0, quiet).stdout)["memory_bytes_per_rank"]
ran = stretches(
    expect(f"compile free.fbs -o d.bin --timing {SEARCHES} --set memory_limit={needs * 4 // 5}", 0, quiet,
           "").stderr.decode(), "cpu")
expect.check(f"plans that were compared: {ran}",
             {name: runs > 1 for name, (runs, _) in ran.items()
              } == {name: CHECKPOINTS.index(name) >= CHECKPOINTS.index("propagated") for name in CHECKPOINTS[:-1]})

# Nothing fits: the smallest strategy and the fastest get a plan each, and no third search looks for a smaller one.
network("large.fbs", "--batch", "60000000")
ran = stretches(expect(f"compile large.fbs -o d.bin --timing {SEARCHES}", 0, quiet, "").stderr.decode(), "cpu")
expect.check(f"plans of what does not fit: {ran}", ran["propagated"] == (2, 0) and ran["searched"] == (2, 0))
os.unlink("large.fbs")

os.unlink("merged.mlir")

# Ops that passes make are refused in a model.
write(
    "made.mlir", """module {
  "msc.func"() ({
  ^bb0(%x: tensor<2x3xf32>):
    %0 = "msc.fused"(%x) ({
    ^bb0(%1: tensor<2x3xf32>):
      %2 = "msc.tanh"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      "msc.yield"(%2) : (tensor<2x3xf32>) -> ()
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "msc.stage_recv"() {message = 8 : i64, stage = 0 : i64, type = tensor<2x3xf32>} : () -> tensor<2x3xf32>
    "msc.return"(%0, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}], results = ["y", "z"], sym_name = "forward"} : () -> ()
}
""")
said = expect("compile made.mlir -o made.bin", 1, None, "").stderr.decode()
os.unlink("made.mlir")
made = (f"error: {op}: it has no place in a model: passes of the compiler make it" for op in ("fused", "stage_recv"))
expect.check(f"made by passes: {said}", all(words in said for words in made))

# What a model allows its ops binds the plan.
def with_budget(name, text):
    write(
        name, f"""module {{
  "msc.func"() ({{
  ^bb0(%x: tensor<64x32xf32>, %w: tensor<32x8xf32>):
    %0 = "msc.matmul"(%x, %w) {{{text}}} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32> loc("dense")
    "msc.return"(%0) : (tensor<64x8xf32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.init = "zeros", msc.name = "w", msc.role = "parameter"}}], results = ["y"], sym_name = "forward"}} : () -> ()
}}
""")


for config in (MODES, MODES.replace("sharding_propagation", "dynamic_programming")):
    for budget, refusal in (("in_strategy = [[1, 8], [8, 1]], out_strategy = [[8, 1]], max_bytes = 10",
                             "max_bytes is 10, and each rank receives "),
                            ("in_strategy = [[1, 1], [1, 1]], deny_replicate = true",
                             "deny_replicate, and every rank holds all 2048 bytes")):
        with_budget("budget.mlir", budget)
        expect(f"compile budget.mlir -o bad.bin {config}", 1, lambda t: ""
               if t.startswith("budget.mlir:4:5: error: op 'dense': ") and refusal in t else refusal, "")
    with_budget("budget.mlir", "in_strategy = [[8, 1], [1, 1]], max_bytes = 4096, deny_replicate = true")
    expect(f"compile budget.mlir -o d.bin {config}", 0, quiet, "")
    expect("explain d.bin", 0)
os.unlink("budget.mlir")

PIPELINE = "--set parallel_mode=semi_auto_parallel --set device_num=2 --set pipeline_stages=2 --set micro_size=8"
report = json.loads(expect(f"compile plain.fbs -o d.bin {PIPELINE} --json", 0, quiet).stdout)
told = ", ".join(f"{name} {report['memory'][key]}"
                 for name, key in (("sums over micro-batches", "sums"), ("values carried to later sections", "carried"),
                                   ("messages", "messages"), ("3 micro-batches", "inputs")) if report["memory"][key])
expect(f"compile plain.fbs -o bad.bin {PIPELINE} --set memory_limit=1000", 1, lambda t: ""
       if told in t and told.count(",") >= 2 else told + "\n" + t, "")
expect(f"compile plain.fbs -o d.bin {MODES} --set strategy_ckpt_load_file=s.json --set strategy_ckpt_save_file=u.json",
       0, quiet, "")
SEARCHED = ("--set device_num=8 --set parallel_mode=auto_parallel --set search_mode=dynamic_programming --set "
            "strategy_ckpt_save_file=searched.json")
expect(f"compile plain.fbs -o d.bin {SEARCHED}", 0, quiet, "")  # the mesh that it chose is the file's
found = open("searched.json").read()
LIMITED = ("compile free.fbs -o d.bin --set device_num=8 --set parallel_mode=auto_parallel --set "
           "search_mode=dynamic_programming --set memory_limit=")
fastest = json.loads(expect(f"{LIMITED}1000000000 --json", 0, quiet).stdout)
refusal = expect(LIMITED + "1000", 1, None, "").stderr.decode()
enough = re.search(r"needs (\d+) bytes per rank(?s:.*) a memory_limit of (\d+) would do", refusal)
expect.check(
    f"what would do: {refusal}", enough and enough[1] == enough[2] and
    int(enough[1]) < fastest["memory_bytes_per_rank"] and refusal.count("bytes of them are") >= 3)
expect(f"{LIMITED}{enough[2]}", 0, quiet, "")
same = json.loads(expect(f"{LIMITED}{fastest['memory_bytes_per_rank']} --json", 0, quiet).stdout)
expect.check("where the fastest strategy fits, it is taken", same["search"] == fastest["search"] and
             same["memory"] == fastest["memory"])

# Without memory_limit the device of a file has the last word, whoever chose the layouts; a kind of device does not.
small = json.load(open(os.path.join(os.path.dirname(__file__), "../../tools/clusters/cpu.json")))
small["device"]["memory_bytes"] = int(enough[1])
write("small.json", json.dumps(small))
least = json.loads(
    expect("compile free.fbs -o d.bin --set device_num=8 --set parallel_mode=auto_parallel --cluster small.json --json",
           0, quiet).stdout)
expect.check("the device's memory bounds the search", least["memory_bytes_per_rank"] <= int(enough[1]))
for mode in ("stand_alone", "data_parallel", "semi_auto_parallel"):
    expect(
        f"compile free.fbs -o bad.bin --set device_num={1 if mode == 'stand_alone' else 8} --set parallel_mode={mode} "
        f"--cluster small.json",
        1, lambda t: "" if
        f"; the described device, one core of a server CPU, has {enough[1]} [E0118]\nmsc: note: what makes it less: "
        'recompute=auto, offload={"activation":"cpu"}, '
        in t and t.count("bytes of them are") >= 3 else t, "")
network("huge.fbs", "--batch", str(1 << 22))
expect(
    "compile huge.fbs -o d.bin --json", 0, lambda t: "" if re.match(
        r"msc: warning: the plan needs \d+ bytes per rank, of them 4600400 for parameters and state; the described "
        r"device, one core of a server CPU, has 17179869184 \[E0118\]\n",
        t) else t)
expect("compile huge.fbs -o d.bin --json --cluster cpu", 0, lambda t: ""
       if t.startswith("msc: warning: the plan needs ") else t)
network("vast.fbs", "--batch", str(1 << 37))  # a plan that no rank could load
expect("compile vast.fbs -o bad.bin", 1, lambda t: "" if t.startswith("msc: error: the plan needs ") else t)
expect(f"compile plain.fbs -o d.bin {SEARCHED} --set strategy_ckpt_load_file=searched.json", 0, quiet, "")
expect.check("a searched strategy comes back",
             open("searched.json").read() == found and json.loads(found)["mesh"] != "d=8")

# A network with residual connections: the search copies values and adds up gradients in layouts of their own, and does
# so again.
subprocess.run([
    sys.executable, "-m", "msc.models",
    *"gpt --layers 2 --hidden 64 --heads 4 --seq 16 --batch 64 --vocab 128 -o residual.fbs".split()
], check=True)
for mode in ("dynamic_programming", "recursive_programming", "sharding_propagation"):
    SEARCH = (f"compile residual.fbs --set device_num=16 --cluster h100 --set parallel_mode=auto_parallel --set "
              f"search_mode={mode} --set strategy_ckpt_save_file=residual.json -o ")
    expect(SEARCH + "d.bin", 0, quiet, "")
    found = open("residual.json").read()
    expect(SEARCH + "e.bin --set strategy_ckpt_load_file=residual.json", 0, quiet, "")
    searched, loaded = (expect(f"dump {name}.bin", 0, "", None).stdout for name in "de")  # without what a search claims
    expect.check(f"{mode} comes back", open("residual.json").read() == found and searched == loaded)

# No plan fits the GPU of a shipped description, and each byte less that a strategy keeps saves little: msc stops where
# the last step says that none will fit, and verifies just the module of the plan that it takes.
subprocess.run([
    sys.executable, "-m", "msc.models",
    *"gpt --layers 16 --hidden 12288 --heads 96 --seq 2048 --batch 256 --vocab 51200 -o residual.fbs".split()
], check=True)
told = expect("compile residual.fbs -o d.bin --set device_num=128 --cluster h100 --set parallel_mode=auto_parallel "
              "--timing", 0, None, None).stderr.decode()
expect.check("one plan within the memory, one without a bound, one that keeps less", "search, runs: 3\n" in told)
expect.check("the module of one plan is verified", " ms  taken module verified\n" in told)
verified = {name: float(ms) for ms, name in re.findall(r"([0-9.]+) ms  (.*verified)\n", told)}
expect.check("the others are not", verified["modules verified"] < verified["taken module verified"])

saved, loaded = (json.load(open(name))["ops"] for name in ("s.json", "u.json"))
expect.check("a loaded strategy file gives the same layouts",
             {n: op["layout"] for n, op in loaded.items()} == {n: op["layout"] for n, op in saved.items()})
write(
    "pinned.mlir", """module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x32xf32>, %w: tensor<32x8xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[4, 2], [2, 1]], out_strategy = [[8, 1]]} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32> loc("dense")
    %1 = "msc.relu"(%0) : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("relu")
    "msc.return"(%1) : (tensor<64x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.init = "zeros", msc.name = "w", msc.role = "parameter"}], results = ["y"], sym_name = "forward"} : () -> ()
}
""")
expect(f"compile pinned.mlir -o e.bin {MODES} --set strategy_ckpt_save_file=v.json", 0, quiet, "")
expect(
    f"compile pinned.mlir -o f.bin {MODES} --set strategy_ckpt_load_file=v.json --set strategy_ckpt_save_file=w.json",
    0, quiet, "")
expect.check("a fixed result is recorded as its users see it",
             json.load(open("v.json"))["ops"]["dense"]["out_strategy"] == [[8, 1]])
expect.check("and comes back", open("v.json").read() == open("w.json").read())
for batch in (1, 3, 64, 512):
    network("batch.fbs", "--batch", str(batch))
    expect("compile batch.fbs -o batch.bin", 0, quiet, "")
    expect("verify batch.bin", 0, "", "batch.bin: sound (plan)\n")
network("open.fbs", "--batch", "-1")
expect("compile open.fbs -o batch.bin --dim batch=64", 0, quiet, "")

# ---- wrong input ----

expect("compile ffn.fbs", 2, "msc compile: error: needs -o plan.bin (msc compile --help)\n", "")


def refused(command, *messages):
    """Exactly these lines on stderr, nothing on stdout, no file."""
    expect(f"compile {command} -o bad.bin", 1, "".join(m + "\n" for m in messages), "")
    expect.check(f"no output of {command}", not os.path.exists("bad.bin"))


PLACE = "msc/models/dense.py:19: "
SEMI = "--set device_num=8 --set parallel_mode=semi_auto_parallel"


def illegal(strategies, *messages, transposed=()):
    network("bad.fbs", *[w for s in strategies for w in ("--strategy", s)],
            *[w for t in transposed for w in ("--transposed", t)])
    refused(f"bad.fbs {SEMI}", *[PLACE + m for m in messages])


# Form, sizes and devices: everything that is wrong with any op, in one run.
illegal(
    [
        "dense1=((2,4,1),(0,1))", "dense2=((2,4),)", "dense3=((5,1),(1,3))", "dense4=((1,16),(16,1))",
        "dense5=((2,4),(2,1))"
    ], "error: op 'dense1': in_strategy: operand 0 (a) has rank 2, its entry has 3 numbers [E0109]",
    "error: op 'dense1': in_strategy: dimension 0 of operand 1 (b): the number of parts must be an integer of at "
    "least 1, not 0 [E0109]",
    "error: op 'dense2': in_strategy must have one entry for each of the 2 operands of matmul, not 1 [E0109]",
    "error: op 'dense3': in_strategy: dimension 0 of operand 0 (a) has 32 elements, which do not divide into 5 parts; "
    "nearest legal: 4 or 8 [E0109]",
    "error: op 'dense3': in_strategy: dimension 1 of operand 1 (b) has 128 elements, which do not divide into 3 "
    "parts; nearest legal: 2 or 4 [E0109]",
    "note: a legal strategy: [[4, 1], [1, 2]]",
    "error: op 'dense4': in_strategy cuts matmul into 16 parts, more than the 8 devices [E0109]",
    "note: a legal strategy: [[1, 8], [8, 1]]",
    "error: op 'dense5': in_strategy: dimension 1 of operand 0 (a) and dimension 0 of operand 1 (b) are the same "
    "letter 'k' of matmul, but are cut into 4 and 2 parts [E0109]",
    "note: a legal strategy: [[2, 4], [4, 1]]")
illegal([
    "dense1=((2,4),(4,1))"
], "error: op 'dense1': in_strategy: dimension 1 of operand 0 (a) and dimension 1 of operand 1 (b) are the same "
   "letter 'k' of matmul, "
        "but are cut into 4 and 1 parts [E0109]", "note: a legal strategy: [[2, 4], [1, 4]]",
        "note: operand 1 (b) is stored transposed, [n, k]: its entry gives the parts of n, then those of k; "
        "stored as [k, n] the given strategy would be legal", transposed=["dense1"])

# For a GPU there is no kernel in it: its library does all.
write(
    "product.mlir", """module {
  "msc.func"() ({
  ^bb0(%x: tensor<8x24xf32>, %w: tensor<24x8xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x24xf32>, tensor<24x8xf32>) -> tensor<8x8xf32>
    "msc.return"(%0) : (tensor<8x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.init = "ones", msc.name = "w", msc.role = "parameter"}], results = ["y"], sym_name = "forward"} : () -> ()
}
""")
for target in ("cpu", "cuda"):
    expect(f"compile product.mlir -o product.bin --target {target}", 0, quiet, "")
    expect("verify product.bin", 0, "", "product.bin: sound (plan)\n")

expect("dump plain.fbs -o net.mlir", 0)
TEXT = open("net.mlir").read()

# A plan says with what it was compiled, what the model says of itself included.
write("micro.mlir", TEXT.replace("loss = 0 : i64,", "loss = 0 : i64, micro_size = 2 : i64,"))
for more, said in (("", "2 (model)"), (" --set micro_size=4", "4 (command line)")):
    expect(f"compile micro.mlir -o c.bin --set device_num=2 --set parallel_mode=data_parallel{more}", 0, quiet, "")
    expect(
        "dump c.bin", 0, "", lambda text: "" if f"\n  set micro_size={said}\n" in text and
        '\n  set parallel_mode="data_parallel" (command line)\n' in text else "set")
    dumped = json.loads(expect("dump c.bin --json", 0, "", None).stdout)
    config = dumped["config"]
    expect.check(
        f"the whole configuration: {config['micro_size']}",
        f"{config['micro_size']['value']} ({config['micro_size']['from']})" == said and
        config["overlap"] == {"value": True, "from": "default"} and dumped["kind"] == "plan" and
        dumped["model"] == "ffn")
    expect.check("the text is the one without --json", dumped["text"] == expect("dump c.bin", 0, "",
                                                                                None).stdout.decode())
dumped = json.loads(expect("dump net.mlir --json", 0, "", None).stdout)
expect.check("a model as JSON", dumped == {"kind": "model", "model": "ffn", "text": TEXT})
os.unlink("micro.mlir")

# What was forgotten, most likely.
INIT = re.compile(r'msc.init = "[^"]*", (?=msc.name = "dense[12].weight")')
write("zeros.mlir", INIT.sub("", TEXT))
expect(
    "compile zeros.mlir -o c.bin", 0, lambda text: ""
    if "warning: parameter dense1.weight and 1 more have no init and no weights: zeros" in text else "zeros", "")
write("zeros.mlir", re.sub(r'msc.init = "[^"]*", (?=msc.name = "dense1.bias")', "", TEXT))
expect("compile zeros.mlir -o c.bin", 0, lambda text: "a bias" if "warning" in text else "", "")
write("zeros.mlir", re.sub(r"\n *optimizer = .*", "", TEXT))
expect(
    "compile zeros.mlir -o c.bin", 0, lambda text: ""
    if "warning: the model has a loss and no optimizer: the plan evaluates and does not train [E0119]" in text else
    "optimizer", "")
os.unlink("zeros.mlir")
write("bad.mlir", TEXT.replace("msc.relu", "msc.relo").replace('"msc.flatten"', '"msc.flatten2"'))
refused("bad.mlir",
        "bad.mlir:4:10: error: unknown ops: 'msc.flatten2' (1, first at line 4; did you mean msc.flatten?), "
        "'msc.relo' (4, first at line 7; did you mean msc.relu?) [E0104]",
        "    4 | " + TEXT.splitlines()[3].replace('"msc.flatten"', '"msc.flatten2"'), "      |          ^")
write("bad.mlir", TEXT.replace("tensor<512x256xf32>", "tensor<500x256xf32>"))
refused(
    "bad.mlir", PLACE + "error: op 'dense2': matmul: inner sizes differ: 512 (dimension 1 of 'a' [32,512]f32) and 500 "
    "(dimension 0 of 'b' [500,256]f32) [E0102]")
for was, now, message in (('kind = "momentum"', 'kind = "momentun"',
                           "unknown kind 'momentun'; did you mean 'momentum'?"), ("lr = ", "lr = -", "")):
    write("bad.mlir", TEXT.replace(was, now))
    expect(
        "compile bad.mlir -o bad.bin", 1, lambda text: ""
        if text.startswith("bad.mlir:2:3: error: optimizer") and message in text and "[E0119]" in text else "optimizer",
        "")

refused("absent.fbs", "absent.fbs: error: cannot read: No such file or directory [E0112]")
refused("open.fbs",
        "open.fbs: error: input x: dimension 0, the batch, has no size; give it with --dim batch=SIZE [E0102]",
        "open.fbs: error: input y: dimension 0, the batch, has no size; give it with --dim batch=SIZE [E0102]")
refused("open.fbs --dim batch=8 --dim foo=3",
        "open.fbs: error: --dim foo: no input has a dimension of this name; they are batch, x.1, x.2 [E0102]")
refused(
    "plain.fbs --target tpu",
    "--target: error: there is no target 'tpu'; there are cpu, cuda and, with machine code for one GPU, cuda:sm_90 "
    "[E0110]"
)
refused(
    "plain.fbs --target cuda:sm_70",
    "--target: error: 'sm_70' is no architecture of cuda; cuda:sm_80 is the least, others are cuda:sm_90 and later "
    "[E0110]"
)
refused(
    "plain.fbs --target cuda:sm_90x",
    "--target: error: 'sm_90x' is no architecture of cuda; cuda:sm_80 is the least, others are cuda:sm_90 and later "
    "[E0110]"
)
refused("plain.fbs --target cuda --mcpu haswell",
        "--mcpu: error: it is for --target cpu, or for ops with primitive_target beside a GPU, and there is none; a "
        "GPU's architecture is said as cuda:sm_90 [E0110]")
refused(
    "plain.fbs --mcpu nonsense",
    'msc: error: unknown CPU name "nonsense"; "native" is this machine, others are "x86-64-v3" or "skylake-avx512" '
    '[E0117]'
)
refused("plain.fbs --max-memory 200k",
        "msc: error: out of memory: the bound on the compiler's memory was reached [E0116]")
refused("plain.fbs --set device_nmu=8 --set post_validation=false --set zero=9",
        "--set device_nmu: error: unknown key 'device_nmu'; did you mean 'device_num'? [E0110]",
        "--set zero: error: zero: must be a whole number from 0 to 3, not 9 [E0110]",
        "--set post_validation: error: post_validation: false is not supported yet, only true [E0111]")
refused(
    "plain.fbs --set device_num=33 --set parallel_mode=data_parallel",
    "msc: error: input 'x': its batch of 32 samples in dimension 0 is fewer than the 33 replicas of parallel_mode "
    "data_parallel [E0110]",
    "msc: error: input 'y': its batch of 32 samples in dimension 0 is fewer than the 33 replicas of parallel_mode "
    "data_parallel [E0110]"
)
expect("compile plain.fbs -o absent/bad.bin", 1,
       "absent/bad.bin: error: cannot write: No such file or directory [E0112]\n", "")
write("c.json", '{"device": 1}')
refused(
    "plain.fbs --set mesh={\"a\":2,\"a\":4} --set zero=9 --set comm_fusion={ --cluster c.json --target tpu "
    "--time-limit -1",
    "--set mesh: error: mesh: duplicate object key near '\"a\"' [E0110]",
    "--set zero: error: zero: must be a whole number from 0 to 3, not 9 [E0110]",
    "--set comm_fusion: error: comm_fusion: string or '}' expected near end of file [E0110]",
    "--time-limit: error: seconds, from 0 on, not -1 [E0110]",
    "--target: error: there is no target 'tpu'; there are cpu, cuda and, with machine code for one GPU, cuda:sm_90 "
    "[E0110]",
    "c.json:1:2: error: device must be an object [E0123]", "    1 | {\"device\": 1}", "      |  ^",
    "c.json:1:1: error: levels is missing, a list of 1 to 8 objects [E0123]", "    1 | {\"device\": 1}", "      | ^")
write("half.json", '{"version":1')
refused("plain.fbs --set strategy_ckpt_load_file=half.json",
        "half.json:1:12: error: strategy file: '}' expected near end of file [E0101]", '    1 | {"version":1',
        "      |            ^")
expect(
    "compile plain.fbs -o bad.bin --set strategy_ckpt_load_file=s.json", 1, lambda text: "" if text.startswith(
        "s.json:1: error: the strategy file is for 8 devices, device_num is 1 [E0120]\n") else "device_num", "")

# A grid of a GPU has fewer blocks than 2^31, and no block takes the place of another.
ROWS = "tensor<2147483648x1024xf32>"
write("rows.mlir", f"""module {{
  "msc.func"() ({{
  ^bb0(%x: {ROWS}):
    %y = "msc.softmax"(%x) {{axis = 1 : i64}} : ({ROWS}) -> {ROWS}
    "msc.return"(%y) : ({ROWS}) -> ()
  }}) {{sym_name = "forward", results = ["y"], arg_attrs = [{{msc.name = "x", msc.role = "data"}}]}} : () -> ()
}}
""")
expect("compile rows.mlir -o rows.bin --target cuda", 1, lambda err: ""
       if "rows.mlir:4:5: error: its kernel works on 2147483648 parts, and at most 2147483647" in err else err)
os.remove("rows.mlir")

expect.no_files("residual.fbs", "residual.json", "c.json", "huge.fbs", "vast.fbs", "small.json", "pinned.mlir",
                "searched.json", "free.fbs", "e.bin", "f.bin", "v.json", "w.json", "ffn.fbs", "plain.fbs",
                "batch.fbs", "open.fbs", "bad.fbs", "bad.mlir", "net.mlir", "product.mlir", "product.bin", "a.bin",
                "b.bin", "c.bin", "d.bin", "batch.bin", "a.d", "s.json", "t.json", "u.json", "half.json")
expect.done()
