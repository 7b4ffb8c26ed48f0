#!/usr/bin/env python3
"""pipeline_sweep: a tiny network, kinds of schedules, stages, chunks and micro-batches: every plan is sound and
ends, and losses and weights are those of one rank with the same micro-batches, bit for bit.  Ranks that sleep for
the predicted times take the predicted step.  MSC_TEST_SLOW: all 2,240 of p <= 8, v <= 4, m <= 32."""
import array
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

import program
from network import write_npy

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
SLOW = bool(os.environ.get("MSC_TEST_SLOW"))
LAYERS, WIDTH, CLASSES, STEPS = 17, 3, 4, 3
KINDS = {"gpipe": [1], "1f1b": [1], "zb-h1": [1], "zb-h2": [1], "zb-auto": [1, 2],
         "interleaved": [1, 2, 3, 4]}  # and their chunks

# kind, stages, chunks, micro-batches: m < p, not a multiple of p, 1
QUICK = [("gpipe", 3, 1, 1), ("1f1b", 5, 1, 7), ("zb-h1", 4, 1, 3), ("zb-h2", 3, 1, 7), ("zb-auto", 2, 1, 5),
         ("zb-auto", 3, 2, 4), ("interleaved", 2, 4, 3), ("interleaved", 3, 2, 1), ("interleaved", 4, 3, 11)]


def all_cases():
    for kind, chunks in KINDS.items():
        for p in range(2, 9):
            for v in chunks:
                for m in range(1, 33):
                    yield kind, p, v, m


