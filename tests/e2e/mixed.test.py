#!/usr/bin/env python3
"""mixed: networks computed in bf16 and f16 beside their parameters in f32.  Losses are those of PyTorch's autocast
(make_mixed.py), the same for any number of ranks, parallel optimizer and pipeline, also in micro-batches; a step whose
gradients overflow f16 changes nothing but loss_scale.  Convolutions drift apart within a few steps whoever rounds
their terms: of `channels` the first losses are compared, and how far the first gradients are from those in f32."""
import json
import math
import os
import sys
import tempfile

from network import Network, read_weights
from networks import words
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
HERE = os.path.dirname(os.path.abspath(__file__))
# Relative, against autocast: it adds biases in f32 and rounds after other ops.  Without bf16 the losses are up to 8 %
# apart (mlp).
TOLERANCE = {"mlp": 2e-2, "sgd": 1e-3, "adamw": 6e-3, "channels": 1e-3, "gpt": 1e-3, "llama": 1e-3}
STEPS = {"channels": 5}  # that are compared, where not all are
SAME = 1e-5  # relative, between plans: sums of equal terms in other orders, each rounded

REPLICAS = ["parallel_mode=data_parallel", "gradients_mean=true"]
SMALL = 'parallel_optimizer_config={"parallel_optimizer_threshold": 0}'
PLANS = [(4, REPLICAS), (4, REPLICAS + [SMALL, "zero=1"]), (4, REPLICAS + [SMALL, "zero=3"]),
         (4, ["parallel_mode=auto_parallel"])]
OVERFLOWS = ["compute_type=f16", "loss_scale=dynamic", 'loss_scale_config={"init": 1e9, "window": 3}']


class Case:
    """A network as a file, with its samples, weights and the losses to be met."""

    def __init__(self, name, path, text, folder):
        self.name, self.path, self.folder = name, path, folder
        with open(os.path.join(HERE, "mixed", name + ".losses")) as losses:
            network = Network(name, text, losses.read())
        self.losses = network.losses
        self.inputs = ["--init", network.write_weights(folder), "--data", *network.write_data(folder)]

    def compile(self, ranks, keys, *options):
        plan = os.path.join(self.folder, f"{self.name}.bin")
        return plan, json.loads(
            call(MSC, "compile", self.path, "-o", plan, "--json", *options,
                 *[word for key in [f"device_num={ranks}"] + keys for word in ("--set", key)]))

    def train(self, ranks, *keys):
        plan, _ = self.compile(ranks, list(keys))
        out = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--steps", str(len(self.losses)), "--json",
                   *self.inputs)
        return [line["loss"] for line in map(json.loads, out.splitlines()) if "step" in line and "loss" in line]

    def step_of_each(self, key, *options):
        """How far one step moves each parameter."""
        plan, _ = self.compile(1, [key], *options)
        trained = os.path.join(self.folder, "trained.safetensors")
        call(MSC, "run", plan, "-n", "1", "--in-order", "--steps", "1", "--save", trained, *self.inputs)
        before, after = read_weights(self.inputs[1]), read_weights(trained)
        return {name: [a - b for a, b in zip(after[name], before[name])] for name in before}


def near(what, losses, expected, tolerance):
    apart = [abs(a - b) / abs(b) for a, b in zip(losses, expected)]
    print(f"{what}: largest difference {max(apart):.1e}")
    if len(losses) != len(expected) or not max(apart) <= tolerance:
        step = next((i for i, d in enumerate(apart) if not d <= tolerance), len(apart))
        sys.exit(
            f"{what}: {len(losses)} losses of {len(expected)}; step {step}: {losses[step:step + 1]}, expected "
            f"{expected[step:step + 1]}"
        )


def check_autocast(case):
    one = case.train(1, "compute_type=bf16")
    steps = STEPS.get(case.name, len(case.losses))
    near(f"{case.name} in bf16", one[:steps], case.losses[:steps], TOLERANCE[case.name])
    return one


def check_gradients(case):
    """Of a step of sgd: each parameter's gradient in bf16 is about as far from that in f32 as autocast's is from that
    in f64.  Where it is nearer, something was not computed in bf16."""
    with open(os.path.join(HERE, "mixed", case.name + ".errors")) as file:
        errors = {name: float(error) for name, error in map(str.split, file)}
    for options in ([], ["--mcpu", "x86-64-v3"]):
        wide, narrow = (case.step_of_each(key, *options) for key in ("compute_type=f32", "compute_type=bf16"))
        for name, error in errors.items():
            apart = math.dist(wide[name], narrow[name]) / math.hypot(*wide[name])
            print(f"{case.name}{' '.join(['', *options])}: {name} moves {apart:.2e} apart, with autocast {error:.2e}")
            if not error / 3 <= apart <= 1.2 * error:
                sys.exit(f"{case.name}: {name} moves {apart:.2e} apart, not about {error:.2e}")


