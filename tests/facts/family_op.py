"""Families of single ops: one op under a strategy tuple; its device matrix, tensor maps, slices and unfinished sums
are read from the strategy file that msc writes."""
import math
import re

from facts import Refused, Unsupported, family, msc
from family_layout import listed
from msc.ops import ROWS
from nets import LIKE, Net, kind_of

SEMI = ("parallel_mode=semi_auto_parallel",)
# words of facts that are no operand
OPTIONS = {
    "strategy", "out_strategy", "devices", "device_num", "rank", "convention", "axis", "perm", "to", "keep_dims",
    "depth", "transpose_a", "transpose_b", "order", "kernel", "stride", "pad", "op", "mesh", "begin", "begins", "end",
    "ends", "strides", "multiples", "dims", "repeats", "sizes", "size_splits", "new_shape", "k", "shape_to", "padding",
    "dilation", "rule", "axes", "on", "off", "exponent", "epsilon", "dtype", "manual_split", "all_to_all",
    "in_strategy", "net", "formula"
}


def operands(given):
    """Names and shapes, in order."""
    return given.only(k for k, v in given.items()
                      if k not in OPTIONS and isinstance(v, list) and all(isinstance(n, int) for n in v))


def strategy_of(given):
    """One list of parts per operand that has dimensions."""
    return given.get("strategy") or given["in_strategy"]


def dims(axis, rank):
    every = list(range(rank)) if axis in (None, [], ()) else axis if isinstance(axis, list) else [axis]
    return [a % rank for a in every]


def build(word, given):
    """The net of one op called "op", the names of its operands, and how many entries of the strategy are its."""
    kind, shapes = cut_like(word), operands(given)
    net = Net(shapes, data=lambda name: True)
    parts = strategy_of(given)
    names = list(shapes)

    def make(kind, *tensors, strategy=None, **attrs):
        hints = {"in_strategy": [list(p) for p in (strategy or parts)[:len(tensors)]]}
        if given.get("out_strategy"):
            hints["out_strategy"] = given["out_strategy"]
        net.hints = {"op": hints}
        return net.op(kind, *tensors, name="op", **attrs)
    rank = max(map(len, shapes.values()))
    whole_numbers = {
        n for n in names
        if n in ("indices", "idx", "ids", "index") or (n in ("labels", "label") and len(shapes[n]) < rank)
    }
    t = [
        net.tensor(
            n, dtype="i1" if kind == "select" and n == names[0] else
            "i32" if n in whole_numbers and kind not in ("add", "mul") else "f32") for n in names
    ]
    if kind in ("matmul", "batch_matmul"):
        flags = {k: bool(given[k]) for k in ("transpose_a", "transpose_b") if k in given}
        out = make("batch_matmul" if max(len(x.shape) for x in t) > 2 else "matmul", *t, **flags)
    elif kind == "transpose":
        out = make("transpose", t[0], perm=given["perm"])
    elif kind == "reshape":
        out = make("reshape", t[0], shape=given.get("to") or given["new_shape"])
    elif kind.startswith("reduce_") or kind == "reduce":
        out = make(kind if kind != "reduce" else "reduce_sum", t[0], dims=dims(given.get("axis"), len(t[0].shape)),
                   keep_dims=bool(given.get("keep_dims")))
    elif kind in ("softmax", "log_softmax"):
        axis = given.get("axis", -1)
        out = make(kind, t[0], axis=axis[0] if isinstance(axis, list) else axis)
    elif kind == "one_hot":
        out = one_hot(net, make, t[0], given, parts)
    elif kind == "gather":
        out = make("gather", *t, axis=given.get("axis", 0))
    elif kind == "softmax_cross_entropy":
        out = make(kind, *(t if len(t) > 1 else [t[0], net.tensor("labels_dense", like=t[0].shape)]), reduction="none",
                   strategy=parts if len(parts) > 1 else parts * 2)
    elif kind in ("add", "sub", "mul", "div", "max", "min", "pow") and len(t) == 1:
        out = make(kind, t[0], net.tensor("other", like=t[0].shape), strategy=parts * 2)
        names.append("other")
    else:
        if kind == "batch_norm":
            t += [net.g.parameter(n, "f32", list(t[1].shape), init="ones") for n in ("mean", "variance")[:5 - len(t)]]
            parts = parts + parts[1:2] * (len(t) - len(parts))
        net.hints = {
            "op": {
                "in_strategy": [list(p) for p in parts[:len(t)]],
                **({"out_strategy": given["out_strategy"]} if given.get("out_strategy") else {})
            }
        }
        out = net.told(kind, t if word.replace("_", "") not in LIKE else t[:1], "op", given)
    first = out[0] if isinstance(out, list) else out
    net.g.output("out", first)
    return net, names


