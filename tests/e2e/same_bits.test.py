#!/usr/bin/env python3
"""same_bits: a small network trained at a rate at which training is chaotic, cut in several ways over 1 to 8 ranks
and with one or two threads, and networks that look up rows of tables; losses and weights have the same bits as on one
rank, because every sum is made in the same order."""
import array
import json
import os
import random
import re
import sys
import tempfile

from network import write_npy
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, SIZES, SAMPLES, STEPS = 32, (48, 64, 32, 11), 320, 60  # 11 classes: a cut loss would be made of other ops
FACTOR = 0
# batch, sizes, samples and steps of networks that AMX multiplies: blocks of 32 terms and more; batches are cut.  In the
# second no block fills its last chunk, row group or panel
WIDE = (512, (256, 512, 256, 11), 1024, 12), (1000, (300, 257, 65, 11), 2000, 8)
BY_TILES = "compute_type=bf16", "f32_products=bf16_x6"

# mesh, strategies of the products (rows and inner dimension of the first operand, inner dimension and columns of the
# second)
CUTS = [
    ({}, 1, {}),
    ({"d": 2}, 2, {n: [[2, 1], [1, 1]] for n in range(3)}),
    ({"d": 4}, 4, {0: [[1, 4], [4, 1]], 1: [[4, 1], [1, 1]], 2: [[1, 4], [4, 1]]}),
    ({"d": 8}, 8, {n: [[8, 1], [1, 1]] for n in range(3)}),
    ({"d": 8}, 8, {0: [[2, 4], [4, 1]], 1: [[1, 8], [8, 1]], 2: [[4, 2], [2, 1]]}),
    ({"a": 2, "b": 4}, 8, {0: [[4, 2], [2, 1]], 1: [[2, 2], [2, 2]], 2: [[1, 8], [8, 1]]}),
]
# nothing is given: the search decides
FREE = [({"d": 8}, 8, {}), ({"a": 2, "b": 4}, 8, {}), ({"a": 4, "b": 2}, 8, {})]
# few devices share fast links, so that sums pay in several steps
TWO_LEVELS = {
    "device": {"name": "slow", "flops_per_s": {"f32": 1e8}, "memory_bytes": 8000000000, "bytes_per_s": 1e10,
               "launch_ns": 100},
    "levels": [{"name": "pair", "size": 2, "latency_ns": 100, "bytes_per_s": 1e9},
               {"name": "node", "size": 4, "latency_ns": 100, "bytes_per_s": 1e8},
               {"name": "fabric", "latency_ns": 100, "bytes_per_s": 1e7}],
}
# how gradients are sent together; the cuts above: as the cost model finds best
FUSIONS = ['comm_fusion={"openstate":false}', "all_reduce_fusion_config=[]", "all_reduce_fusion_config=[1,4]"]


def list_args():
    args = [("x", "data", [BATCH, SIZES[0]], None)]
    for n, (i, o) in enumerate(zip(SIZES, SIZES[1:])):
        args += [(f"w{n}", "parameter", [i, o], f"uniform:{(6 / i) ** 0.5}"), (f"b{n}", "parameter", [o], "zeros")]
    return args + [("y", "label", [BATCH], None)]


def kind(dims):
    return f"tensor<{'x'.join(map(str, dims))}xf32>" if dims else "tensor<f32>"


