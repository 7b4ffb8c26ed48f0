#!/usr/bin/env python3
"""recompute: a GPT whose layers the backward computes again, on one rank and on four, with dropout, micro-batches
and zero 3: the losses and weights have the bits of the plan that keeps everything, and the arena is smaller.
recompute=auto keeps within every memory_limit that it accepts, takes the longer the less memory there is, and says
what would do."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from network import write_npy
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
SEQ, VOCAB, BATCH, SAMPLES, STEPS = 32, 50, 8, 32, 6
SIZES = f"--layers 3 --hidden 32 --heads 4 --seq {SEQ} --vocab {VOCAB} --batch {BATCH} --dropout 0.1".split()
AUTO = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation"]

# keys, ranks, the most that is left of scratch and what sections carry
RUNS = [
    ([], 1, 0.5),
    (["micro_size=2"], 1, 0.9),
    (["micro_size=2", "pipeline_stages=2", "device_num=2", "parallel_mode=semi_auto_parallel"], 2, 0.95),
    (["device_num=4", 'mesh={"d":2,"t":2}', "zero=3", *AUTO], 4, 0.9),
]


def train(keys, ranks, again):
    words = [word for key in keys for word in ("--set", key)]
    plan = json.loads(call(MSC, "compile", f"gpt{again}.fbs", "-o", "plan.bin", "--json", *words))
    out = call(MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(STEPS), "--seed", "5",
               "--json", "--save", "w.safetensors", "--data", "x=x.npy", "y=y.npy")
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return [
        re.search(r'"loss": ?([^,}]+)', line).group(1) for line in out.splitlines()
        if '"step"' in line and '"loss"' in line
    ], weights, plan["memory"]["scratch"] + plan["memory"].get("carried", 0)


def sweep():
    """Least time within a limit, from all that the plan wants to too little."""
    whole = json.loads(call(MSC, "compile", "gpt0.fbs", "-o", "plan.bin", "--json"))
    blocks = json.loads(call(MSC, "compile", "gpt1.fbs", "-o", "plan.bin", "--json"))
    wants, least = whole["memory_bytes_per_rank"], blocks["memory_bytes_per_rank"]
    before = 0
    for share in (0.9, 0.6, 0.3):
        limit = int(least + share * (wants - least))
        plan = json.loads(
            call(MSC, "compile", "gpt0.fbs", "-o", "plan.bin", "--json", "--set", "recompute=auto", "--set",
                 f"memory_limit={limit}"))
        print(f"limit {limit}: {plan['memory_bytes_per_rank']} bytes, {plan['predicted_step_ms']} ms")
        assert plan["memory_bytes_per_rank"] <= limit
        assert plan[
            "predicted_step_ms"] >= before * 0.98, (f"faster with less memory: {plan['predicted_step_ms']} after "
                                                    f"{before} ms")
        before = plan["predicted_step_ms"]
    assert before <= 1.5 * whole["predicted_step_ms"]
    run = subprocess.run([
        MSC, "compile", "gpt0.fbs", "-o", "plan.bin", "--set", "recompute=auto", "--set", f"memory_limit={least // 2}"
    ], capture_output=True, text=True)
    assert run.returncode == 1 and "memory_limit of " in run.stderr and run.stderr.count(
        "bytes of them are") >= 3, run.stderr
    return ["recompute=auto", f"memory_limit={int(least + 0.5 * (wants - least))}"]


def moments():
    """An optimizer with moments, whose updates share the step's number, takes no more for the values of a step than
    one without."""
    scratch = []
    for optimizer in ("sgd", "adam"):
        call(sys.executable, "-m", "msc.models", "gpt", *SIZES, "--layers", "10", "--attention-dropout", "0.1",
             "--recompute", "1", "--optimizer", optimizer, "-o", "deep.fbs")
        scratch.append(json.loads(call(MSC, "compile", "deep.fbs", "-o", "plan.bin", "--json"))["memory"]["scratch"])
    print(f"ten layers: {scratch[0]} bytes with sgd, {scratch[1]} with adam")
    assert scratch[1] <= 1.02 * scratch[0], scratch


def main():
    os.environ["PYTHONPATH"] = os.path.abspath("tools/python")
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tokens = [rng.randrange(VOCAB) for _ in range(SAMPLES * SEQ)]
        for name, shift in (("x", 0), ("y", 1)):
            write_npy(f"{name}.npy", array.array("i", tokens[shift:] + tokens[:shift]), [SAMPLES, SEQ])
        for again in (0, 1):
            call(sys.executable, "-m", "msc.models", "gpt", *SIZES, "--recompute", str(again), "-o", f"gpt{again}.fbs")
        moments()
        kept = None
        for keys, ranks, most in RUNS:
            losses, weights, arena = train(keys, ranks, 0)
            other, others, less = train(keys, ranks, 1)
            print(f"{' '.join(keys) or 'one rank'}: arena {arena} -> {less} bytes")
            assert len(losses) == STEPS and len(set(losses)) == STEPS, losses
            assert other == losses, f"{keys}: losses {other} instead of {losses}"
            assert others == weights, f"{keys}: other weights"
            assert less <= most * arena, f"{keys}: the arena has {less} of {arena} bytes"
            kept = kept or (losses, weights)
        assert train(sweep(), 1, 0)[:2] == kept, "recompute=auto: other losses or weights"


main()
