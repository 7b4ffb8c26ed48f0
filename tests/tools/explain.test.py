#!/usr/bin/env python3
"""msc explain of a plan: who decided, what it costs, the runner-up, every layout change with its cause, the
difference of two."""
import json
import os
import random
import re
import subprocess
import sys

from expect import MSC, Expect, write


expect = Expect()
OPS = ["flatten"] + [
    f"{n}{i}{s}" for i in range(1, 6)
    for n, s in (("dense", ""), ("dense", ".bias_add"), ("relu", "")) if (n, i) != ("relu", 5)
] + ["loss"]

def compiled(plan, *options):
    return json.loads(
        expect([
            "compile", "ffn.fbs", "-o", plan, "--set", "device_num=8", "--set", "parallel_mode=auto_parallel", "--json",
            *options
        ]).stdout)

def explained(command):
    return json.loads(expect(f"explain {command} --json").stdout)


subprocess.run([
    sys.executable, "-m", "msc.models", "ffn", "-o", "ffn.fbs", "--batch", "512", "--strategy", "dense1=((2,4),(4,1))",
    "--strategy", "dense3=((1,8),(8,1))"
], check=True)
report = compiled("kept.bin", "--set", "search_mode=sharding_propagation")
kept = explained("kept.bin")
ops = {o["op"]: o for o in kept["ops"]}
expect.check(f"ops {list(ops)}", [n for n in ops if not n.endswith(".grad")] == OPS)
expect.check("who", [ops[n]["by"] for n in ("dense1", "dense2", "dense3")] == ["user", "propagation", "user"])
expect.check(
    "layouts",
    ops["dense1"]["chosen"]["layouts"] == "[{d:(1)2},{d:(2)4}] [{d:(2)4},{}] -> [{d:(1)2},{}] partial={d:(2)4}")
expect.check("place", ops["dense1"]["loc"].startswith("msc/models/dense.py:"))
expect.check("bytes", sum(c["bytes"] for c in kept["collectives"]) == report["comm_bytes_per_rank"] > 0)
expect.check(
    "times",
    all(c["ns"] == sum(s["ns"] for s in c["steps"]) > 0 and all(s["ns"] > 0 or s["op"] == "slice" for s in c["steps"])
        for c in kept["collectives"]))
expect.check("bounds", all(c["lower_bound"] is None or c["lower_bound"] <= c["bytes"] for c in kept["collectives"]))
expect.check("causes", {("dense1", "dense1.bias_add"), ("dense1.grad", "dense1.weight.update")}
             <= {(c["from_op"], c["to_op"]) for c in kept["collectives"]})
causes = {(c["from_op"], c["to_op"]): c["cause"] for c in kept["collectives"]}
expect.check(
    f"causes {causes}", causes["dense1", "dense1.bias_add"] == "forward" and
    causes["dense1.grad", "dense1.weight.update"] == "gradients of parameters" and
    causes["relu1.grad", "dense1.grad"] == "backward")
ns = sum(c["ns"] for c in kept["collectives"] if c["cause"] == "backward")
expect(
    "explain kept.bin", 0, "", lambda text: ""
    if f" bytes, {ns / 1e3:.1f} us\n    gradients of parameters: " in text and "\n    the dearest: " in text else text)
expect.check("time", abs(kept["predicted_step_ms"] - report["predicted_step_ms"]) < 1e-6)

# What gradients_mean divides by: one number, which is told, where the batch is cut in two and parameters in four, or
# each its own.
compiled("mean.bin", "--set", "search_mode=sharding_propagation", "--set", "gradients_mean=true")
over = explained("mean.bin")["gradients_over"]
expect(
    "explain mean.bin", 0, "", lambda text: ""
    if f"\ngradients_mean: all gradients are divided by {over}, the parts of the batch\n" in text and over in
    (2, 8) else text)
compiled("mean.bin", "--set", "search_mode=sharding_propagation", "--set", "gradients_mean=true", "--set",
         "gradients_mean_of=parameter")