def text_of(strategies):
    """The network as IR text; with FACTOR its first weights and its loss times that number."""
    args = list_args()
    types = {name: kind(dims) if role != "label" else f"tensor<{BATCH}xi32>" for name, role, dims, _ in args}
    lines, x, weight, loss = [], "x", "w0", "loss"
    if FACTOR:
        lines += [f'    %factor = "msc.constant"() {{value = dense<{FACTOR}> : tensor<f32>}} : () -> tensor<f32>',
                  f'    %scaled = "msc.mul"(%w0, %factor) : ({types["w0"]}, tensor<f32>) -> {types["w0"]}']
        weight, loss = "scaled", "product"
    for n, o in enumerate(SIZES[1:]):
        y, t = kind([BATCH, o]), {"x": kind([BATCH, SIZES[n]])}
        w = f"w{n}" if n else weight
        cut = f" {{in_strategy = {strategies[n]}}}" if n in strategies else ""
        lines.append(f'    %p{n} = "msc.matmul"(%{x}, %{w}){cut} : ({t["x"]}, {types[f"w{n}"]}) -> {y}')
        lines.append(f'    %s{n} = "msc.add"(%p{n}, %b{n}) : ({y}, {types[f"b{n}"]}) -> {y}')
        if n + 2 < len(SIZES):
            lines.append(f'    %r{n} = "msc.relu"(%s{n}) : ({y}) -> {y}')
        x = f"r{n}"
    last = len(SIZES) - 2
    lines.append(
        f'    %loss = "msc.softmax_cross_entropy"(%s{last}, %y) : ({kind([BATCH, SIZES[-1]])}, {types["y"]}) -> '
        f'tensor<f32>'
    )
    if FACTOR: lines.append('    %product = "msc.mul"(%loss, %factor) : (tensor<f32>, tensor<f32>) -> tensor<f32>')
    attrs = ", ".join(
        "{" + f'msc.name = "{name}", msc.role = "{role}"' + (f', msc.init = "{init}"' if init else "") + "}"
        for name, role, _, init in args)
    return "\n".join([
        "module {", '  "msc.func"() ({', "  ^bb0(" + ", ".join(f"%{name}: {types[name]}" for name, *_ in args) + "):",
        *lines, f'    "msc.return"(%{loss}) : (tensor<f32>) -> ()',
        '  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],',
        "      optimizer = {kind = \"momentum\", lr = 0.05 : f32, momentum = 0.9 : f32},",
        f"      arg_attrs = [{attrs}]}} : () -> ()", "}", ""
    ])


def train(number, mesh, ranks, strategies, threads, more=(), options=()):
    with open(f"{number}.mlir", "w") as out:
        out.write(text_of(strategies))
    keys = [f"device_num={ranks}"
            ] + (["mesh=" + json.dumps(mesh), "parallel_mode=auto_parallel", "search_mode=sharding_propagation"]
                 if ranks > 1 else []) + list(more)
    call(MSC, "compile", f"{number}.mlir", "-o", f"{number}.bin", *options,
         *[word for key in keys for word in ("--set", key)])
    out = call(MSC, "run", f"{number}.bin", "-n", str(ranks), "--threads", str(threads), "--steps", str(STEPS),
               "--seed", "5", "--json", "--save", "w.safetensors", "--data", "x=x.npy", "y=y.npy")
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return [
        re.search(r'"loss": ?([^,}]+)', line).group(1) for line in out.splitlines()
        if '"step"' in line and '"loss"' in line
    ], weights


def write_samples(rng):
    write_npy("x.npy", array.array("f", [rng.gauss(0, 1) for _ in range(SAMPLES * SIZES[0])]), [SAMPLES, SIZES[0]])
    write_npy("y.npy", array.array("i", [rng.randrange(SIZES[-1]) for _ in range(SAMPLES)]), [SAMPLES])


def compare(jobs, losses, weights):
    for number, (cut, threads, keys, *options) in enumerate(jobs):
        other, others = train(number, *cut, threads, keys, *options)
        if other != losses:
            step = next(i for i, (a, b) in enumerate(zip(other, losses)) if a != b)
            sys.exit(f"{cut}, {threads} threads, {keys}: loss of step {step} is {other[step]}, on one rank "
                     f"{losses[step]}")
        if others != weights:
            sys.exit(f"{cut}, {threads} threads, {keys}: other weights than on one rank")


NETWORKS = {
    "gpt": ["--layers", "2", "--hidden", "32", "--heads", "4", "--seq", "16", "--batch", "16", "--vocab", "24"],
    "bert": ["--layers", "1", "--hidden", "32", "--heads", "4", "--seq", "16", "--batch", "16", "--vocab", "24"],
    "moe": ["--layers", "2", "--hidden", "16", "--heads", "2", "--seq", "16", "--batch", "16", "--vocab", "24"],
    "wide_deep": ["--batch", "16", "--vocab", "24"],
}
WAYS = [(1, 2, {}), (2, 1, {"parallel_mode": "data_parallel", "gradients_mean": True}),
        (8, 1, {"parallel_mode": "data_parallel", "gradients_mean": True}),
        (4, 1, {"parallel_mode": "auto_parallel", "mesh": {"dp": 2, "tp": 2}}),
        (4, 1, {"parallel_mode": "semi_auto_parallel", "mesh": {"dp": 4}, "zero": 2})]