def one_hot(net, make, indices, given, parts):
    """The other system cuts the dimensions of the result, of which the classes stand at `axis`; ours makes the
    classes last, and a tuple speaks of the indices alone, so that layouts on a mesh of the result's parts say how
    the classes are cut."""
    rank = len(indices.shape) + 1
    at = given.get("axis", -1) % rank
    cuts = (parts[0] + [1] * rank)[:rank]
    own, classes = cuts[:at] + cuts[at + 1:], cuts[at]
    net.turned = [*range(at), rank - 1, *range(at, rank - 1)]
    if classes == 1:
        return make("one_hot", indices, depth=given["depth"], strategy=[own])
    axes = [f"p{d}" if d != at else "c" for d in range(rank)]
    net.mesh = {a: n for a, n in zip(axes, cuts) if n > 1}
    names = [a if n > 1 else None for a, n in zip(axes, cuts) if a != "c"]
    net.hints = {"op": {"in_layout": [text_of(names)], "out_layout": [text_of([*names, "c"])]}}
    return net.op("one_hot", indices, name="op", depth=given["depth"])


def device_counts(given):
    """What is given, else the products that the strategy can mean, smallest first."""
    if given.get("devices") or given.get("device_num"):
        return [given.get("devices") or given.get("device_num")]
    parts = [math.prod(max(abs(n), 1) for n in p) for p in strategy_of(given)
             if p]  # what is wrong with them msc shall say
    first, rest = parts[0], math.prod(parts[1:])
    return sorted({first * k for k in range(1, rest + 1) if rest % k == 0})


def whole_mesh(mesh, devices):
    """The axes that layouts name, and one more for the devices that they leave over."""
    left = devices // math.prod(mesh.values())
    return [mesh_set({**mesh, **({"left": left} if left > 1 else {})})] if mesh else []


def compiled(word, given):
    net, names = build(word, given)
    refusal = None
    for n in device_counts(given):
        try:
            return net, names, net.strategies(*SEMI, f"device_num={n}", *whole_mesh(net.mesh, n))
        except Refused as e:
            refusal = refusal or e
    raise refusal


def sliced(mesh, layout, shape):
    return msc("layout", "--mesh", mesh, "--layout", re.sub(r" partial.*", "", layout), "--shape", listed(shape),
               "--rank", 0)["slice_shape"]


def unfinished(mesh, layout, shape, rank=0, to=None):
    """(verb, its group) that finishes a partial result, or (None, [])"""
    if "partial" not in layout:
        return None, []
    plan = msc("reshard", "--mesh", mesh, "--shape", listed(shape), "--from", layout, "--to",
               re.sub(r" partial.*", "", to or layout), "--rank", rank)
    return {"all_reduce": "AllReduce",
            "reduce_scatter": "ReduceScatter"}.get(plan["steps"][0]["op"],
                                                   plan["steps"][0]["op"]), plan["steps"][0]["ranks"]


def whole_axes(maps, matrix):
    """Entries on axes of one device as -1."""
    def entry(k):
        return -1 if isinstance(k, int) and k >= 0 and matrix[-1 - k] == 1 else k
    return [[entry(k) for k in m] for m in maps]


