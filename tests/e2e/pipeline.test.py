#!/usr/bin/env python3
"""pipeline: a small GPT with dropout in micro-batches and stages: every schedule gives the losses, the evaluation
and the weights of one rank that takes the same micro-batches, bit for bit; with replicas, tensor parallelism and the
parallel optimizer beside it nearly so."""
import array
import json
import os
import random
import sys
import tempfile

from network import write_gpt, write_npy
from program import call, check_memory, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 12, 24, 8, 32, 96

# ranks, keys
SAME_BITS = [
    (2, {"pipeline_stages": 2}),
    (2, {"pipeline_stages": 2, "pipeline_scheduler": "gpipe"}),
    (2, {"pipeline_stages": 2, "pipeline_scheduler": "interleaved", "pipeline_chunks": 2}),
    (4, {"pipeline_stages": 4, "pipeline_scheduler": "zb-h1"}),
    (3, {"pipeline_stages": 3, "pipeline_scheduler": "zb-h2"}),
    (4, {"pipeline_stages": 4, "pipeline_scheduler": "zb-auto"}),
]
NEARLY = [
    (8, {"pipeline_stages": 2, "parallel_mode": "auto_parallel", "mesh": {"dp": 2, "tp": 2}}),
    (8, {
        "pipeline_stages": 2, "mesh": {"dp": 4}, "zero": 2,
        "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}, "pipeline_scheduler": "zb-h1"
    }),
]


TIED = """module {
  "msc.func"() ({
  ^bb0(%x: tensor<24x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x16xf32>, %y: tensor<24xi32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<24x8xf32>, tensor<8x16xf32>) -> tensor<24x16xf32>
    %1 = "msc.tanh"(%0) : (tensor<24x16xf32>) -> tensor<24x16xf32>
    %2 = "msc.matmul"(%1, %v) {pipeline_stage = 1 : i64} : (tensor<24x16xf32>, tensor<16x16xf32>) -> tensor<24x16xf32>
    %3 = "msc.add"(%2, %1) {pipeline_stage = 2 : i64} : (tensor<24x16xf32>, tensor<24x16xf32>) -> tensor<24x16xf32>
    %4 = "msc.matmul"(%3, %w) {transpose_b = true} : (tensor<24x16xf32>, tensor<8x16xf32>) -> tensor<24x8xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) : (tensor<24x8xf32>, tensor<24xi32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "adam", lr = 0.01 : f32, clip_norm = 1.0 : f32},
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter", msc.init = "uniform:0.5"},
                   {msc.name = "v", msc.role = "parameter", msc.init = "uniform:0.5"}, {msc.name = "y", msc.role = "label"}]} : () -> ()
}
"""


def train(ranks, keys, model="gpt.fbs", data=("x=x.npy", "y=y.npy")):
    keys = {"device_num": ranks, **({"parallel_mode": "semi_auto_parallel"} if ranks > 1 else {}), **keys}
    report = json.loads(call(MSC, "compile", model, "-o", "plan.bin", "--json", *settings(keys)))
    assert report["stages"] == keys.get("pipeline_stages", 1) and (report["stages"] > 1) == any(
        c["op"] == "message" for c in report["collectives"]), report
    out = call(MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(STEPS), "--seed", "5",
               "--json", "--save", "w.safetensors", "--train", f"0:{SAMPLES}", "--eval", f"0:{BATCH}", "--data", *data)
    lines = [json.loads(line) for line in out.splitlines()]
    check_memory(report, lines[-1])
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return [line["loss"] for line in lines
            if "loss" in line], [line["eval"]["loss"] for line in lines if "eval" in line], weights


def main():
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_npy("classes.npy", array.array("i", [rng.randrange(8) for _ in range(SAMPLES)]), [SAMPLES])
        write_gpt(rng, 4, SAMPLES, SEQ, BATCH, VOCAB, "--dropout", "0.1")
        for micro in (2, 6):  # fewer than the stages, and more than they divide
            one = train(1, {"micro_size": micro})
            assert len(one[0]) == STEPS and one[0][-1] < one[0][0], one[0]
            for ranks, keys in SAME_BITS:
                if train(ranks, {"micro_size": micro, **keys}) != one:
                    sys.exit(f"{micro} micro-batches, {keys}: not the bits of one rank")
            for ranks, keys in NEARLY:
                losses = train(ranks, {"micro_size": micro, **keys})[0]
                worst = max(abs(a - b) / a for a, b in zip(one[0], losses))
                if worst > 1e-5:
                    sys.exit(f"{micro} micro-batches, {keys}: losses differ by {worst:.1e}")
        with open("tied.mlir",
                  "w") as out:  # one parameter in two stages, an activation that skips one, a norm over all stages
            out.write(TIED)
        data = ("x=x.npy", "y=classes.npy")
        one = train(1, {"micro_size": 6}, "tied.mlir", data)
        for kind in ("1f1b", "zb-h1"):
            other = train(3, {"micro_size": 6, "pipeline_stages": 3, "pipeline_scheduler": kind}, "tied.mlir", data)
            worst = max(abs(a - b) / a for a, b in zip(one[0] + one[1], other[0] + other[1]))
            if worst > 1e-5:
                sys.exit(f"a tied parameter, {kind}: losses differ by {worst:.1e}")
        print(f"{len(SAME_BITS)} schedules with the bits of one rank, {len(NEARLY)} combinations close to it")


main()
