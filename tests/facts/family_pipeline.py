"""Families of pipelines: orders, bubbles and memory of schedules, and layers for stages, asked of `msc schedule`."""
from facts import Answer, Refused, family, msc

KINDS = {"interleaved_1f1b": "interleaved", "one_f_one_b": "1f1b", "zb_h1": "zb-h1", "zb_h2": "zb-h2"}


def schedule(kind, given, **more):
    """Times are one stage's; where none are given 1, 2, 0."""
    named = {
        "stages": given["p"], "micro-batches": given["m"], "tf": given.get("t_f", 1), "tb": given.get("t_b", 2),
        "tw": given.get("t_w", 0), "tcomm": given.get("t_comm", 0), "chunks": given.get("v", 1),
        **{k.replace("_", "-"): v for k, v in more.items()}
    }
    return msc("schedule", "--kind", KINDS.get(kind, kind), *(word for k, v in named.items() for word in (f"--{k}", v)))


def messages(plan, given):
    """Forward messages of the busiest stage per micro-batch."""
    p, last = given["p"], given["p"] * given.get("v", 1) - 1
    place = plan.get("place", [k % p for k in range(last + 1)])
    own = [[k for k in range(last + 1) if place[k] == i] for i in range(p)]
    sent = [
        sum(e["kind"] == "F" and own[i][e["chunk"]] < last and place[own[i][e["chunk"]] + 1] != i for e in order)
        for i, order in enumerate(plan["order"])
    ]
    return max(sent) / given["m"]


def is_whole(plan, given):
    """Every forward and backward of every micro-batch and chunk, once on every stage."""
    cells = {(work, j, c) for work in "FB" for j in range(given["m"]) for c in range(given.get("v", 1))}
    return all(sorted((e["kind"], e["mb"], e["chunk"]) for e in order) == sorted(cells) for order in plan["order"])


@family("pipeline.bubble")
def bubble(given, expected):
    plans = []
    for kind in given["schedule"].split("|"):
        try:
            plans.append(schedule(kind, given))
        except Refused:
            if expected.get("status") == "error_or_flex":
                return {"status": "error_or_flex"}
            raise
    got = {"status": "error_or_flex" if all(is_whole(p, given) for p in plans) else "not a schedule"}
    for key in ("bubble_fraction", "makespan"):
        values = {round(p[key], 9) for p in plans}
        got[key] = values.pop() if len(values) == 1 else sorted(values)
    got["p2p_bytes_multiplier"] = messages(plans[0], given) if given["p"] > 1 else 1
    return Answer(got, wrong=None if got["status"] == "error_or_flex" else "entries are missing, or there twice")


@family("pipeline.inflight")
def in_flight(given, expected):
    return {key: schedule(key, given)["in_flight"] for key in expected}


@family("pipeline.zero_bubble")
def zero_bubble(given, expected):
    got = {}
    for key in expected:
        if key.startswith("auto_mem_"):
            limit = float(key.split("_")[2].rstrip("p")) * given["p"]
            got[key] = schedule("zb-auto", given, memory_limit=limit, mem_w=given.get("mem_w", 1))["bubble_fraction"]
        else:
            got[key] = schedule(key, given)["bubble_fraction"]
    return got


@family("pipeline.balance")
def balance(given, expected):
    """Stages that are given are layers of which each stage gets one; layers are dealt."""
    times = given.get("stage_times") or given.get("block_times") or given["layer_times"]
    stages = len(times) if "stage_times" in given else given.get("p") or given["stages"]
    got = msc("schedule", "--layers", ",".join(map(str, times)), "--stages", stages, "--micro-batches", given["m"],
              "--chunks", given.get("v", 1))
    return {
        "total": got["total"], "max": max(got["stage_times"]), "stage_times": got["stage_times"],
        "first": got["first_layer"]
    }