def answer(word, given, expected):
    net, names, file = compiled(word, given)
    op, mesh = file["ops"]["op"], file["mesh"]
    ins = [net.values[n].shape for n in names if n in net.values]
    out_shape = output_shape(net)
    maps, outs, matrix = op["in_tensor_map"], op["out_tensor_map"], op["device_matrix"]
    turned = net.turned or range(len(out_shape))
    outs = [[m[d] for d in turned] for m in outs[:1]] + outs[1:]
    if any(-1 in plain for k, v in expected.items() if "map" in k
           for plain in ([v] if v and not isinstance(v[0], list) else v)):
        maps, outs = whole_axes(maps, matrix), whole_axes(outs, matrix)
    got = {
        "device_matrix": matrix, "in_maps": maps, "in_map": maps[0], "out_map": outs[0], "out_maps": outs, "ok": True
    }
    slices = [sliced(mesh, l, s) for l, s in zip(op["layout"]["in"], ins)]
    out_layout = op["layout"]["out"][0]
    got |= {
        "in_slice": slices[0], "slice": slices[0], "slice_shape": slices[0], "in_slices": slices,
        "out_slice": [sliced(mesh, out_layout, out_shape)[d] for d in turned]
    }
    got["out_slice_without_consumer"] = got["out_slice"]
    for n, m, s in zip(names, maps, slices):
        got[f"{n}_map"], got[f"{n}_slice"] = m, s
    same = [
        msc("layout", "--mesh", mesh, "--layout", l, "--shape", listed(s), "--rank",
            given.get("rank", 0))["ranks_with_same_slice"] for l, s in zip(op["layout"]["in"], ins)
    ]
    mirrors = [["_MirrorOperator"] if len(g) > 1 else [] for g in same] if any(len(g) > 1 for g in same) else []
    got |= {"mirror_ops": mirrors, "mirror_groups": same, "backward_ops": ["AllReduce" for g in same if len(g) > 1]}
    verb, group = unfinished(mesh, op["layout"].get("made", [out_layout])[0], out_shape, given.get("rank", 0),
                             out_layout)
    got |= {"forward_ops": [verb] if verb else [], "collective": verb, f"ranks_for_rank{given.get('rank', 0)}": group}
    return got


def output_shape(net):
    out = net.g._outputs[0]["value"]
    number = net.g._value_types[out]
    return list(next(shape for (_, shape), n in net.g._types.items() if n == number))


def op_word(feature, given):
    """The op a fact is about: the feature's second word, or told by the fields."""
    word = feature.split(".")[1]
    if kind_of(word) in ("repeated_devices_axis", "device_matrix") or not word:
        word = ("transpose" if "perm" in given else "reshape" if "to" in given
            else "matmul" if "B" in given and "transpose_b" in given else "relu")
    return {
        "reduce_method": "reduce_sum", "activation": "relu", "tensor_add": "add",
        "softmax_loss": "softmax_cross_entropy", "softmax_entropy_loss": "softmax_cross_entropy"
    }.get(word, word)


def register(feature_prefix):
    @family(feature_prefix + ".*", feature_prefix)
    def handler(given, expected):
        if "net" in given:
            from family_net import strategies_of_net
            return strategies_of_net(given, expected)
        return answer(op_word(feature_prefix, given), given, expected)
    return handler


for known in ("matmul", "batch_matmul", "add", "tensor_add", "sub", "mul", "div", "pow", "transpose", "reshape",
              "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_method", "reduce", "softmax",
              "log_softmax", "onehot", "one_hot", "prelu", "gather", "relu", "gelu", "tanh", "sigmoid", "activation",
              "exp", "log", "sqrt", "l2_normalize", "cast", "softmax_cross_entropy", "softmax_entropy_loss",
              "repeated_devices_axis", "layer_norm", "rms_norm", "batch_norm", "bias_add", "maximum", "minimum", "neg"):
    register(f"op_rule.{known}")


