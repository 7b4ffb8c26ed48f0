"""Families of configuration, pipelines and optimizer shards: keys are set, and what msc says of them is read."""
import json
import os
import re

from facts import FOLDER, Answer, Refused, Unsupported, family, msc


def setting(key, value):
    return f"{key}={json.dumps(value)}"


@family("comm_fusion.config_errors*")
def fusion_errors(given, expected):
    return {"error": False, **msc("config", "--set", setting("comm_fusion", given["comm_fusion"]))}


@family("comm_fusion.*")
def fusion(given, expected):
    if "set" not in given:
        raise Unsupported("fusion of collectives")
    value, without = given["set"], {k: v for k, v in given["set"].items() if k != "openstate"}
    after, reset = (msc("config", "--set", setting("comm_fusion", v))["comm_fusion"]["value"] for v in (value, without))
    return {"after_set": after, "after_reset_openstate": reset["openstate"]}


# ---- the parallel optimizer ----

def optimized(net, text, strategies, *keys):
    """What `msc explain` says of every parameter of a net that is trained."""
    value = net.read(text, {name: {"in_strategy": s} for name, s in strategies.items()})
    return trained(net, value, *keys)


def trained(net, value, *keys):
    g = net.g
    g.loss(g.reduce_mean(g.mul(value, value), list(range(len(value.shape)))))
    g.optimizer("momentum", lr=0.1, momentum=0.9)
    sets = [
        word for key in (*keys, "parallel_mode=semi_auto_parallel", "enable_parallel_optimizer=true")
        for word in ("--set", key)
    ]
    plan = os.path.join(FOLDER.name, "optimized.plan")
    msc("compile", net.dump(), "-o", plan, *sets)
    return {p["parameter"]: p["optimizer"] for p in msc("explain", plan)["parameters"]}


@family("parallel_optimizer.shard_decision", "parallel_optimizer.threshold")
def optimizer(given, expected):
    from nets import Net
    given.take("w2_bytes")  # follows from the shape
    w2 = given["w2"]
    w1 = given.get("w1", [64, w2[0]])
    net = Net({"x": [128, w1[0]], "w1": w1, "w2": w2})
    keys = [f"device_num={given['devices']}"]
    if isinstance(given["threshold_kb"], int):
        keys.append(setting("parallel_optimizer_config", {"parallel_optimizer_threshold": given["threshold_kb"]}))
    said = optimized(net, "fc2(fc1(x,w1),w2)", given["strategy"], *keys)
    out = {}
    for name, text in said.items():
        group = re.search(r" over (\d+) ranks", text)
        out[f"{name}_sharded"] = group is not None
        out[f"{name}_group_size"] = int(group[1]) if group else 1
    finer = all(out[k] or not v for k, v in expected.items() if k.endswith("_sharded"))
    return Answer({k: out.get(k) for k in expected if k != "why"},
                  better="parameters are cut in unequal parts too" if finer else None)


def cut_for_update(given, shape, *keys):
    """The layout of the update of a parameter whose own layout is given, as digits per dimension (axis, parts
    before, parts); None: whole."""
    from nets import Net
    sizes = given["device_matrix"]
    text = ",".join("{" + ",".join(f"a{len(sizes) - 1 - k}"
                                   for k in (entry if isinstance(entry, list) else [entry]) if k >= 0) + "}"
                    for entry in given["tensor_map"])
    net = Net({"x": shape, "w": shape}, marks={"w": {"layout": f"[{text}]"}})
    total = 1
    for n in sizes:
        total *= n
    said = trained(net, net.read("mul(x,w)", {}), f"device_num={total}",
                   setting("mesh", {f"a{i}": n for i, n in enumerate(sizes)}), "strict_parameter_layout=false",
                   setting("parallel_optimizer_config", {"parallel_optimizer_threshold": 0}), *keys)["w"]
    found = re.search(r" in \[(.*?)\]: ", said)
    if not found:
        return None, said
    digits = []
    for dim in re.findall(r"\{(.*?)\}", found[1]):
        parts = re.findall(r"a(\d+)(?::\((\d+)\)(\d+))?", dim)
        digits.append([(int(a), int(before or 1), int(n) if n else sizes[int(a)]) for a, before, n in parts])
    return digits, said