def model(batch):
    """Layers of tanh(x w)."""
    data, wide = f"tensor<{batch}x{WIDTH}xf32>", f"tensor<{WIDTH}x{WIDTH}xf32>"
    args = [f"%x: {data}", f"%y: tensor<{batch}xi32>"] + [f"%w{i}: {wide}" for i in range(LAYERS)
                                                          ] + [f"%out: tensor<{WIDTH}x{CLASSES}xf32>"]
    attrs = ['{msc.name = "x", msc.role = "data"}', '{msc.name = "y", msc.role = "label"}'] + [
        f'{{msc.init = "normal:0.7", msc.name = "{n}", msc.role = "parameter"}}'
        for n in [*(f"w{i}" for i in range(LAYERS)), "out"]
    ]
    lines, x = [], "%x"
    for i in range(LAYERS):
        lines.append(f'%h{i} = "msc.matmul"({x}, %w{i}) : ({data}, {wide}) -> {data}')
        lines.append(f'%t{i} = "msc.tanh"(%h{i}) : ({data}) -> {data}')
        x = f"%t{i}"
    logits = f"tensor<{batch}x{CLASSES}xf32>"
    lines.append(f'%z = "msc.matmul"({x}, %out) : ({data}, tensor<{WIDTH}x{CLASSES}xf32>) -> {logits}')
    lines.append(f'%l = "msc.softmax_cross_entropy"(%z, %y) : ({logits}, tensor<{batch}xi32>) -> tensor<f32>')
    lines.append('"msc.return"(%l) : (tensor<f32>) -> ()')
    body = "\n    ".join(lines)
    return f"""module {{
  "msc.func"() ({{
  ^bb0({', '.join(args)}):
    {body}
  }}) {{arg_attrs = [{', '.join(attrs)}], loss = 0 : i64, optimizer = {{kind = "momentum", lr = 0.1 : f64, momentum = 0.9 : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def call(what, *words):
    try:
        return program.call(*words)
    except SystemExit as failure:
        sys.exit(f"{what}: {failure}")


def compile_plan(what, m, **keys):
    if not os.path.exists(f"{m}.mlir"):
        with open(f"{m}.mlir", "w") as out:
            out.write(model(2 * m))
    return call(what, MSC, "compile", f"{m}.mlir", "-o", "plan.bin", "--json",
                *program.settings({"micro_size": m, **keys}))


def run_plan(what, ranks):
    out = call(what, MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(STEPS), "--seed", "5",
               "--timeout", "60", "--json", "--save", "w.safetensors", "--data", "x=x.npy", "y=y.npy")
    with open("w.safetensors", "rb") as file:
        return [json.loads(line)["loss"] for line in out.splitlines()[:STEPS]], file.read()


TIMED = [("1f1b", 3, 1, 4),
         ("zb-auto", 3, 2, 4)]  # ranks that sleep as long as calls and messages are predicted to take
TIMED_SLOW = [("gpipe", 8, 1, 8), ("1f1b", 8, 1, 8), ("zb-h1", 4, 1, 8), ("zb-h2", 8, 1, 16), ("zb-auto", 8, 1, 12),
              ("interleaved", 4, 2, 8)]


def check_times(kind, p, v, m):
    """Steps that follow each other, the best of some runs, since others may have the cores: of longer and longer steps,
    of which what they disturb is a smaller part."""
    what = f"{kind}, {p} stages, {v} chunks, {m} micro-batches, timed"
    compiled = compile_plan(what, m, parallel_mode="semi_auto_parallel", device_num=p, pipeline_stages=p,
                            pipeline_chunks=v, pipeline_scheduler=kind)
    for wanted_ms in (300, 300, 600, 1200, 2400):
        os.environ["MSC_TIME_SCALE"] = str(wanted_ms / json.loads(compiled)["predicted_step_ms"])
        out = call(what, MSC, "run", "plan.bin", "-n", str(p), "--threads", "1", "--steps", "6", "--device", "timed",
                   "--json")
        took = sum(json.loads(line)["ms"] for line in out.splitlines()[2:6]) / 4
        if took < 0.99 * wanted_ms:
            break
        if took < 1.03 * wanted_ms:
            return
    sys.exit(f"{what}: a step takes {took:.0f} ms, predicted are {wanted_ms}")


def check_lost_rank(victim):
    """The others say who is gone and at which message, and end."""
    what = f"rank {victim} of 4 is killed"
    compile_plan(what, 4, parallel_mode="semi_auto_parallel", device_num=4, pipeline_stages=4)
    process = subprocess.Popen([
        MSC, "run", "plan.bin", "-n", "4", "--threads", "1", "--steps", "100000000", "--json", "--data", "x=x.npy",
        "y=y.npy"
    ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(20):
        process.stdout.readline()
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        ranks = [int(pid) for pid in file.read().split()]
    os.kill(ranks[victim], signal.SIGKILL)
    try:
        text = process.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"{what}: the others go on waiting")
    told = [r for r in range(4) if r != victim and f"rank {r}: step " in text]
    if process.returncode != 3 or len(told) != 3 or text.count(f"rank {victim} is gone") != 3 or text.count(
            ": message stage_") != 3:
        sys.exit(f"{what}: exit code {process.returncode}\n{text}")


def main():
    rng = random.Random(3)
    one, cases = {}, list(all_cases()) if SLOW else QUICK
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        samples = 64 * STEPS
        write_npy("x.npy", array.array("f", [rng.gauss(0, 1) for _ in range(samples * WIDTH)]), [samples, WIDTH])
        write_npy("y.npy", array.array("i", [rng.randrange(CLASSES) for _ in range(samples)]), [samples])
        for kind, p, v, m in cases:
            what = f"{kind}, {p} stages, {v} chunks, {m} micro-batches"
            if m not in one:
                compile_plan(what, m)
                one[m] = run_plan(what, 1)
            compile_plan(what, m, parallel_mode="semi_auto_parallel", device_num=p, pipeline_stages=p,
                         pipeline_chunks=v, pipeline_scheduler=kind)
            call(what, MSC, "verify", "plan.bin")
            if run_plan(what, p) != one[m]:
                sys.exit(f"{what}: not the bits of one rank")
        for victim in (0, 2):
            check_lost_rank(victim)
        for case in TIMED + TIMED_SLOW * SLOW:
            check_times(*case)
    print(f"{len(cases)} plans are sound and have the bits of one rank")


main()