def cut_like(word):
    """The kind of op whose rule a fact's word is judged by."""
    return kind_of(LIKE.get(word.replace("_", ""), word))


@family("op_rule.*")
def other(given, expected, feature):
    """Any other op of the table."""
    word = feature.split(".")[1]
    if cut_like(word) not in ROWS:
        raise Unsupported(f"an op that msc does not know: {word}")
    return answer(word, given, expected)


@family("op_rule.gather.manual*")
def manual_split(given, expected):
    """Rows of a table dealt by a list of part sizes."""
    given.take("strategy")  # as many parts as sizes
    split = given["manual_split"]
    sizes = [s[0] if isinstance(s, list) else s for s in split]
    rows = given.get("param") or given["x"]
    left = given.get("devices", len(sizes)) // len(sizes)
    text = ",".join(["{d}/(" + ",".join(map(str, sizes)) + ")"] + ["{}"] * (len(rows) - 1))
    got = msc("layout", "--mesh", f"d={len(sizes)}" + (f",left={left}" if left > 1 else ""), "--layout", f"[{text}]",
              "--shape", listed(rows), "--rank", given["rank"])["slices"][0]
    shape = [e - b for b, e in zip(got["begin"], got["end"])]
    return {"slice_shape": shape, "index_offset": got["begin"][0], "uniform_split": len(set(sizes)) == 1}


@family("op_rule.ffn_moe*")
def moe_slices(given, expected):
    """Tensors of one op in the order x, w1, w2, group sizes, b1, b2, each with its tuple."""
    names = [k for k in ("x", "w1", "w2", "group", "b1", "b2") if k in given or k == "group"]
    got = {}
    for name, parts in zip(names, given["strategy"]):
        if name not in given:
            continue
        left = given["devices"] // math.prod(parts)
        entries = [len(parts) - i if left > 1 else len(parts) - 1 - i for i in range(len(parts))]
        matrix = parts + ([left] if left > 1 else [])
        got[name] = msc("layout", "--device-matrix", listed(matrix), "--tensor-map", ",".join(map(str, entries)),
                        "--shape", listed(given[name]), "--rank", 0)["slice_shape"]
    return got


# ---- named layouts ----

def text_of(entries):
    """["dp", ["sp", "mp"], null] -> [{dp},{sp,mp},{}]"""
    return "[" + ",".join("{" + ",".join(a for a in (e if isinstance(e, list) else [e]) if a and a != "None") + "}"
                          for e in entries) + "]"


def mesh_set(mesh):
    axes = ", ".join(f'"{k}": {v}' for k, v in mesh.items())
    return "mesh={" + axes + "}"


@family("layout_api.*")
def layout_api(given, expected):
    """matmul with layouts by axis names."""
    shapes = {
        n: [int(s) for s in re.findall(r"\d+", sizes)]
        for n, sizes in re.findall(r"(\w+)\[([\d,\s]+)\]", given.get("op", ""))
    }
    mesh = given["mesh"]
    size = 1024 if all(1024 % n == 0 for n in mesh.values()) else math.prod(mesh.values())
    shapes = shapes or {"x": [size] * len(given["x"]), "w": [size] * len(given["w"])}
    net = Net(shapes, data=lambda name: name == "x")
    hints = {"in_layout": [text_of(given["x"]), text_of(given["w"])]}
    if given.get("out"):
        hints["out_layout"] = [text_of(given["out"])]
    net.hints = {"op": hints}
    flags = {k: True for k in ("transpose_a", "transpose_b") if given.get(k)}
    net.g.output(
        "out",
        net.op("batch_matmul" if max(map(len, shapes.values())) > 2 else "matmul", net.tensor("x"), net.tensor("w"),
               name="op", **flags))
    file = net.strategies(*SEMI, f"device_num={given.get('devices') or math.prod(mesh.values())}", mesh_set(mesh))
    op = file["ops"]["op"]
    x, w = (sliced(file["mesh"], l, s) for l, s in zip(op["layout"]["in"], shapes.values()))
    shape = output_shape(net)
    got = {"w_slice": w, "x_slice": x, "out_slice": sliced(file["mesh"], op["layout"]["out"][0], shape)}
    if "reduction" in expected or "collective" in expected:
        partial = op["layout"].get("made", op["layout"]["out"])[0]
        target = re.sub(r" partial.*", "", op["layout"]["out"][0])
        steps = msc("reshard", "--mesh", file["mesh"], "--shape", listed(shape), "--from", partial, "--to",
                    target)["steps"] if "partial" in partial else []
        names = [{"reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce"}.get(s["op"], s["op"]) for s in steps]
        got |= {k: names[0] if len(names) == 1 else names or None for k in ("reduction", "collective")}
    return got


