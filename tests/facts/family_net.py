"""Families of whole networks: propagation, search, modes, layouts of parameters, who can restore whom.  The network
is built from its text, compiled, and the strategies are read from the file that msc writes; where another choice is
allowed, both are priced."""
import math
import re

from facts import Answer, Refused, Unsupported, family, msc
from family_layout import listed
from family_op import SEMI, mesh_set, output_shape, sliced, text_of, unfinished
from nets import Net, argument_layout, kind_of

PROPAGATION = ("parallel_mode=auto_parallel", "search_mode=sharding_propagation")
NOT_SHAPES = {"strategy", "fixed_inputs", "out_strategy", "order"}


def shapes_of(given):
    out = {
        k: v for k, v in given.items()
        if k not in NOT_SHAPES and isinstance(v, list) and v and all(isinstance(n, int)
                                                                     for n in v) and not k.endswith("_strategy")
    }
    return given.only([*out, *(k for k in ("transpose_b", "transpose_a", "num_head") if given.get(k))])


def is_tuple(value):
    return isinstance(value, list) and value and all(isinstance(e, list) for e in value)


def fixed_ops(given):
    """in_strategy and out_strategy by op name."""
    hints = {}
    for name, value in {**(given.get("strategy") or {}), **(given.get("fixed") or {})}.items():
        if is_tuple(value):
            hints.setdefault(name, {})["in_strategy"] = value
    for key, value in given.items():
        found = re.fullmatch(r"(\w+?)_(in|out|strategy)", key)
        if found and value is None:
            given.take(key)  # says that nothing is said
        if found and is_tuple(value) and found[2] != "strategy":
            given.take(key)
            hints.setdefault(found[1], {})[f"{found[2]}_strategy"] = value
    return hints


def fixed_tensors(given):
    """Layouts of inputs and parameters by name, in the text form."""
    layouts = {}
    for name, value in (given.get("fixed") or {}).items():
        if isinstance(value, list) and value and any(isinstance(e, str) for e in value):
            layouts[name] = text_of(value)
    for key, value in given.items():
        if key.endswith("_layout") and isinstance(value, list):
            given.take(key)
            layouts[key[:-len("_layout")]] = text_of(value)
    return layouts