expect.check("each its own", "gradients_over" not in explained("mean.bin") and "gradients_over" not in kept)

# Whatever plan compile makes, explain tells of: it runs the same stretch of passes on the program that the plan
# carries.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "any.fbs", "--batch", "512"], check=True)
modes = ["stand_alone", "data_parallel", "hybrid_parallel", "semi_auto_parallel", "auto_parallel",
         "auto_parallel --set search_mode=recursive_programming",
         "auto_parallel --set search_mode=sharding_propagation"]
with open("any.json", "w") as file:
    json.dump({"memory_limit": 1 << 40}, file)
for mode in modes:
    devices = 1 if mode == "stand_alone" else 8
    for words in ("", "--target cuda --set compute_type=f16 --set loss_scale=dynamic",
                  "--set micro_size=2 --set gradients_mean=true", "--set micro_size=4 --set pipeline_stages=2",
                  "--set zero=3", "--config any.json --set recompute=auto"):
        if (devices == 1 and "stages" in words) or (mode == "hybrid_parallel" and "zero" in words):
            continue
        expect(f"compile any.fbs -o any.bin --set device_num={devices} --set parallel_mode={mode} {words}", 0, None, "")
        expect("explain any.bin --json", 0, "")
expect(
    "compile any.fbs -o any.bin --set device_num=8 --set parallel_mode=auto_parallel --set "
    "strategy_ckpt_save_file=any.json", 0, None, "")
expect(
    "compile any.fbs -o any.bin --set device_num=8 --set parallel_mode=auto_parallel --set "
    "strategy_ckpt_load_file=any.json", 0, None, "")
os.unlink("any.json")  # nor are the files needed that it was compiled with
expect("explain any.bin", 0, "")
os.unlink("any.bin")
os.unlink("any.fbs")

# The rank that is asked about: where it is, who is there with it, what it holds; what there is none of is an error.
expect("explain kept.bin --set global_rank=5", 0, "", lambda text: ""
       if "\nrank 5; d 5, with ranks 0 1 2 3 4 5 6 7\n" in text else text)
expect("dump kept.bin --set global_rank=5", 0, "", lambda text: ""
       if "\n  rank 5 is at d=5\n" in text and " rank 5 [196:392,0:512]" in text else text)
for command in ("explain", "dump"):
    expect(f"{command} kept.bin --set global_rank=9999", 1,
           "--set global_rank: error: global_rank 9999: the plan is for ranks 0 to 7 [E0110]\n", "")

# Where propagated digits come from, by which way, and where they met others.
chains = {
    n: [(c["digits"], c["from"], c["through"]) for c in ops[n]["inherited"]] for n in ("dense1", "relu1", "dense2")
}
expect.check(
    f"chains {chains}", chains == {
        "dense1": [], "relu1": [("{d:(1)2}", "dense1", ["dense1.bias_add"])],
        "dense2": [("{d:(1)2}", "dense1", ["dense1.bias_add", "relu1"])]
    })
expect.check("origin", ops["dense2"]["inherited"][0]["loc"] == ops["dense1"]["loc"])
met = [(c["op"], c["value"], c["dim"], c["here"]["from"], c["there"]["from"], c["there"]["through"])
       for c in kept["conflicts"]]
expect.check(f"conflicts {met}", ("dense3", "relu2", 1, "dense3", "dense1",
                                  ["dense1.bias_add", "relu1", "dense2", "dense2.bias_add", "relu2"]) in met)
expect(
    "explain kept.bin dense2", 0, "", lambda text: ""
    if "\n    propagated: {d:(1)2} from dense1 (msc/models/dense.py:19) through dense1.bias_add, relu1\n" in text else
    text)
expect(
    "explain kept.bin dense3", 0, "", lambda text: "" if
    "\nconflict: dense3: at dimension 1 of relu2, {d} from dense3 (msc/models/dense.py:19), but there in another "
    "dimension, {} from dense1 "
    in text and "\nsearched for the least time it could be " in text else text)

