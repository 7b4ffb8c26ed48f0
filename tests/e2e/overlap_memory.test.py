#!/usr/bin/env python3
"""overlap_memory: orders in which collectives run beside other work keep to memory_limit, down to what program order
needs, and do not take back what zero 3, prefetch_depth and recompute save; the losses are those of program order,
bit for bit."""
import array
import json
import os
import random
import sys
import tempfile

from network import write_npy
from program import call, check_memory, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
RANKS, BATCH, SIZES = 4, 64, (64, 256, 256, 256, 16)
BLOCKS, ROWS, WIDTH, INNER = 16, 64, 32, 128


def module(args, attrs, lines, optimizer):
    body = "\n    ".join(lines)
    return f"""module {{
  "msc.func"() ({{
  ^bb0({', '.join(args)}):
    {body}
  }}) {{arg_attrs = [{', '.join(attrs)}], loss = 0 : i64, optimizer = {optimizer}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def ends(value, of, classes):
    return [
        f'%l = "msc.softmax_cross_entropy"({value}, %y) : ({of}, {classes}) -> tensor<f32>',
        '"msc.return"(%l) : (tensor<f32>) -> ()'
    ]


def layers():
    """tanh(x w) four times."""
    args, attrs, lines, x = [f"%x: tensor<{BATCH}x{SIZES[0]}xf32>", f"%y: tensor<{BATCH}xi32>"
                             ], ['{msc.name = "x", msc.role = "data"}',
                                 '{msc.name = "y", msc.role = "label"}'], [], "%x"
    for i, (m, n) in enumerate(zip(SIZES, SIZES[1:])):
        have, w, made = f"tensor<{BATCH}x{m}xf32>", f"tensor<{m}x{n}xf32>", f"tensor<{BATCH}x{n}xf32>"
        args.append(f"%w{i}: {w}")
        attrs.append(f'{{msc.init = "normal:0.1", msc.name = "layer{i}.weight", msc.role = "parameter"}}')
        lines += [
            f'%h{i} = "msc.matmul"({x}, %w{i}) : ({have}, {w}) -> {made}',
            f'%t{i} = "msc.tanh"(%h{i}) : ({made}) -> {made}'
        ]
        x = f"%t{i}"
    return module(args, attrs, lines + ends(x, f"tensor<{BATCH}x{SIZES[-1]}xf32>", f"tensor<{BATCH}xi32>"),
                  '{kind = "adam", lr = 0.01 : f64}')


def blocks(recompute):
    """x + tanh(x a) b, a and b cut along the inner dimension; each block may be computed again."""
    x, h, a, b = (f"tensor<{m}x{n}xf32>" for m, n in ((ROWS, WIDTH), (ROWS, INNER), (WIDTH, INNER), (INNER, WIDTH)))
    args = [f"%x: {x}", f"%y: tensor<{ROWS}xi32>"] + [f"%a{i}: {a}, %b{i}: {b}" for i in range(BLOCKS)]
    attrs = ['{msc.name = "x", msc.role = "data"}', '{msc.name = "y", msc.role = "label"}']
    attrs += [
        f'{{msc.init = "normal:0.1", msc.name = "{n}{i}", msc.role = "parameter"}}' for i in range(BLOCKS) for n in "ab"
    ]
    lines, v = [], "%x"
    for i in range(BLOCKS):
        mark = f'recompute = "block{i}"' if recompute else ""
        lines += [
            f'%h{i} = "msc.matmul"({v}, %a{i}) {{in_strategy = [[1, 1], [1, {RANKS}]]{", " + mark if mark else ""}}} '
            f': ({x}, {a}) -> {h}',
            f'%t{i} = "msc.tanh"(%h{i}) {{{mark}}} : ({h}) -> {h}',
            f'%o{i} = "msc.matmul"(%t{i}, %b{i}) {{in_strategy = [[1, {RANKS}], [{RANKS}, '
            f'1]]{", " + mark if mark else ""}}} : ({h}, {b}) -> {x}',
            f'%v{i} = "msc.add"({v}, %o{i}) {{{mark}}} : ({x}, {x}) -> {x}'
        ]
        v = f"%v{i}"
    return module(args, attrs, lines + ends(v, x, f"tensor<{ROWS}xi32>"), '{kind = "sgd", lr = 0.1 : f64}')


def compiled(model, **keys):
    return json.loads(call(MSC, "compile", model, "-o", "plan.bin", "--json", *settings({"device_num": RANKS, **keys})))


def needed(model, **keys):
    return compiled(model, **keys)["memory_bytes_per_rank"]


def train(report):
    out = [
        json.loads(line) for line in call(MSC, "run", "plan.bin", "-n", str(RANKS), "--threads", "1", "--steps", "4",
                                          "--seed", "5", "--json", "--data", "x=x.npy", "y=y.npy").splitlines()
    ]
    check_memory(report, out[-1])
    return [line["loss"] for line in out if "loss" in line]


def check(what, ok):
    if not ok:
        sys.exit(what)


def check_zero():
    keys = {"parallel_mode": "data_parallel", "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
    least = compiled("layers.mlir", **keys, zero=3, overlap=False)
    losses, bytes_least = train(least), least["memory_bytes_per_rank"]
    by_stage = [needed("layers.mlir", **keys, zero=stage) for stage in range(4)]
    check(f"zero 0, 1, 2, 3 need {by_stage}", by_stage[3] < by_stage[2] <= by_stage[1] < by_stage[0])
    by_depth = [compiled("layers.mlir", **keys, zero=3, prefetch_depth=depth) for depth in (0, 1, 2)]
    memory, exposed = [r["memory_bytes_per_rank"] for r in by_depth], [r["exposed_comm_ms"] for r in by_depth]
    layer = 4 * SIZES[1] * SIZES[2]
    check(f"prefetch_depth 0, 1, 2 needs {memory}, program order {bytes_least}, one layer {layer}",
          all(m <= bytes_least + depth * layer * 5 // 4 for depth, m in enumerate(memory)))
    check(f"prefetch_depth 0, 1, 2 waits {exposed} ms", exposed[2] < exposed[1] < exposed[0])
    for i in range(9):
        limit = bytes_least + i * (by_stage[0] - bytes_least) // 8
        report = compiled("layers.mlir", **keys, zero=3, memory_limit=limit)
        check(f"with memory_limit {limit} a plan of {report['memory_bytes_per_rank']}", report["memory_bytes_per_rank"]
              <= limit)
        check(f"with memory_limit {limit} other losses", i % 4 or train(report) == losses)


def check_recompute():
    keys = {"parallel_mode": "semi_auto_parallel"}
    kept, again = (needed(model, **keys, overlap=False) for model in ("kept.mlir", "again.mlir"))
    with_overlap = needed("again.mlir", **keys)
    check(f"what is kept needs {kept}, what is computed again {again}, {with_overlap} with overlap",
          with_overlap - again < (kept - again) / 8 and again < kept)


def main():
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_npy("x.npy", array.array("f", [rng.uniform(-1, 1) for _ in range(BATCH * SIZES[0])]), [BATCH, SIZES[0]])
        write_npy("y.npy", array.array("i", [rng.randrange(SIZES[-1]) for _ in range(BATCH)]), [BATCH])
        for name, text in (("layers", layers()), ("kept", blocks(False)), ("again", blocks(True))):
            with open(f"{name}.mlir", "w") as out:
                out.write(text)
        check_zero()
        check_recompute()
    print("9 limits, 3 depths, 4 stages of the parallel optimizer and 16 blocks computed again keep their memory")


main()
