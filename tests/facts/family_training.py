"""Families of memory and traffic in training: models of the asked size are compiled, and bytes read from what msc
reports."""
import json
import math
import os
import re

from facts import FOLDER, Answer, Reference, Unsupported, family, msc
from family_fusion import buckets


@family("fault.interval", "offload.model", "model.flops")
def reference(given, expected):
    raise Reference("a form for comparison, not computed by msc")


def compiled(graph, *sets):
    """What `msc compile --json` says of a graph."""
    model, plan = (os.path.join(FOLDER.name, name) for name in ("training.fbs", "training.plan"))
    graph.save(model)
    return msc("compile", model, "-o", plan, *(word for s in sets for word in ("--set", s)))


# ---- the parallel optimizer ----

def one_matrix(elements, batch):
    """A trainable matrix of so many elements whose gradient and whose operand's gradient are needed; one small
    vector besides, which is too small to be cut."""
    from msc import Graph
    rows = max(n for n in range(1, 16001) if elements % n == 0)
    g = Graph()
    x, s, w = g.input("x", "f32", [batch, rows]), g.parameter("s", "f32",
                                                              [rows]), g.parameter("w", "f32", [rows, elements // rows],
                                                                                   init="zeros")
    y = g.matmul(g.mul(x, s), w)
    g.loss(g.reduce_mean(g.mul(y, y), [0, 1]))
    g.optimizer("adam", lr=0.1)
    return g, rows


def zero_stages(given, expected, elements, *sets):
    """{"dp": report, "zero1": ...} and the size of the small vector."""
    g, rows = one_matrix(elements, 2 * given["dp"])
    said = {}
    for key in expected:
        stage = int(key[4:]) if key.startswith("zero") else 0
        said[key] = compiled(g, f"device_num={given['dp']}", "parallel_mode=semi_auto_parallel",
                             f'mesh={{"dp":{given["dp"]}}}', f"zero={stage}",
                             'comm_fusion={"allreduce":{"mode":"size","config":1}}', *sets)
    return said, rows


@family("zero.comm")
def zero_comm(given, expected):
    """As many bytes in f32 elements; what is smaller than the matrix's part of a rank is not its traffic."""
    size = given["params"] * given["bytes_per_elem"]
    said, _ = zero_stages(given, expected, round(size / 4))
    return {
        key: sum(c["bytes"] * c["count"] for c in report["collectives"]
                 if c["bytes"] * c["count"] >= size / given["dp"] / 2) for key, report in said.items()
    }


@family("zero.memory")
def zero_memory(given, expected):
    """Elements at rest on a rank by class, each in the type that is asked for; of the sums over micro-batches one is
    the loss."""
    elements = round(given["params"])
    said, rows = zero_stages(given, expected, elements, "micro_size=2")
    got = {}
    for key, report in said.items():
        memory = report["memory"]
        of = {
            "weight_bytes": memory["parameters"] / 4 - rows, "grad_bytes": memory["sums"] / 4 - rows - 1,
            "opt_bytes": memory["state"] / 8 - rows
        }
        got[key] = sum(given[k] * round(n) for k, n in of.items())
    return got


# ---- collectives ----

@family("collective.volume")
def volume(given, expected):
    """Bytes that a rank receives, which are those it sends; n times as many are moved, so that every part is whole."""
    n, size = given["n"], given["bytes"] * given["n"]
    moves = {
        "allreduce": ([size], "[{}] partial={d}", "[{}]"), "reduce_scatter": ([size], "[{}] partial={d}", "[{d}]"),
        "allgather": ([size], "[{d}]", "[{}]"), "alltoall": ([n, size], "[{d},{}]", "[{},{d}]")
    }
    got = {}
    for key in expected:
        if key in moves:
            shape, source, target = moves[key]
            got[key] = msc("reshard", "--mesh", f"d={n}", "--shape", ",".join(map(str, shape)), "--bytes", 1, "--from",
                           source, "--to", target)["bytes"] / n
    return got


@family("comm.fusion")
def fusion(given, expected):
    given.take("model")  # in words
    caps = given.get("caps_mib") or [given["cap_mib"]]
    setting = {"allreduce": {"mode": "size", "config": caps if len(caps) > 1 else caps[0]}}
    sizes = [
        b["bytes"] for b in buckets(given["params_elems"], f"comm_fusion={json.dumps(setting)}")
        if b["op"] == "all_reduce"
    ]
    return {"bucket_bytes": sizes, "num_buckets": len(sizes)}


# ---- memory ----

@family("memory.activation")
def activations(given, expected):
    """The first stage's, in GiB; without layers, the bytes that one layer keeps.  "_sel" computes scores again,
    "_sp" cuts norms too."""
    p, v, layers = given.get("p", 1), given.get("v", 1), given.get("layers", 1)
    if "gpus" in given and given["gpus"] != p * given["t"]:
        raise Unsupported("ranks that are no part of tensor or pipeline parallelism")

    def told(t, *more):
        sizes = {
            "stages": p, "micro-batches": 2 * p, "chunks": v, "transformer": layers, "sequence": given["s"],
            "samples": given["b"], "hidden": given["h"], "heads": given["a"], "tensor-parallel": t
        }
        return msc("schedule", "--kind", "interleaved" if v > 1 else "1f1b",
                   *(word for k, size in sizes.items() for word in (f"--{k}", size)), *more)
    got = {}
    for key in expected:
        words, t = key.removesuffix("_gib").split("_"), given["t"] if key != "none" else 1
        more = ["--sequence-parallel"] if {"sp", "seq"} & set(words) else []
        more += ["--recompute", "full"
                 ] if "full" in words else ["--recompute", "selective"] if {"sel", "selective"} & set(words) else []
        said = told(t, *more)
        got[key] = said["state_bytes"] / 2**30 if key == "param_opt_gib" else said["activation_bytes"][
            0] / 2**30 if key.endswith("_gib") else said["layer_bytes"]
    return got


def layers(num, segments, rows=4096, columns=16):
    """IR text: layers that each keep one value for the backward, those of a segment marked to be computed again."""
    x, w = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}x{columns}xf32>"
    lines, last = [], "x"
    for i in range(num):
        again = f'{{recompute = "s{i * segments // num}"}} '
        lines += [
            f'%m{i} = "msc.matmul"(%{last}, %w{i}) {again}: ({x}, {w}) -> {x}',
            f'%y{i} = "msc.tanh"(%m{i}) {again}: ({x}) -> {x}'
        ]
        last = f"y{i}"
    lines += [
        f'%loss = "msc.reduce_mean"(%{last}) {{dims = [0, 1]}} : ({x}) -> tensor<f32>',
        '"msc.return"(%loss) : (tensor<f32>) -> ()'
    ]
    args = [f"%x: {x}"] + [f"%w{i}: {w}" for i in range(num)]
    attrs = ['{msc.name = "x", msc.role = "data"}'
             ] + [f'{{msc.init = "normal:0.1", msc.name = "w{i}", msc.role = "parameter"}}' for i in range(num)]
    return "\n".join([
        "module {", '"msc.func"() ({', f"^bb0({', '.join(args)}):", *lines,
        "}) {" + f"arg_attrs = [{', '.join(attrs)}],",
        'sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}} : () '
        '-> ()',
        "}", ""
    ]), rows * columns * 4