# What every rank holds and computes whole, and parts that are unequal.
subprocess.run([
    sys.executable, "-m", "msc.models", "ffn", "-o", "whole.fbs", "--batch", "512", "--strategy", "dense1=((1,1),(1,1))"
], check=True)
expect("compile whole.fbs -o whole.bin --set device_num=8 --set parallel_mode=semi_auto_parallel", 0, lambda text: "",
       None)
told = set(explained("whole.bin")["warnings"])
expect.check(
    f"warnings {told}", {
        "dense1 is not cut: every rank computes all of it",
        "parameter dense1.weight, 1605632 bytes, is held whole by every rank",
        "what dense1 makes, 1048576 bytes, is held whole by every rank"
    } <= told)
expect("explain whole.bin relu3", 0, "", lambda text: "" if "\nlayout changes: none\n" in text else text)
with open("uneven.mlir", "w") as file:
    file.write("""module {
  "msc.func"() ({
  ^bb0(%x: tensor<5x4xf32>, %w: tensor<4x8xf32>):
    %0 = "msc.matmul"(%x, %w) {in_layout = ["[{d},{}]", "[{},{}]"]} : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32> loc("product"("m.py":1:1))
    "msc.return"(%0) : (tensor<5x8xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}], sym_name = "forward"} : () -> ()
}
""")
expect(
    'compile uneven.mlir -o uneven.bin --set parallel_mode=auto_parallel --set search_mode=sharding_propagation --set '
    'mesh={"d":4}',
    0, lambda text: "", None)
expect.check(
    f"unequal {explained('uneven.bin')['warnings']}",
    explained("uneven.bin")["warnings"] == [
        "the parts of product are unequal: the largest is 60 % above the mean; mk,kn->mn, m 5 in 4 parts, k 4, n 8"
    ])

# An op that is put as the exact search would not put it, and one that follows it: the others are compared all the same.
with open("odd.mlir", "w") as file:
    file.write("""module {
  "msc.func"() ({
  ^bb0(%x: tensor<64x30xf32>, %w: tensor<30x30xf32>, %v: tensor<30x16xf32>):
    %0 = "msc.matmul"(%x, %w) {in_layout = ["[{},{}]", "[{},{b}]"]} : (tensor<64x30xf32>, tensor<30x30xf32>) -> tensor<64x30xf32> loc("up")
    %1 = "msc.relu"(%0) : (tensor<64x30xf32>) -> tensor<64x30xf32> loc("relu")
    %2 = "msc.matmul"(%1, %v) : (tensor<64x30xf32>, tensor<30x16xf32>) -> tensor<64x16xf32> loc("down")
    "msc.return"(%2) : (tensor<64x16xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "normal:1"}, {msc.name = "v", msc.role = "parameter", msc.init = "normal:1"}], sym_name = "forward"} : () -> ()
}
""")
expect('compile odd.mlir -o odd.bin --set parallel_mode=auto_parallel --set mesh={"a":2,"b":4}', 0, lambda text: "",
       None)
ways = {o["op"]: o["ways"] for o in explained("odd.bin")["ops"]}
expect.check(f"ways {ways}", ways["up"] == ways["relu"] == -1 and ways["down"] > 1)

# Layers that are alike are told of once.
subprocess.run([
    sys.executable, "-m", "msc.models",
    *"gpt --layers 3 --hidden 64 --heads 4 --seq 16 --batch 8 --vocab 64 -o layers.fbs".split()
], check=True)
expect("compile layers.fbs -o layers.bin --set device_num=2 --set parallel_mode=semi_auto_parallel", 0, lambda text: "",
       None)
expect(
    "explain layers.bin", 0, "", lambda text: "" if "\n    the same for 2 more, the last of them: layer2.mlp.up\n" in
    text and "\nlayer1.mlp.up: " not in text else text)

