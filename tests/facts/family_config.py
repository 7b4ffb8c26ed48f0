"""Families of configuration, pipelines and optimizer shards: keys are set, and what msc says of them is read."""
import json

from facts import Answer, Unsupported, family, msc


def setting(key, value):
    return f"{key}={json.dumps(value)}"


@family("comm_fusion.config_errors*")
def fusion_errors(given, expected):
    return {"error": False, **msc("config", "--set", setting("comm_fusion", given["comm_fusion"]))}


@family("comm_fusion.*")
def fusion(given, expected):
    if "set" not in given:
        raise Unsupported("fusion of collectives")
    got = msc("config", "--set", setting("comm_fusion", given["set"]))
    return {"after_set": got["comm_fusion"]["value"] if isinstance(got["comm_fusion"], dict) and "value" in got["comm_fusion"] else got["comm_fusion"]}


@family("parallel_optimizer.*")
def optimizer(given, expected):
    msc("config", "--set", "enable_parallel_optimizer=true")
    raise Unsupported("the decision of the parallel optimizer")


@family("pipeline.micro_batch*")
def micro_batches(given, expected):
    from nets import Net
    net = Net({"x": [given["input_dim0_total"], 8], "w": [8, 8]})
    net.read("matmul(x,w)", {})
    net.strategies("parallel_mode=semi_auto_parallel", f"device_num={given['devices']}", f"pipeline_stages={given['stages']}", f"micro_size={given['micro_batches']}")
    return {"ok": True}


@family("pipeline.schedule*")
def schedule(given, expected):
    got = msc("schedule", "--kind", given["scheduler"], "--stages", given["stages"], "--micro-batches", given["micros"], "--tf", 1, "--tb", 2)
    fewer = given["micros"] < given["stages"]
    return Answer(got, possible=f"fewer micro-batches than stages, {got['bubble_fraction']:.0%} idle" if fewer else None)


@family("config.*", "*config_errors")
def config(given, expected):
    return msc("config", *(x for k, v in given.items() for x in ("--set", setting(k, v))))