def in_segments(num, segments):
    """Values of the chain that the arena has room for, gradients of parameters being small; layers computed again."""
    text, unit = layers(num, segments)
    with open(os.path.join(FOLDER.name, "layers.mlir"), "w") as out:
        out.write(text)
    report = msc("compile", "layers.mlir", "-o", "layers.plan", "--dump-dir", "layers")
    dumps = os.path.join(FOLDER.name, "layers")
    (after,) = [name for name in os.listdir(dumps) if name.endswith("-recompute.mlir")]
    with open(os.path.join(dumps, after)) as f:
        again = sum('"msc.tanh"' in line and "recompute" in line for line in f)
    for name in os.listdir(dumps):
        os.remove(os.path.join(dumps, name))
    return round(report["memory"]["scratch"] / unit), again


def wrong_with_chain(said, repeats):
    """Runs the order: what is wrong with it, or None."""
    state, held, ran, back = 0, set(), [0] * said["steps"], []
    for entry in said["order"]:
        kind, step = entry["kind"], entry["step"]
        if kind == "restore" and step in held:
            state = step
        elif kind == "free" and step in held:
            held.remove(step)
        elif kind == "restore" or kind == "free" or state != step:
            return f"{kind} of step {step} in state {state}, with {sorted(held)} stored"
        elif kind == "store":
            held.add(step)
        elif kind == "F":
            state, ran[step] = step + 1, ran[step] + 1
        else:
            back.append(step)
        if len(held) > said["checkpoints"]:
            return f"{len(held)} states are stored"
    if back != list(range(said["steps"]))[::-1] or max(ran) > repeats or sum(ran) != said["forwards"]:
        return f"backward of {back}, forwards {ran}"
    return None


@family("recompute.chain")
def chain_again(given, expected):
    """The best of all segments of equal length; or the longest chain for so many checkpoints, whose order is run."""
    if "checkpoints" in given:
        said = msc("schedule", "--checkpoints", given["checkpoints"], "--repeats", given["max_repeats"])
        return Answer({"max_steps": said["max_steps"]}, wrong=wrong_with_chain(said, given["max_repeats"]))
    if given["unit_act"] != 1:
        raise Unsupported("layers that keep values of several sizes")
    num = given["n"]
    said = {k: in_segments(num, k) for k in range(1, num + 1) if num % k == 0}
    best = min(said, key=lambda k: said[k])
    return {"best_k": best, "peak": said[best][0], "extra_forward_ops_at_most": said[best][1]}


def paths_of(given):
    """Files beside the folder of the facts; "{A..E}" stands for several."""
    text = given.get("file") or given["files"]
    found = re.search(r"\{(\w)\.\.(\w)\}", text)
    names = [chr(c) for c in range(ord(found[1]), ord(found[2]) + 1)] if found else [None]
    return {n: os.path.join(given["folder"], text.replace(found[0], n) if found else text) for n in names}


@family("memory.static_plan")
def static_plan(given, expected):
    given.take("buffers", "lifetimes")  # of the file
    plans = {}
    for name, path in paths_of(given).items():
        if not os.path.exists(path):
            raise Unsupported(f"{path} is not there")
        plans[name] = msc("memplan", path, *(["--capacity", given["capacity"]] if "capacity" in given else []))
    first = next(iter(plans.values()))
    bounds = {n: p["lower_bound"] for n, p in plans.items()}
    return {
        "height": first["size"], "lower_bound": first["lower_bound"], "lower_bounds": bounds,
        "goal_ratio_at_most": max(p["size"] / p["lower_bound"] for p in plans.values()),
        "fits": sum(p["size"] <= given.get("capacity", math.inf) for p in plans.values())
    }