def check_networks(rng):
    """Rows of a table that many tokens look up have sums over all ranks."""
    steps = 6
    for name, sizes in NETWORKS.items():
        call(sys.executable, "-m", "msc.models", name, *sizes, "--optimizer", "adamw", "--lr", "0.01", "-o", "n.fbs")
        columns, data = 26 if name == "wide_deep" else 16, ["x=tokens.npy", "y=labels.npy"]
        samples = 16 * steps
        tokens = [min(rng.randrange(24), rng.randrange(24)) for _ in range(samples * columns)]
        write_npy("tokens.npy", array.array("i", tokens), [samples, columns])
        if name == "wide_deep":
            write_npy("labels.npy", array.array("f", [rng.randrange(2) for _ in range(samples)]), [samples, 1])
        else:
            write_npy("labels.npy", array.array("i", [rng.randrange(24) for _ in range(samples * 16)]), [samples, 16])
        wanted = None
        for ranks, threads, keys in [(1, 1, {}), *WAYS]:
            call(MSC, "compile", "n.fbs", "-o", "n.bin", "--set", f"device_num={ranks}", *settings(keys))
            out = call(MSC, "run", "n.bin", "-n", str(ranks), "--threads", str(threads), "--steps", str(steps),
                       "--seed", "5", "--json", "--save", "w.safetensors", "--eval", "0:16", "--data", *data)
            got = losses_and_weights(out, steps)
            wanted = wanted or got
            same = got[0] == wanted[0]
            if name == "moe":  # its loss is a sum of two sums over ranks, which are added in one go
                same = all(abs(a - b) <= 1e-6 for a, b in zip(got[0], wanted[0]))
            if not same or got[1] != wanted[1]:
                sys.exit(f"{name}, {ranks} ranks, {threads} threads, {keys}: other bits than on one rank: {got[0]} "
                         f"and {wanted[0]}")


def recurrent_text(steps, at_once, batch=16, width=48, hidden=40):
    """A network that begins with a state of zeros, whose product with a weight has no sample. Every step adds to the
    gradients of the weights; at_once: the inputs of all steps are multiplied before the first, step by step."""
    x, h, n = f"tensor<{batch}x{steps}x{width}xf32>", f"tensor<{batch}x{hidden}xf32>", hidden if at_once else width
    row, types = f"tensor<{batch}x{n}xf32>", {
        "x": x, "y": f"tensor<{batch}xi32>", "wx": f"tensor<{width}x{hidden}xf32>",
        "wh": f"tensor<{hidden}x{hidden}xf32>", "b": f"tensor<{hidden}xf32>"
    }
    turned, products = f"tensor<{steps}x{batch}x{width}xf32>", f"tensor<{steps}x{batch}x{hidden}xf32>"
    lines = ['%zero = "msc.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>',
             f'%h0 = "msc.broadcast_to"(%zero) {{shape = [{batch}, {hidden}]}} : (tensor<f32>) -> {h}']
    if at_once:
        lines += [f'%t = "msc.transpose"(%all) {{perm = [1, 0, 2]}} : ({x}) -> {turned}',
                  f'%m = "msc.batch_matmul"(%t, %wx) : ({turned}, {types["wx"]}) -> {products}']
    part = f"tensor<1x{batch}x{n}xf32>" if at_once else f"tensor<{batch}x1x{n}xf32>"
    source, whole, dim = ("m", products, 0) if at_once else ("all", x, 1)
    lines.append(f'%x:{steps} = "msc.split"(%{source}) {{dim = {dim} : i64, sizes = {[1] * steps}}} : ({whole}) -> '
                 f'({", ".join([part] * steps)})')
    for t in range(steps):
        lines.append(f'%r{t} = "msc.reshape"(%x#{t}) {{shape = [{batch}, {n}]}} : ({part}) -> {row}')
        if not at_once: lines.append(f'%p{t} = "msc.matmul"(%r{t}, %wx) : ({row}, {types["wx"]}) -> {h}')
        lines += [f'%q{t} = "msc.matmul"(%h{t}, %wh) : ({h}, {types["wh"]}) -> {h}',
                  f'%a{t} = "msc.add"(%q{t}, %b) : ({h}, {types["b"]}) -> {h}',
                  f'%s{t} = "msc.add"(%a{t}, %{"r" if at_once else "p"}{t}) : ({h}, {h}) -> {h}',
                  f'%h{t + 1} = "msc.tanh"(%s{t}) : ({h}) -> {h}']
    lines.append(f'%loss = "msc.softmax_cross_entropy"(%h{steps}, %y) : ({h}, {types["y"]}) -> tensor<f32>')
    named = ", ".join(f"%{'all' if name == 'x' else name}: {type}" for name, type in types.items())
    init = ['role = "data"', 'role = "label"', *2 * ['role = "parameter", msc.init = "uniform:0.5"'],
            'role = "parameter", msc.init = "zeros"']
    attrs = ", ".join(f'{{msc.name = "{name}", msc.{i}}}' for name, i in zip(types, init))
    return "\n".join([
        'module {\n  "msc.func"() ({', f"  ^bb0({named}):", *("    " + line for line in lines),
        '    "msc.return"(%loss) : (tensor<f32>) -> ()',
        '  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],',
        '      optimizer = {kind = "momentum", lr = 0.5 : f32, momentum = 0.9 : f32},',
        f"      arg_attrs = [{attrs}]}} : () -> ()\n}}\n"
    ])