# What the exact search chose cannot be bettered by changing one op.
compiled("least.bin", "--set", "search_mode=dynamic_programming", "--cluster", "h100")
least = explained("least.bin")
expect.check("searched", {o["by"] for o in least["ops"]} <= {"user", "search", "propagation"})
expect.check("proven", least["search"]["step_ns"] == least["search"]["at_least_ns"] > 0)
expect.check("not all were compared", kept["search"]["step_ns"] > 0 == kept["search"]["at_least_ns"])
expect(
    "explain least.bin", 0, "", lambda text: "" if "\nthe search's own figure is " in text and
    " ms; of strategies with whole axes none takes less\n" in text else text)
compiled("many.bin", "--set", "search_mode=dynamic_programming", "--set", "micro_size=2", "--cluster", "h100")
expect("explain many.bin", 0, "", lambda text: "" if " ms for each of 2 micro-batches; " in text else text)
free = [o for o in least["ops"] if o["by"] == "search" and "next" in o]
expect.check(f"no op is better elsewhere: {[(o['op'], o['next_costs_ns']) for o in free if o['next_costs_ns'] < 0]}",
             free and all(o["next_costs_ns"] >= 0 for o in free))

# What forcing a way costs is what a compilation with that way finds, and no way is cheaper than the best of those told.
def forced(op, layouts):
    lines = subprocess.run([MSC, "dump", "free.fbs"], capture_output=True, text=True, check=True).stdout.split("\n")
    at = next(i for i, line in enumerate(lines) if f'loc("{op}"' in line)
    operands = layouts.split(" -> ")[0].split("] ")
    text = ", ".join(f'"{o}"' for o in [o + "]" for o in operands[:-1]] + operands[-1:])
    lines[at] = lines[at].replace(") : (", f") {{in_layout = [{text}]}} : (", 1)
    with open("forced.mlir", "w") as out:
        out.write("\n".join(lines))
    searched("forced.mlir", "forced.bin")
    return explained("forced.bin")

def searched(model, plan):
    """What compile tells of the search."""
    return json.loads(expect([
        "compile", model, "-o", plan, "--cluster", "h100", "--set", "parallel_mode=auto_parallel", "--set",
        'mesh={"x":2,"y":4}', "--json"
    ], 0, lambda text: "", None).stdout)["search"]

# The strategy of this network is that of the search: whole plans of data parallelism are predicted slower.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "free.fbs", "--batch", "2048"], check=True)
expect.check("the plan has the strategy that was found", searched("free.fbs", "free.bin")["data_parallel"] is False)
free = explained("free.bin dense2")
figures, instead = free["figures"], next(o["instead"] for o in free["ops"] if o["op"] == "dense2")
expect.check(f"figures {figures}",
             figures["step_ns"] == figures["least_ns"] == figures["free_ns"] == free["search"]["step_ns"])
expect.check(
    f"order {instead}",
    len(instead) == 3 and figures["step_ns"] <= instead[0]["step_ns"] <= instead[1]["step_ns"] <= instead[2]["step_ns"])
expect.check("parts", all(i["work_ns"] + i["move_ns"] == i["step_ns"] - figures["step_ns"] for i in instead))
for one in instead[:2]:
    told = forced("dense2", one["way"]["layouts"])
    expect.check(f"forced {one['way']['cuts']}: {told['search']}, {one}",
                 told["search"]["step_ns"] == told["figures"]["step_ns"] == one["step_ns"])
    expect.check(f"cost of the user's way: {told['figures']}", told["figures"]["free_ns"] == figures["step_ns"])
    asked = json.loads(expect(["explain", "free.bin", "dense2", "--instead", one["way"]["cuts"], "--json"]).stdout)
    expect.check("asked", [o["instead"] for o in asked["ops"] if "instead" in o] == [[one]])
# Of this one data parallelism's whole plan is the fastest, though the search priced another strategy lower: told so.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "wide.fbs", "--batch", "8192"], check=True)
found = json.loads(expect("compile wide.fbs -o wide.bin --set device_num=8 --set parallel_mode=auto_parallel --json",
                          0, lambda text: "", None).stdout)["search"]
