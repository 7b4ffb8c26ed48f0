#!/usr/bin/env python3
"""random_pipeline: random models, as tests/passes/random_graph.h makes them, cut into stages, with schedules, copies
and recomputed ops by chance: each compiles to a plan that ends, takes all inputs of the model and has the losses of
one rank with the same micro-batches, in the memory that the plan says.  A GPT whose recomputed blocks lie across
stages likewise.  RANDOM_PIPELINES=FIRST:LAST: these seeds."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from network import write_npy
from program import attempt, call, check_memory, finish, settings
from random_model import MSC, OF_ONE_RANK, are_close, generate, write_inputs

FIRST, LAST = map(
    int,
    os.environ.get("RANDOM_PIPELINES", "1:1000" if "MSC_TEST_SLOW" in os.environ else "570:596").split(":"))
SEMI = {"parallel_mode": "semi_auto_parallel"}
# Reasons of the user's: the model mixes samples, has too few layers or samples, nothing to train, or a lazy optimizer.
REASONS = (r"mixes samples of the batch|does not divide|there are only \d+ layers|no trainable parameter|is in stage|"
           r"layers cannot|lazy updates of micro-batches")


def program(seed):
    """The facts and the text of a random model, without its mesh and what it says of layouts."""
    facts, model = generate(seed)
    of_a_mesh = (r"(?:in_strategy|out_strategy|in_layout|out_layout|manual_split) = \[[^=]*?\](?:, (?=[a-z_]+ = )|"
                 r"(?=\}))|(?:max_bytes = \d+(?: : i64)?|deny_replicate = true)(?:, (?=[a-z_]+ = )|(?=\}))")
    model = re.sub(of_a_mesh, "", model).replace(" {}", "").replace(", }", "}")
    return facts, re.sub(r'module attributes \{msc.mesh = #msc.mesh<"[^"]*">\}', "module", model)


def marked(rng, model):
    """Some ops marked: alone, or as one block that lies anywhere."""
    mark = "recompute = " + rng.choice(["true", '"block"'])

    def line(text):
        if not re.match(r" +%\d+(:\d+)? = ", text) or '"msc.constant"' in text or rng.random() < 0.5:
            return text
        return text.replace(") {", f") {{{mark}, ", 1) if ") {" in text else text.replace(
            ") : (", f") {{{mark}}} : (", 1)

    return "\n".join(line(text) for text in model.split("\n"))


def losses(model, ranks, keys, words, steps=2):
    """None: the compiler refuses it, with a reason of the user's."""
    done = subprocess.run([MSC, "compile", model, "-o", "p.bin", "--json", *settings(keys)], capture_output=True,
                          text=True, timeout=300)
    if done.returncode == 1 and re.search(REASONS, done.stderr):
        return None
    assert done.returncode == 0, f"compile: {done.stderr}"
    out = call(MSC, "run", "p.bin", "-n", str(ranks), "--threads", "1", "--steps", str(steps), "--seed", "5", "--json",
               "--data", *words)
    lines = [json.loads(line) for line in out.splitlines()]
    check_memory(json.loads(done.stdout), lines[-1])
    return [line["loss"] for line in lines if "loss" in line]


def check(seed, tally):
    facts, model = program(seed)
    if not facts["trains"]:
        return
    rng = random.Random(seed)
    words, stages, kind = write_inputs(facts, rng), rng.choice([2, 2, 3, 4]), rng.choice(
        ["1f1b", "gpipe", "zb-h1", "zb-h2", "zb-auto", "interleaved"])
    own = {k: v for k, v in (s.split("=", 1) for s in facts["settings"]) if k in OF_ONE_RANK}
    micro, copies = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 2])
    keys = {
        **own, **SEMI, "device_num": stages, "pipeline_stages": stages, "pipeline_scheduler": kind,
        "pipeline_chunks": 2 if kind == "interleaved" else 1, "micro_size": micro, "micro_batch_interleaved": copies,
        "overlap": rng.choice([True, False])
    }
    with open("model.mlir", "w") as out:
        out.write(marked(rng, model) if rng.random() < 0.6 else model)
    got = losses("model.mlir", stages, keys, words)
    tally["refused" if got is None else "run"] += 1
    want = got and losses("model.mlir", 1, {**own, "micro_size": micro * copies}, words)
    tolerance = 8e-2 if facts["narrow"] or "compute_type" in own else 2e-3
    assert got is None or are_close(want, got, tolerance), f"{keys}: losses {got}, of one rank {want}"


def check_seed(seed, tally):
    try:
        check(seed, tally)
    except (SystemExit, AssertionError) as e:
        raise AssertionError(f"seed {seed}: {e}") from None


def check_gpt(kind, micro):
    """Block 2 is cut between stages 1 and 2."""
    rng = random.Random(3)
    for name in "xy":
        write_npy(f"{name}.npy", array.array("i", [rng.randrange(32) for _ in range(24 * 8)]), [24, 8])
    call(sys.executable, "-m", "msc.models",
         *"gpt --layers 3 --hidden 16 --heads 2 --seq 8 --batch 24 --vocab 32 --recompute 1 -o gpt.fbs".split())
    words = ["x=x.npy", "y=y.npy"]
    one = losses("gpt.fbs", 1, {"micro_size": 2 * micro}, words, 4)
    got = losses(
        "gpt.fbs", 3, {
            **SEMI, "device_num": 3, "pipeline_stages": 3, "pipeline_scheduler": kind, "micro_size": micro,
            "micro_batch_interleaved": 2
        }, words, 4)
    assert one[-1] < one[0] and got == one, f"gpt, {kind}, {micro} micro-batches: losses {got}, of one rank {one}"


def main():
    tally = {"run": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind, micro in (("1f1b", 3), ("zb-h1", 2)):
            attempt(check_gpt, kind, micro)
        for seed in range(FIRST, LAST):
            attempt(check_seed, seed, tally)
    finish()
    assert 2 * tally["run"] > tally["refused"], tally
    print(f"{tally['run']} pipelines have the losses of one rank, {tally['refused']} were refused")


main()