# ---- neighbours' rows ----

def flattened(given):
    """(shape, strategy) of two spatial dimensions: windows of one dimension do not depend on the others, so a third
    that is whole is left out."""
    shape, parts = list(given["x"]), list(strategy_of(given)[0])
    spatial = list(range(2, len(shape)))
    kept = sorted(sorted(spatial, key=lambda d: parts[d] == 1)[:2])
    if any(parts[d] > 1 for d in spatial if d not in kept):
        raise Unsupported("windows over three dimensions that are all cut")
    keep = [0, 1, *kept]
    return [shape[d] for d in keep], [parts[d] for d in keep], kept


def one_of(value, d):
    """An attribute given once, or by dimension, for spatial dimension d."""
    return value[d - 2] if isinstance(value, list) else value


@family("op_rule.conv*", "op_rule.pool*", "op_rule.avg_pool*", "op_rule.max_pool*", "op_rule.avgpool*",
        "op_rule.maxpool*")
def halo(given, expected, feature):
    """Rows that a rank sends to and gets from its neighbours, from the transfers of the compiled op."""
    if not {"send_lens", "recv_lens"} & set(expected) and not expected.get("error"):
        return answer(feature.split(".")[1], given, expected)
    given.take("order")  # of what is expected, in words
    shape, parts, kept = flattened(given)
    pads, stride = [one_of(given.get("pad", 0), d) for d in kept], [one_of(given.get("stride", 1), d) for d in kept]
    kernel = [given["w"][d] for d in kept] if "w" in given else [one_of(given["kernel"], d) for d in kept]
    net = Net({"x": shape}, data=lambda name: name == "x")
    attrs = {"stride": stride, "padding": [pads[0], pads[0], pads[1], pads[1]]}
    net.hints = {"op": {"in_strategy": [parts]}}
    if "w" in given:
        net.hints["op"]["in_strategy"].append([(strategy_of(given)[1:] or [[1, 1]])[0][0], parts[1], 1, 1])
        w = net.g.parameter("w", "f32", [given["w"][0], shape[1], *kernel], init="zeros")
        y = net.op("conv2d", net.tensor("x"), w, name="op", **attrs)
    else:
        y = net.op("avg_pool", net.tensor("x"), name="op", kernel=kernel, **attrs)
    net.g.output("out", y)
    sets = [x for s in (*SEMI, f"device_num={given['devices']}") for x in ("--set", s)]
    text = net.opt("--until=localize", *sets)
    needs = {int(d): (int(lo), int(hi)) for d, lo, hi in re.findall(r"halo = \[(\d+), (\d+), (\d+), \d+\]", text)}
    layout = re.search(r'msc\.layout = "(\[.*?\])", msc\.name = "x"', text)[1]
    slices = msc("layout", "--mesh", f"d={given['devices']}", "--layout", layout, "--shape", listed(shape), "--rank",
                 given["rank"])["slices"][0]
    send, receive = [], []
    for d in (2, 3):
        lo, hi = needs.get(d, (0, 0))
        first, last = slices["begin"][d] == 0, slices["end"][d] == shape[d]
        receive += [0 if first else lo, 0 if last else hi]
        send += [0 if first else hi, 0 if last else lo]
    return {"send_lens": send, "recv_lens": receive}
