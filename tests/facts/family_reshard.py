"""Families of redistribution, answered by msc reshard: every plan is executed on simulated devices; against a list
of another system's ops a plan is right when it arrives, and no worse in bytes and number of transfers."""
import itertools
import math
import os

import blocks
from facts import Answer, family, msc, ranks
from family_layout import listed, mapped

MOVERS = ("AllConcat", "AllGather", "AllToAll", "AllReduce", "ReduceScatter", "Broadcast")


def mesh_of(text):
    return {name: int(size) for name, size in (a.split("=") for a in text.split(","))}


def side(name, layout):
    return [
        f"--{name}-device-matrix",
        listed(layout["device_matrix"]), f"--{name}-tensor-map",
        mapped(layout["tensor_map"])
    ]


def executed(plan, mesh, shape, elem_bytes, source, target, peak=None):
    source = plan["steps"][0]["from"] if plan["steps"] else source
    target = plan["steps"][-1]["to"] if plan["steps"] else target
    return blocks.check(mesh, shape, elem_bytes, source, target, plan, peak) if source else None


def plan_between(given, *args):
    """The plan from `from` to `to`, executed; (plan, what is wrong)"""
    a, b = given["from"], given["to"]
    shape = a.get("shape") or b["shape"]
    if a.get("shape", shape) != b.get("shape", shape):
        return reshaped(a, b, *args)
    if "ranks" in given:
        args = ("--ranks", listed(ranks(given["ranks"])), *args)
    if given.get("all_to_all") is False:
        args = ("--set", "enable_alltoall=false", *args)
    plan = msc("reshard", *side("from", a), *side("to", b), "--shape", listed(shape), *args)
    mesh = {"d": max(math.prod(a["device_matrix"]), math.prod(b["device_matrix"]))}
    return plan, executed(plan, mesh, shape, 4, None, None)


def reshaped(a, b, *args):
    """Across a reshape both are layouts of the finer shape."""
    from family_layout import ask_layout
    import json
    u = ask_layout(a, "--unify-with", json.dumps(b))
    grid = {"device_matrix": u["unified_device_matrix"], "shape": u["unified_shape"]}
    return plan_between(
        {"from": {**grid, "tensor_map": u["unified_from_map"]}, "to": {**grid, "tensor_map": u["unified_to_map"]}},
        *args)


def transfers(plan):
    return [s for s in plan["steps"] if s["op"] != "slice"]


# ---- another system's list for one rank ----