taken = explained("wide.bin")["search"]
expect.check(f"{found} is of a strategy that the plan does not have",
             found["data_parallel"] and found["step_ms"] * 1e6 < taken["step_ns"])
expect.check(f"data parallelism {taken}, {free['search']}",
             taken["data_parallel"] and not free["search"]["data_parallel"])
expect.check(f"its own figure {taken}", taken["step_ns"] > taken["at_least_ns"])
expect.check("it is said", b"data parallelism was taken: " in expect("explain wide.bin").stdout)
# A step of training pays nothing for the model's other outputs: they are for evaluation.
dumped = subprocess.run([MSC, "dump", "free.fbs"], capture_output=True, text=True, check=True).stdout
with open("forced.mlir", "w") as out:
    out.write(
        re.sub(r'"msc.return"\((%\d+), %\d+\) : \((tensor<f32>), [^)]*\)', r'"msc.return"(\1) : (\2)',
               dumped).replace('["loss", "logits"]', '["loss"]'))
searched("forced.mlir", "forced.bin")
expect.check("outputs cost nothing", explained("forced.bin")["search"]["step_ns"] == free["search"]["step_ns"])
expect(["explain", "free.bin", "dense2", "--instead", "m {z}"], 1,
       "msc: error: dense2 cannot be cut 'm {z}' on this mesh; did you mean 'm {x}' [E0109]\n", "")
expect(["explain", "free.bin", "--instead", "m {x}"], 2,
       "msc: error: --instead needs the op that is to be cut otherwise\n", "")

# When time is up at once there is a plan all the same, no better than the best, and it says so.
told = json.loads(
    expect([
        "compile", "ffn.fbs", "-o", "hasty.bin", "--set", "device_num=8", "--set", "parallel_mode=auto_parallel",
        "--set", "search_mode=dynamic_programming", "--cluster", "h100", "--time-limit", "1e-9", "--json"
    ], 0, lambda text: ""
           if ": warning: time is up: the best strategy found takes " in text else text).stdout)["search"]
expect.check(f"bound {told}", told["compared_at_least_ms"] < told["step_ms"] and
             told["step_ms"] >= least["search"]["step_ns"] / 1e6)
expect("explain hasty.bin", 0, "", lambda text: ""
       if " ms; how much less is possible was not looked at\n" in text else text)
expect("compile ffn.fbs -o hasty.bin --time-limit -1", 1, lambda text: ""
       if "--time-limit: error: seconds, from 0 on, not -1" in text else text)

# With the parallel optimizer ranks that hold the same share its state, and the search counts on that.
compiled("state.bin", "--set", "search_mode=sharding_propagation", "--set", "zero=1")
state = explained("state.bin")
said = {p["parameter"]: p["optimizer"] for p in state["parameters"]}
kept_bytes = {o["op"]: o["chosen"]["bytes"] for o in state["ops"]}
expect.check(
    f"parameters {said}",
    said["dense1.weight"].startswith("update and state in [{d:(2)4,d:(1)2},{}]: dimension 0 over 2 ranks, ") and
    "whole: 40 bytes are not more than" in said["dense5.bias"])
