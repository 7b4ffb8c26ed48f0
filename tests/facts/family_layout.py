"""Families of the layout algebra alone, answered by msc layout: refinements, slices, groups, stages, optimizer
shards."""
import json
import math
import re

from facts import family, msc, ranks


def listed(sizes):
    return ",".join(map(str, sizes))


def mapped(entries):
    return json.dumps(entries)[1:-1]


def shape_of(layout):
    """A layout without a shape is asked about with the smallest shape that it cuts."""
    matrix = layout["device_matrix"]
    if "shape" in layout:
        return layout["shape"]
    return [
        math.prod(matrix[-1 - k] for k in (e if isinstance(e, list) else [e]) if k >= 0) for e in layout["tensor_map"]
    ]


def grid_args(layout, matrix="device_matrix"):
    return [
        "--device-matrix",
        listed(layout[matrix]), "--tensor-map",
        mapped(layout["tensor_map"]), "--shape",
        listed(shape_of(layout))
    ]


def ask_layout(layout, *args):
    """--rank keeps the answer short: slices of one rank only."""
    return msc("layout", *grid_args(layout), *(args if "--rank" in args else (*args, "--rank", 0)))


def layout_in(given):
    return given.get("layout") or given.get("from") or given


@family("tensor_layout.unify*")
def unify(given, expected):
    other = {k: given["to"][k] for k in ("device_matrix", "tensor_map", "shape") if k in given["to"]}
    return ask_layout(given["from"], "--unify-with", json.dumps(other))


@family("tensor_layout.expand_device_matrix*")
def expand_matrix(given, expected):
    new = given.get("new_device_matrix") or given["device_matrix_new"]
    return ask_layout(layout_in(given), "--expand-device-matrix", listed(new))["expanded_device_matrix"]


@family("tensor_layout.expand_tensor_shape*")
def expand_tensor_shape(given, expected):
    new = given.get("new_shape") or given["shape_new"]
    return ask_layout(layout_in(given), "--expand-shape", listed(new))["expanded_shape"]


@family("tensor_layout.*")
def layout(given, expected):
    """slice_shape, normal form, and whatever else the command says of one layout."""
    if "to" in given:
        return unify(given, expected)
    if "new_shape" in given:
        return expand_tensor_shape(given, expected)
    if "new_device_matrix" in given:
        return expand_matrix(given, expected)
    return ask_layout(layout_in(given), "--rank", given.get("rank", 0))


# ---- shapes ----

def refined(a, b, option):
    return msc("layout", "--shape", listed(a), option, listed(b))["unified" if option == "--unify-with" else "out"]


@family("shape_util.unify*")
def unify_shapes(given, expected):
    a, b = (given[k] for k in ("a", "b")) if "a" in given else list(given.values())[:2]
    out = refined(a, b, "--unify-with")
    return {k: out for k in expected if k not in ("note", "error", "ok")}


@family("shape_util.expand_shape*")
def expand_shape(given, expected):
    a, b = given.get("shape") or given["in"], given["expand"]
    out = refined(a, b, "--expand-shape")
    return {k: out for k in expected if k not in ("note", "error", "ok")}


def running(shape, from_right):
    """Products of leading (trailing) sizes: the devices that share the first (last) dimensions of a device matrix."""
    out, n = [], 1
    for s in reversed(shape) if from_right else shape:
        n *= s
        out.append(n)
    return out[::-1] if from_right else out


@family("shape_util.*")
def accumulate(given, expected):
    """Accumulated products are borders; msc tells shapes, and borders are products of a shape's sizes."""
    values = {k: v for k, v in given.items() if isinstance(v, list)}
    from_right = any("reverse" in k for k in list(given) + list(expected))

    def shape(borders):
        ends = borders[::-1] if from_right else borders
        sizes = [e // b for b, e in zip([1, *ends], ends)]
        return sizes[::-1] if from_right else sizes
    is_borders = [("accum" in k or "pos" in k) for k in values]
    shapes = [shape(v) if b else v for v, b in zip(values.values(), is_borders)]
    both = shapes if len(shapes) > 1 else shapes * 2
    out = refined(*both[:2], "--expand-shape")
    return {
        k: running(out, from_right) if "accum" in k or (all(is_borders) and k in ("out", "unified")) else out
        for k in expected
    }


# ---- devices ----

def matrix_args(given):
    matrix = given["device_matrix"]
    entries = given.get("tensor_map", [-1])
    return {"device_matrix": matrix,
            "tensor_map": entries}, ["--ranks", listed(ranks(given["ranks"])), "--rank", given["rank"]]


@family("device_matrix.*")
def devices(given, expected):
    layout, args = matrix_args(given)
    return ask_layout(layout, *args)


@family("pipeline.stage_rank_lists", "pipeline.stage_*")
def stages(given, expected):
    sizes = given["stage_map"]
    got = msc("layout", "--ranks", listed(ranks(given["ranks"])), "--stages", listed(sizes),
              *(["--rank", given["rank"]] if "rank" in given else []))
    if "rank" in given:
        got |= {"rank_index_in_stage": got["rank_in_stage"], "ranks_in_stage": got["stages"][got["stage_id"]]}
    return got


# ---- ranks and perms ----

@family("checkpoint.optshard_needed_ranks*")
def shard_ranks(given, expected):
    """Slices of a parameter that is cut along this axis and then by the optimizer: the ranks that hold the rest of
    them."""
    matrix = given["device_matrix"]
    axis = given[next((k for k in given if "axis" in k or "index" in k), "axis")]
    size = math.prod(matrix)
    got = ask_layout({"device_matrix": matrix, "tensor_map": [axis], "shape": [size * matrix[-1 - axis]]}, "--rank",
                     given["rank"])
    if axis == -1 or "ranks_with_same_slice" not in got:
        return {"ranks": list(range(size))}
    return {"ranks": got["ranks_with_same_slice"]}


@family("layout.transpose_compose")
def compose(given, expected):
    """Two transposes in a row are one: what msc's simplifier makes of them."""
    from nets import Net
    net = Net()
    x = net.g.input("x", "f32", [2 + i for i in range(len(given["first"]))])
    y = net.g.transpose(net.g.transpose(x, perm=given["first"]), perm=given["second"])
    net.g.output("y", y)
    text = net.opt("--passes=fold,dce")
    perms = [json.loads(p) for p in re.findall(r"perm = (\[[^\]]*\])", text)]
    identity = list(range(len(given["first"])))
    return {"combined": perms[0] if len(perms) == 1 else identity if not perms else perms}