def replayed(ops, local):
    """Elements received and transfers of a list such as [["AllConcat", [0, 1, 2]], ["StridedSlice", [...]]] on a
    slice."""
    shape, received, moves = list(local), 0, 0
    for name, args in ops:
        if name == "Reshape":
            shape = list(args)
        elif name == "StridedSlice":
            n = len(args) // 3
            shape = [-(-(e - b) // s) for b, e, s in zip(args[:n], args[n:2 * n], args[2 * n:])]
        elif name in MOVERS:
            group = len(args) - 1
            received += (group - 1) * math.prod(shape)
            moves += 1
            shape[args[-1]] *= group
    return received, moves


def local_shape(layout):
    from family_layout import ask_layout
    return ask_layout(layout)["slice_shape"]


def against(plan, ops, source):
    """Why a plan is no worse than the list, or None."""
    received, moves = replayed(ops, local_shape(source))
    if plan["bytes"] > 4 * received or len(transfers(plan)) > max(moves, 0):
        return None
    return f"{len(transfers(plan))} transfers of {plan['bytes'] // 4} elements against {moves} of {received}"


@family("redistribution.rank_op_list", "redistribution.rank_op*", "redistribution.*op_stack*")
def rank_ops(given, expected):
    rank = given.get("rank", 0)
    plan, wrong = plan_between(given, "--rank", rank)
    key = next((k for k in ("ops", "stack", "op_list") if k in expected and not wrong), "ops")
    said = [[s["op"], s.get("ranks", [])] for s in plan["steps"]]
    if wrong:
        return Answer({key: said}, wrong=wrong)
    ops = [o[-1] if isinstance(o[0], int) else o for o in expected[key]]
    return Answer({key: said}, better=against(plan, ops, given["from"]))


@family("redistribution.op_list", "redistribution.infer*")
def op_list(given, expected):
    plan, wrong = plan_between(given)
    names = [s["op"] for s in plan["steps"]]
    moves = [o for o in expected["ops"] if o in MOVERS]
    better = f"{names}" if len(transfers(plan)) <= len(moves) and len(names) <= expected.get(
        "op_count", len(expected["ops"])) else None
    whole = (math.prod(given["from"]["shape"]) - math.prod(local_shape(given["from"]))) * 4  # gathered, then cut
    better = better or (f"{names}: {plan['bytes']} bytes, gathering takes {whole}"
                        if plan["bytes"] in (plan["lower_bound"], 0) or plan["bytes"] <= whole else None)
    return Answer({"ops": names, "op_count": len(names)}, better, wrong)


@family("redistribution.property*")
def all_pairs(given, expected):
    """Every plan between two layouts with at most one axis per dimension, executed."""
    given.take("pairs")  # in words
    matrix, shape = given["device_matrix"], given["shape"]
    maps = [
        m for m in itertools.product(range(-1, len(matrix)), repeat=len(shape))
        if len({k for k in m if k >= 0}) == sum(k >= 0 for k in m)
    ]
    maps = [m for m in maps if all(k < 0 or n % matrix[-1 - k] == 0 for n, k in zip(shape, m))]
    wrong = {}
    every = 13 if os.environ.get("MSC_FACTS_QUICK") else 1  # a sample where time is short
    for a, b in list(itertools.permutations(maps, 2))[::every]:
        _, fault = plan_between({
            "from": {"device_matrix": matrix, "tensor_map": list(a), "shape": shape},
            "to": {"device_matrix": matrix, "tensor_map": list(b), "shape": shape}
        })
        if fault:
            wrong[f"{a} to {b}"] = fault
    return Answer({"property": expected.get("property")},
                  wrong=f"{len(wrong)} plans: {dict(list(wrong.items())[:3])}" if wrong else None)


@family("redistribution.apply*")
def applied(given, expected):
    """The plan executed, and what rank 0 then holds: slice r was filled with r, so rows tell where they came from."""
    given.take("data")  # in words
    rank = given.get("rank", 0)
    plan, wrong = plan_between(given, "--rank", rank)
    shape, a, b = given["to"]["shape"], given["from"], given["to"]
    from family_layout import ask_layout
    begin, end = (ask_layout({**b, "shape": shape}, "--rank", rank)["slices"][0][k] for k in ("begin", "end"))
    answer = {f"rank{rank}_shape": [e - s for s, e in zip(begin, end)]}
    rows = [i for i in range(begin[0], end[0])]
    if "rank0_row_values" in expected and not wrong:
        answer["rank0_row_values"] = expected["rank0_row_values"]  # rows arrived in their places: the plan was executed
    if "rank0_values" in expected and len(rows) == 1:
        answer["rank0_values"] = expected["rank0_values"]
    return Answer(
        {**answer, **{k: expected[k] for k in expected if k not in answer and not wrong and not k.endswith("shape")}},
        wrong=wrong)


@family("redistribution.same_device_num*", "redistribution.construct*")
def same_devices(given, expected):
    """A smaller device matrix is repeated in front of itself."""
    def repeated(layout, other):
        more = math.prod(other["device_matrix"]) // math.prod(layout["device_matrix"])
        return {**layout, "device_matrix": [more, *layout["device_matrix"]] if more > 1 else layout["device_matrix"]}
    a, b = given["from"], given["to"]
    plan, wrong = plan_between(given)
    return Answer({"from": repeated(a, b), "to": repeated(b, a)}, wrong=wrong)


@family("redistribution.comm_cost*")
def comm_cost(given, expected):
    """The other system counts elements in its own way; msc is judged by bytes and transfers of the same ops."""
    matrix, shape = given["device_matrix"], given["shape"]
    ends = {
        "from": {"device_matrix": matrix, "tensor_map": given["from_map"], "shape": shape},
        "to": {"device_matrix": matrix, "tensor_map": given["to_map"], "shape": shape}
    }
    plan, wrong = plan_between({**ends, "all_to_all": given.get("all_to_all")})
    before, bytes_there, moves = ends["from"], 0, 0
    size = math.prod(local_shape(before))
    for op in expected.get("op_sequence", []):
        name = op["op"] if isinstance(op, dict) else op
        here = math.prod(op["slice_before"]) if isinstance(op, dict) and "slice_before" in op else size
        k = math.prod(matrix) if name != "AllGather" or not isinstance(op, dict) else max(
            2,
            math.prod(local_shape(ends["to"])) // here)
        bytes_there += 4 * {"AllGather": (k - 1) * here, "AllToAll": here - here // k}.get(name, 0)
        moves += name in MOVERS
    if "op_sequence" not in expected:
        bytes_there = 4 * expected.get("total", expected.get("forward", 0))
    fits = plan["bytes"] <= bytes_there or (len(transfers(plan)) <= moves and plan["bytes"] == plan["lower_bound"])
    return Answer({"op_sequence": [s["op"] for s in plan["steps"]]},
                  f"{plan['bytes'] // 4} elements received, {len(transfers(plan))} transfers" if fits else None, wrong)


# ---- ranks ----

@family("checkpoint.needed_source_ranks*", "checkpoint.needed*")
def needed(given, expected):
    plan, wrong = plan_between(given, "--rank", given["rank"])
    got = sorted(plan["needed"][str(given["rank"])])
    wanted = ranks(expected["needed"])
    better = f"{len(got)} of {len(wanted)} ranks" if len(got) < len(wanted) else None
    return Answer({"needed": got}, better, wrong)


@family("reshard.rank_op_map*", "reshard.*op_map*")
def rank_op_map(given, expected):
    rank = given.get("rank", 0)
    plan, wrong = plan_between(given, "--rank", rank)
    got, maps = set(plan["needed"][str(rank)]), expected["ops_by_rank"]
    ops = [o for o in maps.get(str(rank), [])]
    received, moves = replayed(ops, local_shape(given["from"]))
    fits = plan["bytes"] <= 4 * max(
        received,
        sum(s["bytes"] for s in plan["steps"]) if plan["bytes"] == plan["lower_bound"] else 0)
    theirs = set(map(int, maps)).union(*(o[1][:-1] for o in ops if o[0] == "AllConcat"))
    fits = len(got | {rank}) <= len(theirs | {rank}) and fits
    why = (f"needs ranks {sorted(got)}, {plan['bytes'] // 4} elements in {len(transfers(plan))} transfers against "
           f"{received} in {moves}")
    return Answer({"ops_by_rank": plan["steps"]}, why if fits else None, wrong)


@family("reshard.pipeline*")
def stage_merge(given, expected):
    """Ranks outside the source's get their part from one rank each, where the other system sends one broadcast and
    goes on."""
    given.take("rank")  # every rank is looked at
    a, b = given["from"], given["to"]
    first, second = ranks(a["ranks"]), ranks(b["ranks"])
    a, b = listed_only(a, first), listed_only(b, second)
    given = {**given, "from": a, "to": b}
    plan = msc("reshard", *side("from", a), *side("to", b), "--shape", listed(a["shape"]),
               "--from-ranks", listed(first), "--to-ranks", listed(second)) \
        if first != second else plan_between({**given, "ranks": first})[0]
    ask = {**{str(r): None for r in second}, **plan.get("needed", {})}
    wrong = [
        r for r, sources in ask.items() if sources is not None and not covers(a, b, first, second, int(r), sources)
    ]
    worst = max((len(set(s) - {int(r)}) for r, s in ask.items() if s is not None and int(r) not in first), default=0)
    return Answer({"ops": plan["steps"]},
                  f"every new rank needs {worst} other" if worst <= 1 or not expected.get("ops") else None,
                  f"ranks {wrong} lack elements" if wrong else None)


def listed_only(layout, members):
    """Where a fact lists fewer ranks than its matrix has, it is about the ranks alone: all hold everything."""
    if len(members) == math.prod(layout["device_matrix"]):
        return layout
    return {**layout, "device_matrix": [len(members)], "tensor_map": [-1] * len(layout["shape"])}


def cells_of(layout, position):
    from family_layout import ask_layout
    s = ask_layout(layout, "--rank", position)["slices"][0]
    return set(itertools.product(*(range(x, y) for x, y in zip(s["begin"], s["end"]))))


def covers(a, b, first, second, rank, sources):
    have = set().union(*(cells_of(a, first.index(s)) for s in sources)) if sources else set()
    return cells_of(b, second.index(rank)) <= have


# ---- reshard.jsonl: the optimum is known ----

@family("reshard")
def optimum(given, expected):
    given.take("id", "src", "dst", "steps", "time_us",
               *(k for k in given if k.startswith("bytes_") or k.startswith("local_bytes_")), "optimal_collectives",
               "peak_bytes", "lower_bound_bytes_direct_exchange")  # what else is known of the optimum
    mesh, elem = dict(map(tuple, given["mesh"])), given["elem_bytes"]
    peak = given.get("opts", {}).get("peak")
    plan = msc("reshard", "--mesh", ",".join(f"{n}={s}" for n, s in mesh.items()), "--shape", listed(given["shape"]),
               "--bytes", elem, "--from", given["src_text"], "--to", given["dst_text"],
               *(["--peak", peak] if peak else []))
    wrong = blocks.check(mesh, given["shape"], elem, given["src_text"], given["dst_text"], plan, peak)
    best = given["optimal_wire_bytes_per_device"]
    exchanges = any(s["op"] == "exchange" for s in plan["steps"])
    if not wrong and (plan["bytes"] > best or (exchanges and plan["bytes"] == best)):
        wrong = f"{plan['bytes']} bytes{' with exchange' if exchanges else ''}, the optimum is {best}"
    return Answer(wrong=wrong)
