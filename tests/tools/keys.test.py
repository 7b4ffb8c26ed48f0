#!/usr/bin/env python3
"""Nothing is accepted without effect: for every row of passes/config/config.def and of the user in ir/fact.def a
value other than the default's changes the plan (its text, its memory or time), or what is told of it, or is refused
in words that name it.  A row that has no line here fails the test."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))

# Each op and parameter has room for what a line below says of it: 'dense1 { }' in ops, 'w1 { }' in arguments.
MODEL = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<BxNxf32>, %y: tensor<Bxi32>, %w1: tensor<NxNxf32>, %b1: tensor<Nxf32>, %w2: tensor<NxNxf32>, %w3: tensor<Nx8xf32>):
    %0 = "msc.matmul"(%x, %w1) {dense1} : (tensor<BxNxf32>, tensor<NxNxf32>) -> tensor<BxNxf32> loc("dense1")
    %1 = "msc.add"(%0, %b1) : (tensor<BxNxf32>, tensor<Nxf32>) -> tensor<BxNxf32> loc("bias1")
    %2 = "msc.tanh"(%1) {tanh1} : (tensor<BxNxf32>) -> tensor<BxNxf32> loc("tanh1")
    %3 = "msc.matmul"(%2, %w2) {dense2} : (tensor<BxNxf32>, tensor<NxNxf32>) -> tensor<BxNxf32> loc("dense2")
    %4 = "msc.tanh"(%3) {tanh2} : (tensor<BxNxf32>) -> tensor<BxNxf32> loc("tanh2")
    %5 = "msc.reduce_mean"(%4) {dims = [0], keep_dims = truemean} : (tensor<BxNxf32>) -> tensor<1xNxf32> loc("mean")
    %6 = "msc.sub"(%4, %5) : (tensor<BxNxf32>, tensor<1xNxf32>) -> tensor<BxNxf32> loc("centre")
    %7 = "msc.matmul"(%6, %w3) {dense3} : (tensor<BxNxf32>, tensor<Nx8xf32>) -> tensor<Bx8xf32> loc("dense3")
    %8 = "msc.softmax_cross_entropy"(%7, %y) : (tensor<Bx8xf32>, tensor<Bxi32>) -> tensor<f32> loc("loss")
    "msc.return"(%8) : (tensor<f32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"}, {msc.init = "normal:0.1", msc.name = "w1", msc.role = "parameter"w1},
                   {msc.name = "b1", msc.role = "parameter"}, {msc.init = "normal:0.1", msc.name = "w2", msc.role = "parameter"}, {msc.init = "normal:0.1", msc.name = "w3", msc.role = "parameter"}],
      loss = 0 : i64, optimizer = {kind = "adam", lr = 1.0e-02 : f64}, results = ["loss"], sym_name = "forward"} : () -> ()
}
"""
# Dropping the mean: what must not mix samples, as stages and micro-batches want it.
PLAIN = re.sub(r'    %5 = .*\n    %6 = .*\n', '', MODEL).replace("%6, %w3", "%4, %w3")
WIDE = MODEL.replace("N", "32")  # with weights of a page
SEMI = {"device_num": 4, "parallel_mode": "semi_auto_parallel"}
AUTO = {"device_num": 4, "parallel_mode": "auto_parallel"}
DATA = {"device_num": 4, "parallel_mode": "data_parallel"}
TP = {**SEMI, "mesh": {"dp": 2, "tp": 2}, "strict_parameter_layout": False}
PIPE = {**SEMI, "pipeline_stages": 2, "micro_size": 4}
ZERO = {**DATA, "zero": 3, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
ON_DISK = {**DATA, "offload": {"optimizer": "disk"}, "offload_path": "."}
GPU = "--target cuda:sm_90 --cluster h100"
CUT = {"dense1": "in_strategy = [[2, 1], [1, 2]]", "dense2": "in_strategy = [[1, 4], [4, 1]]"}

# key or key.field: value, what else is set in both plans; further: text of ops, words of the command line, the model.
KEYS = {
    "device_num": (2, DATA),
    "global_rank": (3, DATA),
    "mesh": ({"a": 4}, SEMI, CUT),
    "parallel_mode": ("data_parallel", SEMI, CUT),
    "search_mode": ("sharding_propagation", AUTO, {"dense1": "in_strategy = [[1, 2], [2, 2]]"}),
    "gradients_mean": (True, DATA),
    "gradients_mean_of": ("parameter", {**TP, "gradients_mean": True}, {
        "dense1": "in_layout = [\"[{dp,tp},{}]\", \"[{},{}]\"]", "dense2": "in_layout = [\"[{dp},{}]\", \"[{},{tp}]\"]"
    }),
    "gradient_fp32_sync": (False, {**DATA, "compute_type": "bf16"}),
    "deterministic": (False, DATA),
    "f32_products": ("fma", DATA, {}, "", MODEL.replace("N", "256").replace("B", "512")),
    "own_outputs": (True, DATA),
    "variable_lr": (True, DATA),
    "variable_hypers": (True, DATA),
    "full_batch": (True, DATA),
    "dataset_strategy": ([[1, 4], [1]], SEMI),
    "strict_parameter_layout": (False, SEMI, {"tied": "1"}),
    "enable_alltoall": (False, SEMI, CUT),
    "strategy_ckpt_save_file": ("saved.json", SEMI),
    "strategy_ckpt_load_file": ("there.json", SEMI),
    "all_reduce_fusion_config": ([1, 2], DATA),
    "comm_fusion": ({"allreduce": {"mode": "index", "config": [1]}}, DATA),
    "enable_parallel_optimizer": (True, {**DATA, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}),
    "parallel_optimizer_config": ({"parallel_optimizer_threshold": 1000}, {**DATA, "zero": 1}),
    "parallel_optimizer_config.gradient_accumulation_shard": (
        True, {**DATA, "enable_parallel_optimizer": True, "micro_size": 4}, {}, "", PLAIN),
    "parallel_optimizer_config.parallel_optimizer_threshold": (1000, {**DATA, "zero": 1}),
    "zero": (3, {**DATA, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}),
    "optimizer_weight_shard_size": (
        2, {**DATA, "zero": 1, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}),
    "prefetch_depth": (3, ZERO),
    "memory_limit": (1000, DATA),
    "micro_size": (2, DATA, {}, "", PLAIN),
    "overlap": (False, {**ZERO}),
    "micro_batch_interleaved": (2, {**TP}, CUT, "", PLAIN),
    "pipeline_stages": (2, {**SEMI, "micro_size": 4}, {}, "", PLAIN),
    "pipeline_scheduler": ("gpipe", PIPE, {}, "", PLAIN),
    "pipeline_chunks": (2, SEMI),
    "post_validation": (False, PIPE, {}, "", PLAIN),
    "compute_type": ("bf16", DATA),
    "loss_scale": (128, DATA),
    "loss_scale_config": ({"init": 4}, {**DATA, "loss_scale": "dynamic"}),
    "loss_scale_config.init": (4, {**DATA, "loss_scale": "dynamic"}),
    "loss_scale_config.window": (5, {**DATA, "loss_scale": "dynamic"}),
    "loss_scale_config.factor": (4, {**DATA, "loss_scale": "dynamic"}),
    "offload": ({"param": "cpu"}, DATA, {}, "", WIDE),
    "offload.param": ("cpu", DATA, {}, "", WIDE),
    "offload.optimizer": ("cpu", DATA, {}, "", WIDE),
    "offload.update": ("cpu", {"offload": {"optimizer": "cpu"}}, {}, GPU, WIDE),
    "offload_path": ("/x", ON_DISK, {}, "", WIDE),
    "offload_cpu_size": (1, {**DATA, "offload": {"param": "cpu"}}, {}, "", WIDE),
    "offload_disk_size": (1, ON_DISK, {}, "", WIDE),
    "host_mem_block_size": (8192, ON_DISK, {}, "", WIDE.replace("32", "64")),
    "parameter_server": ({"mode": "sync"}, DATA),
    "parameter_server.mode": ("async", DATA),
    "parameter_server.staleness": (1, DATA),
    "parameter_server.replication": (2, DATA),
    "elastic": (True, DATA),
    "integrated_save": (True, DATA),
}
# True of every run, as its meaning says: values come from the seed, or one file.
ALWAYS = {"parameter_broadcast"}
# What needs more than this model to be seen: tests/e2e/recompute_best, tests/passes/3_shard/propagate, tests/runtime
# (integrated_save: layouts), tests/tools/run and tests/e2e/offload (auto_offload).
OTHER_KEYS = {"recompute", "integrated_save", "auto_offload", "offload.activation"}
OTHER_HINTS = {"priority", "msc.weights"}
# What only a GPU's library does, with attention, convolutions and gelu: tests/cuda sets them.
ON_GPUS = {
    "early_launch", "library_epilogues", "score_portions", "library_attention", "library_convolution",
    "library_engines"
}

HINTS = {
    "in_strategy": (SEMI, "dense1", "[[1, 4], [4, 1]]"),
    "out_strategy": (SEMI, "dense1", "[[1, 4]]"),
    "in_layout": (TP, "dense1", '["[{},{tp}]", "[{tp},{}]"]'),
    "out_layout": (TP, "dense1", '["[{},{tp}]"]'),
    "pipeline_stage": (PIPE, "dense2", "0 : i64"),
    "recompute": (SEMI, "tanh1", "true"),
    "mp_comm_recompute": (SEMI, "tanh1", "true"),
    "parallel_optimizer_comm_recompute": (ZERO, "dense2", "false"),
    "comm_fusion": (DATA, "dense1", "0 : i64"),
    "fusion": (DATA, "dense1", "0 : i64"),
    "manual_split": (SEMI, "dense1", "[8, 24]"),
    "aligned": (SEMI, "dense1", "true"),
    "compute_type": ({**DATA, "compute_type": "bf16"}, "dense1", '"f32"'),
    "primitive_target": (DATA, "dense1", '"GPU"'),
    "cross_batch": (SEMI, "mean", "true"),
    "shard": (TP, "dense1", '{in_strategy = [[4, 1]], name = "b", out_strategy = [[4, 1]]}'),
    "memory_limit": (DATA, "tanh1", '{bytes = 0 : i64, name = "b"}'),
    "max_bytes": (TP, "dense2", "1 : i64"),
    "deny_replicate": ({**SEMI, "dataset_strategy": "full_batch"}, "dense1", "true, in_strategy = [[1, 1], [1, 1]]"),
    "priority": ({**AUTO, "search_mode": "sharding_propagation"}, "dense2", "5 : i64"),
    "msc.name": (DATA, "w1", '"other"'),
    "msc.role": (DATA, "w1", '"state"'),
    "msc.init": (DATA, "w1", '"zeros"'),
    "msc.trainable": (DATA, "w1", "false"),
    "msc.layout": (TP, "w1", '"[{tp},{}]"'),
    "msc.parallel_optimizer": ({**DATA, "zero": 1,
                                "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}, "w1", "false"),
    "msc.layerwise_parallel": (DATA, "w1", "true"),
    "msc.comm_fusion": (DATA, "w1", "0 : i64"),
    "msc.parameter_server": ({**DATA, "parameter_server": {"mode": "sync"}}, "w1", "true"),
    "msc.cache_rows": (DATA, "w1", "5 : i64"),
    "msc.batch_dim": (SEMI, "x", "1 : i64"),
    "msc.weights": (DATA, "w1", '{file = "a.safetensors", tensor = "t"}'),
}
# What passes, not users, say of arguments.
INNER = {"aligned", "msc.owner", "msc.shape", "msc.model_shape", "msc.whole"}


def fill(model, batch=32, width=16, **marks):
    """The model's text with sizes, and with what is said of ops and arguments."""
    tied = marks.pop("tied", None)
    for name in ("dense1", "tanh1", "dense2", "tanh2", "dense3"):
        model = model.replace("{" + name + "}", "{" + marks.pop(name, "") + "}")
    mean = marks.pop("mean", "")
    model = model.replace("truemean", "true" + (", " + mean if mean else ""))
    for name in ("w1", "x"):
        extra = marks.pop(name, "")
        model = model.replace('"parameter"w1}' if name == "w1" else 'msc.name = "x", msc.role = "data"}',
                              ('"parameter"' if name == "w1" else 'msc.name = "x", msc.role = "data"') +
                              (", " + extra if extra else "") + "}")
    if tied:  # one parameter, used in two layouts
        model = model.replace("%w2)",
                              "%w1)").replace(' {msc.init = "normal:0.1", msc.name = "w2", msc.role = "parameter"},',
                                              "").replace(", %w2: tensor<NxNxf32>", "")
        model = model.replace('"msc.matmul"(%x, %w1) {}',
                              '"msc.matmul"(%x, %w1) {in_strategy = [[4, 1], [1, 1]]}').replace(
                                  '"msc.matmul"(%2, %w1) {}', '"msc.matmul"(%2, %w1) {in_strategy = [[1, 4], [4, 1]]}')
    assert not marks, marks
    return model.replace("B", str(batch)).replace("N", str(width))


def settings(keys):
    return [
        word for key, value in keys.items()
        for word in ("--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    ]


KNOWN = {}


def observed(model, keys, words=""):
    """What a plan does and what is told of it, without the list of what was set; or the refusal."""
    what = (model, json.dumps(keys, sort_keys=True), words)
    if what not in KNOWN:
        KNOWN[what] = observe(model, keys, words)
    return KNOWN[what]


def observe(model, keys, words):
    with open("m.mlir", "w") as out:
        out.write(model)
    for name in ("p.bin", "saved.json"):
        if os.path.exists(name):
            os.remove(name)
    shutil.rmtree("ir", ignore_errors=True)
    done = subprocess.run(
        [MSC, "compile", "m.mlir", "-o", "p.bin", "--dump-dir", "ir", *words.split(), *settings(keys)],
        capture_output=True, text=True, timeout=120)
    told = re.sub(r"plan of \d+ bytes in \d+ ms", "", done.stdout + done.stderr)  # the file has what was set, too
    if done.returncode:
        return False, done.stderr
    dump = subprocess.run([MSC, "dump", "p.bin"], capture_output=True, text=True, timeout=60).stdout
    dump = "\n".join(line for line in dump.splitlines() if not line.startswith("  set "))
    explained = subprocess.run([MSC, "explain", "p.bin"], capture_output=True, text=True, timeout=60).stdout
    program = open(os.path.join("ir", max(f for f in os.listdir("ir") if f.endswith(".mlir")))).read()
    return True, (told, dump, explained, program, os.path.exists("saved.json"))


def differs(name, word, with_it, without):
    """None, or what is wrong.  A refusal names the key or hint."""
    fine, result = with_it
    if not without[0]:
        return None if fine and "strict" in name else (f"{name}: the plan without it does not compile: "
                                                       f"{without[1][:300]}")
    if not fine:
        return None if word in result else f"{name}: refused without being named: {result[:300]}"
    return f"{name} is accepted and has no effect" if result == without[1] else None


def rows_of_config():
    text = open(os.path.join(HERE, "../../passes/config/config.def"), encoding="utf-8").read()
    keys = re.findall(r"^KEY\((\w+),", text, re.M)
    return keys + [f"{key}.{name}" for key, name in re.findall(r"^FIELD\((\w+), (\w+),", text, re.M)]


def rows_of_annotations():
    """What a user may say of ops and arguments."""
    text = open(os.path.join(HERE, "../../ir/fact.def"), encoding="utf-8").read()
    hints = re.findall(r"^HINT\((\w+),", text, re.M)
    facts = re.findall(r'^FACT\(\w+, "([\w.]+)", (?:OP|ARG|ARG_MODULE), \w+, "user",', text, re.M)
    assert len(hints) > 10 and len(facts) > 10
    return hints + facts


def check_keys(faults):
    for row in rows_of_config():
        if row in ALWAYS | ON_GPUS | OTHER_KEYS:
            continue
        if row not in KEYS:
            faults.append(f"no line for the key {row}")
            continue
        value, base, marks, words, model = KEYS[row] + ({}, "", MODEL)[len(KEYS[row]) - 2:]
        key, _, field = row.partition(".")
        given = {**base, key: {**base.get(key, {}), field: value} if field else value}
        text = fill(model, **marks)
        fault = differs(row, key, observed(text, given, words), observed(text, base, words))
        if fault:
            faults.append(fault)


def check_hints(faults):
    for name in rows_of_annotations():
        if name in INNER | OTHER_HINTS:
            continue
        if name not in HINTS:
            faults.append(f"no line for the hint {name}")
            continue
        base, where, value = HINTS[name]
        model = PLAIN if base is PIPE else MODEL
        own = {"w1": ("msc.init", "msc.name", "msc.role"), "x": ("msc.name", "msc.role")}.get(where, ())
        if name in own:  # in place of what stands there
            text = fill(model)
            there = {
                "msc.init": 'msc.init = "normal:0.1", msc.name = "w1"', "msc.name": 'msc.name = "w1"',
                "msc.role": 'msc.name = "w1", msc.role = "parameter"'
            }[name]
            marked = text.replace(there, re.sub(re.escape(name) + r' = "[^"]*"', lambda m: f"{name} = {value}", there))
        else:
            text, marked = fill(model), fill(model, **{where: f"{name} = {value}"})
        fault = differs(name, name.split(".")[-1], observed(marked, base), observed(text, base))
        if fault:
            faults.append(fault)


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("m.mlir", "w") as out:
            out.write(fill(MODEL, dense1="in_strategy = [[1, 4], [4, 1]]"))
        subprocess.run(
            [MSC, "compile", "m.mlir", "-o", "p.bin", *settings({**SEMI, "strategy_ckpt_save_file": "there.json"})],
            check=True, capture_output=True)
        for words in ("", GPU):  # what does not change is told alike, or every difference would prove an effect
            if observe(fill(MODEL), DATA, words) != observe(fill(MODEL), DATA, words):
                faults.append(f"two plans of the same differ: {words}")
        check_keys(faults)
        check_hints(faults)
    print("\n".join(faults) if faults else f"{len(rows_of_config())} keys and {len(rows_of_annotations())} hints")
    sys.exit(bool(faults))


main()