def check_recurrent(rng, steps=6, batches=4):
    samples = 16 * batches
    write_npy("x.npy", array.array("f", [rng.gauss(0, 1) for _ in range(samples * steps * 48)]), [samples, steps, 48])
    write_npy("y.npy", array.array("i", [rng.randrange(40) for _ in range(samples)]), [samples])
    for at_once in (False, True):
        with open("r.mlir", "w") as out:
            out.write(recurrent_text(steps, at_once))
        wanted = None
        for ranks in (1, 2, 4, 8):
            keys = settings({"parallel_mode": "data_parallel", "gradients_mean": True}) if ranks > 1 else []
            call(MSC, "compile", "r.mlir", "-o", "r.bin", "--set", f"device_num={ranks}", *keys)
            out = call(MSC, "run", "r.bin", "-n", str(ranks), "--threads", "1", "--steps", str(batches), "--seed", "5",
                       "--json", "--save", "w.safetensors", "--eval", "0:16", "--data", "x=x.npy", "y=y.npy")
            got = losses_and_weights(out, batches)
            wanted = wanted or got
            if got != wanted:
                sys.exit(f"a recurrent network, {ranks} ranks: other bits than on one: {got[0]} and {wanted[0]}")


ODD_BATCHES = 6, 12, 20, 24  # a mean over so many is no sum of the ranks' means, as f32 rounds
PLAIN = ("parallel_mode=data_parallel", "gradients_mean=true")


def check_odd_batches(rng):
    """Sums over ranks are scaled by numbers that are no powers of two."""
    global BATCH, FACTOR, SIZES, SAMPLES, STEPS
    SIZES, STEPS = (12, 16, 11), 8
    for BATCH in ODD_BATCHES:
        SAMPLES = BATCH * STEPS
        write_samples(rng)
        # more keys come after those of `train`, and win
        jobs = [(({"d": ranks}, ranks, {}), 1, keys) for ranks in (2, 4) if BATCH % ranks == 0
                for keys in ((), PLAIN, ("parallel_mode=semi_auto_parallel", "zero=2"))]
        jobs.append((({"a": 2, "b": 2}, 4, {0: [[2, 1], [1, 2]], 1: [[2, 2], [2, 1]]}), 2, ()))
        for FACTOR in (0, 0.7):
            compare(jobs, *train(0, *CUTS[0], 1))
    FACTOR = 0


def main():
    global BATCH, SIZES, SAMPLES, STEPS
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_samples(rng)
        losses, weights = train(0, *CUTS[0], 1)
        assert len(losses) == STEPS and len(set(losses)) > STEPS / 2, losses
        jobs = [(cut, threads, ()) for number, cut in enumerate(CUTS) for threads in ((1, 2) if number == 0 else (1,))]
        jobs += [(CUTS[3], 1, [fusion]) for fusion in FUSIONS]
        with open("two_levels.json", "w") as out:
            json.dump(TWO_LEVELS, out)
        jobs += [(cut, 1, ["search_mode=dynamic_programming"], ["--cluster", cluster]) for cut in CUTS[1:] + FREE
                 for cluster in ("cpu", "two_levels.json")]
        compare(jobs, losses, weights)
        for BATCH, SIZES, SAMPLES, STEPS in WIDE:
            write_samples(rng)
            for key in BY_TILES:
                losses, weights = train(0, *CUTS[0], 1, [key])
                assert len(set(losses)) > STEPS / 2, losses
                compare([(cut, threads, [key]) for cut in (CUTS[0], CUTS[1], CUTS[3]) for threads in (1, 2)], losses,
                        weights)
        check_networks(rng)
        check_recurrent(rng)
        check_odd_batches(rng)
        print(
            f"{len(CUTS)} layouts, {len(FUSIONS)} ways to send gradients, {2 * len(CUTS + FREE) - 2} searched: {STEPS} "
            f"losses and the weights have the same bits; in bf16, and in parts of it, {len(WIDE)} networks, 3 layouts; "
            f"{len(NETWORKS)} networks with tables, {len(WAYS)} ways; {len(ODD_BATCHES)} batches of other sizes, "
            f"scaled too"
        )


main()