def check_plans(case, one):
    for ranks, keys in PLANS:
        near(f"{case.name} in bf16 on {ranks} ranks {' '.join(keys)}", case.train(ranks, "compute_type=bf16", *keys),
             one, SAME)
    narrow = case.train(4, "compute_type=bf16", "gradient_fp32_sync=false", *REPLICAS)
    near(f"{case.name}, gradients added up in bf16", narrow, one, 1e-2)


def check_overflow(case):
    """The first steps overflow: their losses are those of the initial weights, and training goes on from there."""
    one = case.train(1, *OVERFLOWS)
    steady = case.train(1, "compute_type=f16", "loss_scale=1024")
    if abs(one[0] - steady[0]) > SAME or one[1] == steady[1] or not one[-1] < one[0]:
        sys.exit(
            f"{case.name}: no step was skipped, or training did not go on: {one[:3]} ... {one[-1]}, with a fixed "
            f"scale {steady[:3]}"
        )
    for ranks, keys in [*PLANS[:1], (4, REPLICAS + ["pipeline_stages=2", "micro_size=2"])]:
        near(f"{case.name} in f16 with overflows on {ranks} ranks {' '.join(keys)}",
             case.train(ranks, *OVERFLOWS, *keys), one, 2e-4)


def check_memory(case):
    """Of parameters only the narrow copy is whole: products take it as it is, on machines of 256-bit vectors and of
    512-bit ones."""
    for cpu in ("x86-64-v3", "x86-64-v4"):
        bytes_of = [
            case.compile(4, [key, SMALL, "zero=1", *REPLICAS], "--mcpu", cpu)[1]["memory_bytes_per_rank"]
            for key in ("compute_type=f32", "compute_type=bf16", "compute_type=f16")
        ]
        print(f"{case.name} for {cpu}: {bytes_of} bytes of memory")
        if not max(bytes_of[1:]) < bytes_of[0]:
            sys.exit(f"{case.name} for {cpu}: a plan in bf16 or f16 needs no less memory")


def check_prepared(case):
    """Micro-batches share the narrow copies of parameters, which a section makes once per step; where memory is too
    small for them each makes its own.  Both are the same training, on any number of ranks and stages."""
    keys = ["compute_type=bf16", "micro_size=2"]
    memory = case.compile(1, keys)[1]
    room = memory["memory_bytes_per_rank"] - memory["memory"]["copies"] // 2
    apart = case.compile(1, [*keys, f"memory_limit={room}"])[1]["memory"]
    print(f"{case.name}: {memory['memory']['copies']} bytes of copies, {apart['copies']} within {room}")
    if not memory["memory"]["copies"] > 0 or apart["copies"]:
        sys.exit(f"{case.name}: copies of parameters in {memory}, and in less memory {apart}")
    one = case.train(1, *keys)
    if case.train(1, *keys, f"memory_limit={room}") != one:
        sys.exit(f"{case.name}: other losses where every micro-batch makes its own copies of parameters")
    for ranks, more in ((2, []), (2, [SMALL, "zero=3"]), (4, ["pipeline_stages=2"]),
                        (4, ["pipeline_stages=2", "pipeline_scheduler=zb-h1"])):
        near(f"{case.name} in bf16 in micro-batches on {ranks} ranks {' '.join(more)}",
             case.train(ranks, *keys, *more, *REPLICAS), one, SAME)


def fixture(name, folder):
    path = os.path.join(HERE, "fixtures", name + ".mlir")
    with open(path) as file:
        return Case(name, path, file.read(), folder)


def built(name, folder):
    path = os.path.join(folder, name + ".fbs")
    call(sys.executable, *words(name), "-o", path)
    return Case(name, path, call(MSC, "dump", path), folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("mlp", "sgd", "channels"):
            check_autocast(fixture(name, folder))
        check_gradients(fixture("channels", folder))
        adamw = fixture("adamw", folder)
        check_plans(adamw, check_autocast(adamw))
        check_overflow(adamw)
        check_prepared(adamw)
        for name in ("gpt", "llama"):
            check_autocast(built(name, folder))
        check_memory(built("gpt", folder))


main()
