#!/usr/bin/env python3
"""real_sizes: models of the sizes that people train, with random meshes, stages and keys, compile for CPUs and GPUs: a
plan comes out, or a refusal that says what the user can change; never an internal error, and no plan is large.  Much
happens only at such sizes: classes are padded, scores are cut into portions, values are offloaded, masks are too large
to be constants.  Plans are not run.  $SEED chooses the first model, $CASES how many (40)."""
import json
import os
import random
import subprocess
import sys
import tempfile

MSC = os.path.abspath(os.environ["MSC"])
SECONDS = 600  # of one compilation, on a busy machine
LARGEST = 64 << 20  # bytes of a plan: one that is larger holds a mask, or another large value, as a constant


def random_model(r):
    """Arguments of msc.models."""
    kind = r.choice(["gpt"] * 3 + ["llama", "bert", "moe", "resnet18", "resnet50", "wide_deep", "dlrm", "ffn"])
    words = [kind, "--batch", r.choice([8, 16, 24, 32, 64, 96, 128, 256]), "--optimizer",
             r.choice(["sgd", "momentum", "adam", "adamw", "lamb", "adagrad"])]
    if kind in ("gpt", "llama", "bert", "moe"):
        heads = r.choice([8, 12, 16])
        words += ["--layers", r.randint(1, 3), "--heads", heads, "--hidden", heads * r.choice([64, 128]), "--seq",
                  r.choice([128, 384, 1024, 2048]), "--vocab", r.choice([8192, 32000, 50257, 10007])]
    if kind in ("gpt", "llama", "bert") and r.random() < .5:
        words += ["--recompute", 1]
    if kind in ("gpt", "bert") and r.random() < .3:
        words += ["--dropout", .1, "--attention-dropout", .1]
    if kind == "moe":
        words += ["--experts", r.choice([4, 8, 16]), "--top-k", r.choice([1, 2])]
    return [str(word) for word in words]


def random_keys(r):
    """Configuration: how the ranks are used, and keys that change what is lowered."""
    mesh = {axis: size for axis in ("dp", "tp") if (size := r.choice([1, 2, 2, 3, 4, 8])) > 1} or {"dp": 2}
    stages = r.choice([1, 1, 2, 3, 4])
    ranks = stages
    for size in mesh.values():
        ranks *= size
    mode = r.choice(["auto_parallel"] * 3 + ["semi_auto_parallel", "data_parallel"])
    keys = {"parallel_mode": mode, "device_num": ranks, "compute_type": r.choice(["f32", "bf16", "bf16", "f16"]),
            "micro_size": r.choice([2, 4]) if stages > 1 else r.choice([1, 2])}
    if mode == "data_parallel":
        keys["device_num"] = mesh.get("dp", 2)
    elif r.random() < .6:
        keys["mesh"] = json.dumps(mesh)
    if mode != "data_parallel" and stages > 1:
        keys |= {"pipeline_stages": stages, "pipeline_scheduler": r.choice(["1f1b", "gpipe", "zb-h1", "zb-auto"])}
    if mode == "auto_parallel":
        keys["search_mode"] = r.choice(["dynamic_programming", "recursive_programming", "sharding_propagation"])
    some = {"zero": r.choice([1, 2, 3]), "auto_offload": "true", "micro_batch_interleaved": r.choice(["auto", 2]),
            "gradients_mean": "true", "gradient_fp32_sync": "false", "library_attention": "false",
            "library_epilogues": "false", "score_portions": r.choice([2, 4]), "recompute": "auto"}
    keys |= {key: value for key, value in some.items() if r.random() < .25}
    if "recompute" in keys or r.random() < .2:
        keys["memory_limit"] = r.choice([8, 16, 40]) * 10**9
    return keys


def compile_one(seed):
    """Compiles the model of this seed; the message of an internal error, or None."""
    r = random.Random(seed)
    model, keys, target = random_model(r), random_keys(r), r.choice(["cuda", "cuda", "cuda", "cpu"])
    subprocess.run([sys.executable, "-m", "msc.models", *model, "-o", "model.fbs"], check=True)
    command = [MSC, "compile", "model.fbs", "-o", "plan.bin", "--target", target, "--cluster",
               "cpu" if target == "cpu" else r.choice(["a100", "h100", "h200"]),
               *[word for key, value in keys.items() for word in ("--set", f"{key}={value}")]]
    try:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no plan within {SECONDS} s: {' '.join(model + command)}"
    if done.returncode == 0 and (size := os.path.getsize("plan.bin")) > LARGEST:
        return f"a plan of {size} bytes: {' '.join(model + command)}"
    if done.returncode == 0 or (done.returncode == 1 and "error: " in done.stderr):
        return None
    return f"exit code {done.returncode}: {' '.join(model + command)}\n{done.stderr[:600]}"


def main():
    first, cases = int(os.environ.get("SEED", "1")), int(os.environ.get("CASES", "40"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        faults = [f"seed {seed}: {fault}" for seed in range(first, first + cases) if (fault := compile_one(seed))]
    if faults:
        sys.exit("\n".join(faults))


main()