expect.check("bytes kept", ops["dense1"]["chosen"]["bytes"] - kept_bytes["dense1"] == 784 * 512 * 4 // 4 // 2)
expect("explain state.bin", 0, "", lambda text: "" if "\ndense2.weight: update and state in " in text else text)

expect(
    "explain kept.bin dense1", 0, "", lambda text: ""
    if "\ndense1: m {d:(1)2}, k {d:(2)4} (user) at msc/models/dense.py:" in text and "\n    next best: " in text and
    "\n    matmul mk,kn->mn, m 512 in 2 parts, k 784 in 4 parts that are added up, n 512\n" in text and
    "dense1 -> dense1.bias_add: 512x512xf32 " in text and "\ndense1.grad -> dense1.weight.update: " in text and
    "\nlayout changes: " in text and "\nrelu1: " not in text else "dense1 alone\n" + text)
# Who could restore whom: of two times data parallel by two parts of weights, ranks 0 and 2 hold the same.
subprocess.run([
    sys.executable, "-m", "msc.models", "ffn", "-o", "pairs.fbs",
    *(x for i, (k, n) in enumerate([(1, 2), (2, 1)] * 2, 1) for x in ("--strategy", f"dense{i}=((2,{k}),({k},{n}))"))
], check=True)
PAIRS = ('compile pairs.fbs -o pairs.bin --set parallel_mode=auto_parallel --set search_mode=sharding_propagation '
         '--set mesh={"dp":2,"tp":2}')
expect(PAIRS, 0, lambda text: "", None)
# A model is compiled by the command, and explained as its plan is.
for what in ("", "--redundancy", "--roofline"):
    of_plan, of_model = explained(f"pairs.bin {what}"), explained(f"pairs.fbs {what} {PAIRS.split(' ', 4)[4]}")
    expect.check(f"of the model itself {what}: {of_model}, not {of_plan}", of_model == of_plan)
expect.check("redundancy", explained("pairs.bin --redundancy") == {
    "redundancy": [[0, 2], [1, 3]], "recoverable": True, "restore_group_info_list": [[0, 2], [1, 3], [0, 2], [1, 3]],
    "alone": []})
expect("explain pairs.bin --redundancy", 0, "",
       "ranks 0 2: each of these 2 can restore the others\nranks 1 3: each of these 2 can restore the others\n")
expect(PAIRS + " --set zero=1", 0, lambda text: "", None)
expect(
    "explain pairs.bin --redundancy", 0, "",
    "".join(f"rank {r}: nobody else holds all that it holds\n" for r in range(4)) +
    "not recoverable from peers; zero=0 keeps the optimizer's state whole on every replica\n" +
    "".join(f"  dense{i}.weight.m (state): 4 ranks of which each holds a part alone\n" for i in (1, 2, 3)))
expect.check("parts of one rank", explained("pairs.bin --redundancy")["alone"][0] ==
             {"parameter": "dense1.weight.m", "state": True, "ranks": [0, 1, 2, 3], "partial": []})
# Stages hold different parameters.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "stages.fbs"], check=True)
expect("compile stages.fbs -o stages.bin --set device_num=4 --set parallel_mode=data_parallel --set pipeline_stages=2",
       0,
       None, None)
expect("explain stages.bin --redundancy", 0, "",
       "ranks 0 1: each of these 2 can restore the others\nranks 2 3: each of these 2 can restore the others\n")
expect("explain stages.bin --set global_rank=3", 0, "", lambda text: "" if text.startswith(
    "ffn for 4 ranks, 2 stages, each on a mesh d=2; a step takes ") and "\nrank 3, stage 1; d 1" in text else text)
expect("explain kept.bin dense", 1, "msc: error: the plan has no op 'dense'; did you mean 'dense1'?\n", "")
expect("explain kept.bin --diff kept.bin", 0, "", lambda text: ""
       if text.startswith("0 ops are cut differently; ") else text)
apart = explained("kept.bin --diff least.bin")
expect.check(
    "difference", apart["ops"] and not apart["only_a"] and not apart["only_b"] and
    apart["moved_bytes"]["a"] == sum(c["bytes"] for c in kept["collectives"]))
write("explain.txt", "neither a plan nor a model")
expect("explain explain.txt", 1, lambda text: "" if text.startswith("explain.txt:1:") else text, "")
os.unlink("explain.txt")
expect("explain missing.bin", 1, "missing.bin: error: cannot read: No such file or directory [E0112]\n", "")
with open("kept.bin", "rb") as file:
    data = bytearray(file.read())
data[len(data) // 2] ^= 1
with open("damaged.bin", "wb") as file:
    file.write(data)
expect("explain damaged.bin", 1, lambda text: "" if text.startswith("damaged.bin: error: ") else text, "")

# What every call needs at least, and with a trace what it took: the timed device takes what is predicted, or longer.
expect("compile ffn.fbs -o roof.bin --set parallel_mode=data_parallel --set device_num=2", 0, lambda text: "", None)
plain = explained("roof.bin --roofline")
HEADS = "tensor<4x8x512x64xbf16>"
write("attention.mlir", f"""module {{
  "msc.func"() ({{
  ^bb0(%q: {HEADS}, %k: {HEADS}, %v: {HEADS}):
    %y = "msc.attention"(%q, %k, %v) {{causal = true}} : ({HEADS}, {HEADS}, {HEADS}) -> {HEADS}
    "msc.return"(%y) : ({HEADS}) -> ()
  }}) {{sym_name = "forward", results = ["y"], arg_attrs = [{{msc.name = "q", msc.role = "data"}},
      {{msc.name = "k", msc.role = "data"}}, {{msc.name = "v", msc.role = "data"}}]}} : () -> ()
}}
""")
expect("compile attention.mlir -o attention.bin --target cuda --cluster h100", 0, lambda text: "", None)
# Updates take the tiles of products of few rows, and move more than these.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "tiles.fbs", "--batch", "8", "--optimizer", "adam"],
               check=True)
expect("compile tiles.fbs -o tiles.bin", 0, lambda text: "", None)
tiles = explained("tiles.bin --roofline")["calls"]
moved = max(c["bytes"] for c in tiles)
expect.check(f"{moved} bytes: the update of 784 x 512 numbers with two moments moves them there and back",
             6 * 784 * 512 * 4 <= moved < 7 * 784 * 512 * 4)
for c in explained("attention.bin --roofline")["calls"] + plain["calls"] + tiles:
    expect.check(f"{c}: a prediction is no faster than the limit", c["limit_ns"] <= c["predicted_ns"] * 1.001 + 1)
# One block adds up the losses of up to 128 K rows, whatever else a GPU has; simulate says the same.
write("rows.mlir", """module {
  "msc.func"() ({
  ^bb0(%x: tensor<131008x8xf32>, %y: tensor<131008xi32>):
    %l = "msc.softmax_cross_entropy"(%x, %y) : (tensor<131008x8xf32>, tensor<131008xi32>) -> tensor<f32>
    "msc.return"(%l) : (tensor<f32>) -> ()
  }) {sym_name = "forward", results = ["l"], arg_attrs = [{msc.name = "x", msc.role = "data"},
      {msc.name = "y", msc.role = "label"}]} : () -> ()
}
""")
expect("compile rows.mlir -o rows.bin --target cuda --cluster h100", 0, lambda text: "", None)
rows = explained("rows.bin --roofline")["calls"]
expect.check(f"{rows}: the limit is that of a busy GPU, the prediction that of one block",
             any(5 * c["limit_ns"] < c["predicted_ns"] for c in rows))
step = json.loads(expect("simulate rows.bin --json", 0).stdout)["step_ms"]
expect.check(f"{step} ms as simulated", abs(step * 1e6 - sum(c["predicted_ns"] for c in rows)) <= 1)
run = "run roof.bin --device timed --steps 3 --trace roof.json --trust-native"
expect(run, 0, lambda text: "", None, env={"MSC_TIME_SCALE": "1"})
traced = explained("roof.bin --roofline --trace roof.json")
expect.check(
    "every call has a limit",
    len(plain["calls"]) > 10 and {c["kind"] for c in plain["calls"]} >= {"kernel", "product", "collective"} and all(
        c["limit_ns"] >= max(500, c["flops"] / 60, c["bytes"] / 10) * 0.999 and c["times"] == 1
        for c in plain["calls"] if c["bound"] != "links") and plain["slow"] == [])
expect.check("one call of the section after the other", [c["call"] for c in plain["calls"]] == list(
    range(len(plain["calls"]))))
expect.check(
    "the trace has them all",
    [{k: v for k, v in c.items() if k != "measured_ns"} for c in traced["calls"]] == plain["calls"] and all(
        c["measured_ns"] > 0 for c in traced["calls"]))
expect.check(
    "slow ones", traced["slow"] == [i for i, c in enumerate(traced["calls"])
                                    if c["bound"] == "memory" and c["limit_ns"] < 0.9 * c["measured_ns"]])
with open("slow.json", "w") as file:
    json.dump({"device": {"name": "slow", "flops_per_s": {"f32": 1e9}, "memory_bytes": 1 << 34, "bytes_per_s": 1e6,
                          "launch_ns": 7}, "levels": [{"name": "all", "latency_ns": 1, "bytes_per_s": 1e9}]}, file)
slower = explained("roof.bin --roofline --cluster ./slow.json")
expect.check(
    "another machine", slower["device"] == "slow" and all(
        c["bound"] == "memory" and c["limit_ns"] == c["bytes"] * 1000 for c in slower["calls"]
        if c["bound"] != "links" and c["bytes"]) and [c["predicted_ns"] for c in slower["calls"]] ==
    [c["predicted_ns"] for c in plain["calls"]])
expect(
    "explain roof.bin --roofline --trace roof.json", 0, "", lambda text: ""
    if text.startswith("one core of a server CPU: 60.0 GFLOP/s in f32, 10.0 GB/s\n limit ms predicted  measured of it ")
    and "  arithmetic dense1" in text and "  links      " in text and " all\n" in text else text)
# A trace is of this plan, or refused; whatever it is, nothing crashes.
with open("roof.json", "rb") as file:
    trace = bytearray(file.read())
for text, message in ((b"{", "a trace is JSON: "), (b"{}", "a trace has an array 'traceEvents'"),
                      (b'{"traceEvents":[]}', "the trace has no calls"),
                      (b'{"traceEvents":[{"cat":"call"}]}', "an event is no call as `msc run --trace` writes it"),
                      (trace.replace(b'"dense1"', b'"dense9"'), "the trace is of another plan"),
                      (trace.replace(b'"call":0', b'"call":99'), "the trace is of another plan")):
    with open("bad.json", "wb") as file:
        file.write(text)
    expect("explain roof.bin --roofline --trace bad.json", 1, lambda told: ""
           if told.startswith("bad.json: error: " + message) else told, "")
rng = random.Random(17)
for _ in range(40):
    bad = bytearray(trace)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(bad))
        bad[at:at + rng.randint(0, 3)] = bytes(rng.choices(b'0-9.e{}[],:"\\x\xff', k=rng.randint(0, 3)))
    with open("bad.json", "wb") as file:
        file.write(bad)
    code = subprocess.run([MSC, "explain", "roof.bin", "--roofline", "--trace", "bad.json"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode
    expect.check(f"a damaged trace: exit code {code}", code in (0, 1))
expect("explain roof.bin --trace roof.json", 2, lambda text: ""
       if "--trace goes with --roofline" in text else text, "")
expect("explain roof.bin --cluster h100", 2, lambda text: ""
       if "--cluster goes with a model, or with --roofline" in text else text, "")
for name in ("roof.bin", "roof.json", "slow.json", "bad.json", "attention.mlir", "attention.bin",
             "tiles.fbs", "tiles.bin"):
    os.unlink(name)
expect.no_files("ffn.fbs", "kept.bin", "mean.bin", "least.bin", "state.bin", "hasty.bin", "damaged.bin", "whole.fbs",
                "whole.bin", "uneven.mlir", "uneven.bin", "odd.mlir", "odd.bin", "free.fbs", "free.bin", "pairs.fbs",
                "pairs.bin", "forced.mlir", "forced.bin", "layers.fbs", "layers.bin", "stages.fbs", "stages.bin",
                "rows.mlir", "rows.bin", "many.bin", "wide.fbs", "wide.bin")
expect.done()