@family("parallel_optimizer.layout_with_opt_shard*")
def optimizer_layout(given, expected):
    """The dimension that is cut further written as several, one per digit."""
    size = given.get("opt_shard_size", -1)
    shape = given.get("full_shape") or given["shape"]
    if given.get("opt_shard_step") == 0 or size == 0:  # a step that is not 0 follows from size and matrix
        return {"device_matrix": given["device_matrix"], "tensor_map": given["tensor_map"], "shape": shape}
    digits, said = cut_for_update(given, shape, *([f"optimizer_weight_shard_size={size}"] if size > 0 else []))
    if digits is None:
        raise Refused(said)
    borders = {a: {1, n} for a, n in enumerate(given["device_matrix"])}
    for a, before, n in (d for dim in digits for d in dim):
        borders[a] |= {before, before * n}
    axes = [(a, low, high // low) for a in borders for low, high in zip(sorted(borders[a]),
                                                                        sorted(borders[a])[1:])] or [(0, 1, 1)]
    fine = lambda d: [x for x in axes if x[0] == d[0] and d[1] <= x[1] < d[1] * d[2]]  # noqa: E731
    tensor_map, finer = [], []
    for dim, n in zip(digits, shape):
        parts = [x for d in dim for x in fine(d)]
        tensor_map += [len(axes) - 1 - axes.index(x) for x in parts] or [-1]
        for x in parts[:-1]:
            finer.append(x[2])
            n //= x[2]
        finer.append(n)
    return {"device_matrix": [x[2] for x in axes], "tensor_map": tensor_map, "shape": finer}


@family("parallel_optimizer.weight_shard_slice*")
def optimizer_slice(given, expected):
    layout, size = given.get("layout") or given, given.get("optimizer_weight_shard_size", -1)
    shape = layout["shape"]
    digits, said = cut_for_update(
        layout, shape, *([f"optimizer_weight_shard_size={size}"] if isinstance(size, int) and size > 0 else []))
    if digits is None:
        raise Refused(said)
    part = list(shape)
    for d, dim in enumerate(digits):
        for _, _, n in dim:
            part[d] = -(-part[d] // n)
    return Answer({k: True if k == "ok" else part for k in expected if k != "reason"},
                  better=f"cut in unequal parts: {said}" if expected.get("ok") is False else None)


@family("parallel_optimizer.*")
def optimizer_key(given, expected):
    msc("config", "--set", "enable_parallel_optimizer=true")
    raise Unsupported("this question about the parallel optimizer")


@family("pipeline.micro_batch*")
def micro_batches(given, expected):
    from nets import Net
    net = Net({"x": [given["input_dim0_total"], 8], "w": [8, 8]})
    net.read("matmul(x,w)", {})
    net.strategies("parallel_mode=semi_auto_parallel", f"device_num={given['devices']}",
                   f"pipeline_stages={given['stages']}", f"micro_size={given['micro_batches']}")
    return {"ok": True, "error": False}


@family("pipeline.schedule*")
def schedule(given, expected):
    got = msc("schedule", "--kind", given["scheduler"], "--stages", given["stages"], "--micro-batches", given["micros"],
              "--tf", 1, "--tb", 2)
    fewer = given["micros"] < given["stages"]
    return Answer({**got, "error": False},
                  possible=f"fewer micro-batches than stages, {got['bubble_fraction']:.0%} idle" if fewer else None)


@family("config.*", "*config_errors")
def config(given, expected):
    return msc("config", *(x for k, v in given.items() for x in ("--set", setting(k, v))))