def digits_of(devices, first):
    """(parts before, parts) of the mesh d in primes, in the order in which the first tuple deals them."""
    out, before = [], 1
    for n in [*first, devices // math.prod(first)]:
        p = 2
        while n > 1:
            while n % p == 0:
                out.append((before, p))
                before, n = before * p, n // p
            p += 1
    return out


def cut(parts, digits):
    """A tuple of one tensor as a layout: every dimension takes the first free digits that divide what it still
    needs."""
    free, entries = list(digits), []
    for n in parts:
        own = []
        for d in list(free):
            if n % d[1] == 0 and n > 1:
                own.append(d)
                free.remove(d)
                n //= d[1]
        if n > 1:
            raise Refused(f"{parts} cannot be dealt")
        entries.append("{" + ",".join(f"d:({b}){p}" for b, p in own) + "}")
    return "[" + ",".join(entries) + "]"


def tuples_of_tensors(given, names):
    """fixed_inputs in order of the inputs, x_strategy by name."""
    out = dict(zip(names, given.get("fixed_inputs") or []))
    for key, value in given.items():
        if key.endswith("_strategy") and isinstance(value, list) and value and all(
                isinstance(n, int) for n in value) and key != "out_strategy":
            given.take(key)
            out[key[:-len("_strategy")]] = value
    return out


def net_of(given, hints):
    """The network with everything fixed that the fact fixes, and its settings."""
    devices = given["devices"]
    shapes = shapes_of(given)
    layouts = fixed_tensors(given)
    inputs = [n for n in shapes if n in ("x", "y", "z")]
    tuples = tuples_of_tensors(given, inputs)
    for name, parts in tuples.items():
        if devices % math.prod(parts):
            raise Refused(f"{parts} does not divide {devices} devices")
        layouts[name] = cut(parts, digits_of(devices, next(iter(tuples.values()))))
    net = Net(shapes, marks={n: {"layout": l} for n, l in layouts.items()})
    net.said = given.only(k for k, v in given.items() if isinstance(v, int) and k not in ("devices", "rank"))
    if "weights" in given:
        net.default = given["weights"]
        net.shapes.pop("weights", None)
    net.read(given["net"], hints)
    sets = [f"device_num={devices}"]
    if given.get("mesh"):
        sets.append(mesh_set(given["mesh"]))
    if "replicated" in str(given.get("dataset", "")) or given.get("full_batch"):
        sets.append("full_batch=true")
    return net, sets


# ---- strategies by op ----

def entries_of(file, word):
    """Ops with this name, or of this kind in order."""
    ops = file["ops"]
    named = [o for n, o in ops.items() if n.lower().replace("_", "") == word.lower().replace("_", "")]
    kinds = [o for n, o in ops.items() if kind_of(n.split("#")[0].lstrip("%")) == kind_of(word)]
    parts = [o for n, o in ops.items() if kind_of(n.split(".")[0].split("#")[0].lstrip("%")) == kind_of(word)]
    return named or kinds or parts


def strategy_like(entry, wanted):
    """in_strategy in the form of the expected one: operands beyond ours and scalars are not compared."""
    ours = entry.get("in_strategy") or []
    outs = entry.get("out_strategy") or [None]
    got = []
    for i, w in enumerate(wanted):
        if w == []:
            got.append([])
        elif i < len(ours) and len(ours[i]) == len(w):
            got.append(ours[i])
        elif outs[0] and len(outs[0]) == len(w):
            got.append(outs[0])  # ops that the other system cuts by their result
        elif i >= len(ours):
            got.append(w)
        else:
            got.append(ours[i])
    return got


def read_back(file, expected):
    got = {}
    for word, wanted in expected.items():
        if is_tuple(wanted) or wanted == []:
            found = entries_of(file, word)
            if not found:
                raise Unsupported(f"there is no op {word} among {list(file['ops'])}")
            entry = found[0]
            if kind_of(word) == "attention" and wanted and len(wanted[0]) == 3:  # heads beside their size
                entry = {**entry, "in_strategy": [[b, s, h * e] for b, h, s, e in entry["in_strategy"]]}
            got[word] = strategy_like(entry, wanted)
        elif word.endswith("_first_input_dim0"):
            got[word] = entries_of(file, word[:-len("_first_input_dim0")])[0]["in_strategy"][0][0]
    return got


def forced(given, hints, expected):
    """The same network with the expected strategies fixed too."""
    more = {k: dict(v) for k, v in hints.items()}
    for word, wanted in expected.items():
        if is_tuple(wanted):
            more.setdefault(word, {}).setdefault("in_strategy", [list(w) for w in wanted])
    return net_of(given, more)


def named_hints(net, hints):
    """Hints by kind for ops that are called otherwise."""
    return {
        n: hints[w] for w in hints for n in net.operands
        if n == w or (w not in net.operands and kind_of(n) == kind_of(w))
    }


def better_than(given, hints, expected, mode, cost):
    """Why our choice is no costlier than the expected one, or None."""
    try:
        net, sets = net_of(given, hints)
        more = {k: dict(v) for k, v in hints.items()}
        for word, wanted in expected.items():
            if is_tuple(wanted):
                for name in named_hints(net, {word: {}}):
                    more.setdefault(name, {})["in_strategy"] = [list(w) for w, t in zip(wanted, net.operands[name])]
        other, sets = net_of(given, more)
        theirs = other.cost(*mode, *sets)
    except Refused as e:
        return f"the expected strategies are refused: {str(e).splitlines()[0]}"
    own = f"{cost[0]} bytes, {cost[1]:.3f} ms against {theirs[0]} bytes, {theirs[1]:.3f} ms"
    return own if cost[0] <= theirs[0] or cost[1] <= theirs[1] else None


def choose(given, expected, mode, hints=None):
    hints = fixed_ops(given) if hints is None else hints
    net, sets = net_of(given, hints)
    named = {n: h for n, h in named_hints(net, hints).items() if n not in hints}
    if named:  # ops that the fact names by kind
        net, sets = net_of(given, {**hints, **named})
    file = net.strategies(*mode, *sets)
    got = read_back(file, expected)
    got |= properties(net, file, expected)
    keys = [k for k in got if got[k] != expected[k]]
    return Answer(got, better_than(given, {**hints, **named}, expected, mode, net.cost(*mode, *sets)) if keys else None)


def properties(net, file, expected):
    """Tensors that several ops use have one layout in all of them."""
    if "property" not in expected:
        return {}
    seen = {}
    for name, operands in net.operands.items():
        for i, t in enumerate(operands):
            if hasattr(t, "number") and name in file["ops"]:
                seen.setdefault(t.number, set()).add(file["ops"][name]["layout"]["in"][i])
    several = [v for v in seen.values() if len(v) > 1]
    return {"property": f"one tensor in several layouts: {several}" if several else expected["property"]}


def propagate_resnet(given, expected):
    words = {
        "final_matmul": ["MatMul"], "matmul": ["MatMul"], "squeeze": ["squeeze"],
        "loss_reduce": ["ReduceSum", "ReduceMax"]
    }
    hints = {name: {"in_strategy": s} for word, s in given.get("fixed", {}).items() for name in words.get(word, [word])}
    net = Net()
    net.resnet50(given["batch"], given["classes"], hints)
    file = net.strategies(*PROPAGATION, f"device_num={given['devices']}")
    return Answer(read_back(file, expected))


@family("propagation.*")
def propagate(given, expected):
    if given.get("fully_use_devices") is False:
        raise Unsupported("fully_use_devices")
    if given["net"].split()[0].lower() == "resnet50":
        return propagate_resnet(given, expected)
    return choose(given, expected, PROPAGATION)


@family("search.recursive*")
def recursive(given, expected):
    given.take("matmul_mem_coef")  # a weight of the other system's costs
    if given.get("respect_fixed") is False:
        given.take("fixed", "strategy")
        given = given.only(k for k in given if k not in ("fixed", "strategy"))
    if "mindspore_picks" in expected:
        return known_wrong(given, expected)
    return choose(given, expected, ("parallel_mode=auto_parallel", "search_mode=recursive_programming"))


@family("search.dynamic*", "search.dp*", "search.*")
def dynamic(given, expected):
    return choose(given, expected, ("parallel_mode=auto_parallel", "search_mode=dynamic_programming"))


def known_wrong(given, expected):
    """The other system's pick is numerically wrong; ours is executed on simulated ranks."""
    sets = ("parallel_mode=auto_parallel", "search_mode=recursive_programming", f"device_num={given['devices']}")
    net, _ = net_of(given, {})
    file = net.strategies(*sets)
    net.opt("--until=redistribute", "--check-numerics", *(x for s in sets for x in ("--set", s)))
    picks = {
        w: strategy_like(entries_of(file, w)[0], p) for w, p in expected["mindspore_picks"].items()
        if entries_of(file, w)
    }
    return Answer({"mindspore_picks": picks, "numerically_wrong": False})


@family("semi_auto.*")
def semi_auto(given, expected):
    return choose(given, expected, SEMI)


def strategies_of_net(given, expected):
    """Layouts of every op of a network under given strategies: device matrix and maps."""
    net, sets = net_of(given, fixed_ops(given))
    file = net.strategies(*SEMI, *sets)
    got = {}
    for word in expected:
        found = entries_of(file, word)
        if found:
            op = found[0]
            got[word] = {
                "device_matrix": op["device_matrix"], "in_maps": op["in_tensor_map"], "in_map": op["in_tensor_map"][0],
                "out_map": op["out_tensor_map"][0], "out_maps": op["out_tensor_map"],
                "in_strategy": op.get("in_strategy"), "out_strategy": op.get("out_strategy")
            }
    return got


# ---- layouts of arguments ----

def record(file, name, shape):
    """Device matrix, tensor map and slice of an argument; the matrix is the mesh cut where the layout cuts it."""
    layout = argument_layout(file["text"], name)
    if layout is None:
        raise Unsupported(f"{name} has no layout")
    got = msc("layout", "--mesh", file["mesh"], "--layout", layout, "--shape", listed(shape), "--rank", 0)
    return {k: got[k] for k in ("device_matrix", "tensor_map", "slice_shape")}


@family("layout.parameter*")
def parameter(given, expected):
    """Data inputs are given as one rank's part: the dataset cuts their batch over all devices."""
    devices, whole = given["devices"], given.but()
    net, _ = net_of(given, {})
    data = [i["name"] for i in net.g._inputs]
    if not given.get("full_batch"):
        for n in data:
            whole[n] = [given[n][0] * devices, *given[n][1:]]
    net, sets = net_of(whole, fixed_ops(given))
    dataset = ",".join("[" + ",".join(map(str, [devices] + [1] * (len(whole[n]) - 1))) + "]" for n in data)
    file = net.strategies(*SEMI, *sets, *([] if given.get("full_batch") else [f"dataset_strategy=[{dataset}]"]))
    return {n: record(file, n, whole[n]) for n in expected if n in whole}


@family("autodiff.sens*")
def sens(given, expected):
    """The gradient given from outside enters where the result is multiplied with it."""
    shapes = shapes_of(given)
    net = Net(shapes.only(k for k in shapes if k != "sens"))
    result = net.read(re.sub(r" with explicit.*", "", given["net"]), fixed_ops(given))
    scaled = net.op("mul", result, net.tensor("sens", like=given.get("sens") or result.shape), name="sens_mul")
    loss = net.op("reduce_sum", scaled, name="loss", dims=list(range(len(result.shape))))
    net.g.output("loss", loss)
    net.g.loss(loss)
    net.g.optimizer("sgd", lr=0.1)
    file = net.strategies(*PROPAGATION, f"device_num={given['devices']}")
    return {"sens": record(file, "sens", list(result.shape))}


# ---- who can restore whom ----

def chain_of(strategy):
    """Products one after the other, for facts that tell strategies only."""
    size = math.lcm(*(n for s in strategy.values() for p in s for n in p)) * 2
    net = Net({"x": [size, size], **{f"w{i}": [size, size] for i in range(len(strategy))}})
    net.hints = {n: {"in_strategy": s} for n, s in strategy.items()}
    value = ("ref", "x", None)
    for i, name in enumerate(strategy):
        net.values[name] = net.make_matmul(name, [value, ("ref", f"w{i}", None)], [], {})
        value = ("ref", name, None)
    net.g.output("out", net.values[name])
    return net


@family("recovery.*")
def replicas(given, expected):
    """Ranks that hold the same parts of all parameters as this rank."""
    if given.get("parallel_optimizer"):
        raise Unsupported("parallel_optimizer")
    given.take("micro_batches")  # of all of them the parameters are the same
    stages = given.get("pipeline_stages", 1)
    devices = given["devices"] // stages
    if "net" in given:
        first = re.search(r"\(x,\s*\w+\[(\d+)", given["net"])
        rows = math.lcm(*(p for s in given["strategy"].values() for p in s[0])) * 2
        net, _ = net_of(given.but(devices=devices, x=[rows, int(first[1])] if first else [rows, rows]),
                        fixed_ops(given))
    else:
        net = chain_of(given["strategy"])
    file = net.strategies(*SEMI, f"device_num={devices}")
    rank, same = given["rank"], None
    for p in file["parameters"].values():
        got = msc("layout", "--mesh", file["mesh"], "--layout", p["layout"], "--shape", listed(p["shape"]), "--rank",
                  rank % devices)["ranks_with_same_slice"]
        same = set(got) if same is None else same & set(got)
    first = rank // devices * devices
    return {k: sorted(r + first for r in same) for k in expected if "rank" in k}


@family("partial_sum.*")
def partial_sum(given, expected):
    """Layouts at the border of a block, then the last product finished as out_strategy says."""
    mesh = given["mesh"]
    net = Net(
        shapes_of(given), marks={
            n: {"layout": text_of(given[n])} for n in ("x", "w1", "w2", "b")
            if n in given and any(isinstance(e, str) for e in given[n])
        })
    last = re.match(r"\w+", given["net"])[0]
    hints = {last: {"out_strategy": [given["out_strategy"]]}} if given.get("out_strategy") else {}
    net.read(given["net"], hints)
    file = net.strategies(*PROPAGATION, f"device_num={given['devices']}", mesh_set(mesh))
    op = file["ops"][last]
    layout, shape = op["layout"]["out"][0], output_shape(net)
    verb, group = unfinished(file["mesh"], op["layout"].get("made", [layout])[0], shape, to=layout)
    slices = sliced(file["mesh"], layout, shape)
    return {"last_matmul_out": [n // s for n, s in zip(shape, slices)], "collective": verb, "ranks": sorted(group)}
