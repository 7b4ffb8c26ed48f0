#!/usr/bin/env python3
"""zero: a network trained with every stage of the parallel optimizer, replicas alone and with cut layers, sizes that
divide and sizes that do not, one optimizer of each kind, with and without clipping: losses and weights have the bits
of stage 0, memory and traffic are those of the formulas, and what was saved is read again."""
import json
import os
import random
import subprocess
import sys
import tempfile
from array import array

from network import write_npy
from program import check_memory

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, STEPS, CLASSES = 24, 3, 12
MOMENTUM = 'kind = "momentum", lr = 0.05 : f32, momentum = 0.9 : f32'
ADAM, LAMB, SGD = ('kind = "%s", lr = 0.01 : f32' % kind for kind in ("adam", "lamb", "sgd"))
CLIPPED = ", clip_norm = 0.5 : f32"

# replicas, ranks that cut the layers, widths of layers, optimizer, numbers of state per parameter; even: all parts are
# equal
RUNS = [
    (2, 1, (48, 96, CLASSES), MOMENTUM, 1, True),
    (3, 1, (48, 96, CLASSES), ADAM + CLIPPED, 2, True),
    (4, 1, (21, 50, CLASSES), LAMB, 2, False),
    (6, 1, (48, 96, CLASSES), SGD + CLIPPED, 0, True),
    (8, 1, (48, 96, 8), ADAM, 2, True),
    (2, 2, (48, 96, CLASSES), LAMB + CLIPPED, 2, True),
    (3, 2, (22, 50, CLASSES), ADAM + CLIPPED, 2, False),
    (4, 2, (48, 96, 8), MOMENTUM, 1, True),
]
if not os.environ.get("MSC_TEST_SLOW"):
    RUNS = [RUNS[i] for i in (1, 2, 4, 6)]
    print("four of eight networks; set MSC_TEST_SLOW for the others")


def model(dp, tp, sizes, optimizer):
    n, h, c = sizes

    def cut(rows, columns):
        return f"{{in_strategy = [[{dp}, {rows}], [{rows}, {columns}]]}} " if tp > 1 else ""

    return f"""module {{
  "msc.func"() ({{
  ^bb0(%x: tensor<{BATCH}x{n}xf32>, %y: tensor<{BATCH}xi32>, %w1: tensor<{n}x{h}xf32>, %b1: tensor<{h}xf32>, %w2: tensor<{h}x{c}xf32>, %b2: tensor<{c}xf32>):
    %0 = "msc.matmul"(%x, %w1) {cut(1, tp)}: (tensor<{BATCH}x{n}xf32>, tensor<{n}x{h}xf32>) -> tensor<{BATCH}x{h}xf32> loc("dense1")
    %1 = "msc.add"(%0, %b1) : (tensor<{BATCH}x{h}xf32>, tensor<{h}xf32>) -> tensor<{BATCH}x{h}xf32>
    %2 = "msc.tanh"(%1) : (tensor<{BATCH}x{h}xf32>) -> tensor<{BATCH}x{h}xf32>
    %3 = "msc.matmul"(%2, %w2) {cut(tp, 1)}: (tensor<{BATCH}x{h}xf32>, tensor<{h}x{c}xf32>) -> tensor<{BATCH}x{c}xf32> loc("dense2")
    %4 = "msc.add"(%3, %b2) : (tensor<{BATCH}x{c}xf32>, tensor<{c}xf32>) -> tensor<{BATCH}x{c}xf32>
    %5 = "msc.softmax_cross_entropy"(%4, %y) : (tensor<{BATCH}x{c}xf32>, tensor<{BATCH}xi32>) -> tensor<f32>
    "msc.return"(%5) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
      {{msc.init = "normal:0.3", msc.name = "w1", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "b1", msc.role = "parameter"}},
      {{msc.init = "normal:0.3", msc.name = "w2", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "b2", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{{optimizer}}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def call(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def train(dp, tp, stage, *more, micro=1):
    """What compile says, the losses, the weights' bytes, bytes received per step."""
    keys = [
        f"device_num={dp * tp}", f"zero={stage}", f"micro_size={micro}",
        "mesh=" + json.dumps({"dp": dp, "tp": tp} if tp > 1 else {"dp": dp})
    ]
    keys.append("parallel_mode=" + ("semi_auto_parallel" if tp > 1 else "data_parallel"))
    if stage:
        keys.append('parallel_optimizer_config={"parallel_optimizer_threshold": 0}')
    said = json.loads(
        call([MSC, "compile", "m.mlir", "-o", "m.bin", "--json", *(word for key in keys for word in ("--set", key))]))
    out = call([
        MSC, "run", "m.bin", "-n",
        str(dp * tp), "--in-order", "--steps",
        str(STEPS), "--seed", "5", "--json", "--data", "x=x.npy", "y=y.npy", "--save", "w.safetensors", *more
    ])
    lines = [json.loads(line) for line in out.splitlines()]
    check_memory(said, lines[-1])
    with open("w.safetensors", "rb") as file:
        return said, [line["loss"] for line in lines if "loss" in line], file.read(), lines[-1]["comm_bytes_per_step"]


def check(what, ok):
    if not ok:
        sys.exit(what)


def check_formulas(name, stage, n, numbers, again, state, said, received):
    """Of replicas alone whose parts are equal.  Every number is received in (n-1)/n of its bytes as a gradient and
    as a new value, or with stage 3 for the forward pass, and `again` of them for the backward pass; beside that the
    loss, and sums of squares."""
    m, part = said["memory"], numbers * 4 // n
    rest = said["comm_bytes_per_rank"] - (2 * numbers + (again if stage == 3 else 0)) * 4 * (n - 1) // n
    check(f"{name}: {m['parameters']} bytes of parameters", m["parameters"] == (part if stage == 3 else 4 * numbers))
    check(f"{name}: {m['state']} bytes of state",
          m["state"] == state * (part if stage else 4 * numbers) + (4 if state == 2 else 0))
    check(f"{name}: memory {m} is not {said['memory_bytes_per_rank']}",
          sum(m.values()) == said["memory_bytes_per_rank"])
    check(f"{name}: {received} bytes received, not as compile says",
          received <= said["comm_bytes_per_rank"] <= received + 64)
    check(f"{name}: {rest} bytes more on the wire than the formula", 0 <= rest <= 128)


def data(n, classes):
    rng = random.Random(7)
    write_npy("x.npy", array("f", [rng.gauss(0, 1) for _ in range(BATCH * STEPS * n)]), [BATCH * STEPS, n])
    write_npy("y.npy", array("i", [rng.randrange(classes) for _ in range(BATCH * STEPS)]), [BATCH * STEPS])


def run(dp, tp, sizes, optimizer, state, even):
    name = f"{dp} x {tp} ranks, {optimizer.split(',')[0]}{', clipped' if 'clip' in optimizer else ''}"
    n, h, c = sizes
    data(n, c)
    with open("m.mlir", "w") as out:
        out.write(model(dp, tp, sizes, optimizer))
    first = train(dp, tp, 0)
    numbers = n * h + h + h * c + c
    for stage in (1, 2, 3):
        said, losses, weights, received = train(dp, tp, stage)
        check(f"{name}, zero {stage}: losses {losses}, with zero 0 {first[1]}", losses == first[1] and
              len(losses) == STEPS)
        check(f"{name}, zero {stage}: other weights than with zero 0", weights == first[2])
        if tp == 1 and even:
            check_formulas(f"{name}, zero {stage}", stage, dp, numbers, h * c, state, said, received)
    again = train(dp, tp, 1, "--init", "w.safetensors")[1]
    check(f"{name}: training goes on from what was saved with losses {again}, it began with {first[1]}", again[0]
          < first[1][0])
    print(f"{name}: {len(first[1])} losses and all weights as with zero 0")


def run_micro(dp, k):
    """k micro-batches: stage 1 adds up whole gradients and reduces them once; from stage 2 on each rank has a part
    of the sums, and the bits are those of another order of the sum, the same for both."""
    n, h, c = 48, 96, CLASSES
    numbers, said, bits = n * h + h + h * c + c, [], []
    with open("m.mlir", "w") as out:
        out.write(model(dp, 1, (n, h, c), ADAM + CLIPPED))
    for stage in range(4):
        report, losses, weights, received = train(dp, 1, stage, micro=k)
        said.append(report)
        bits.append((losses, weights))
        passes = k if stage >= 2 else 1
        moves = numbers * passes + (numbers if stage < 3 else (numbers + h * c) * k)  # gradients, new values or uses
        rest = report["comm_bytes_per_rank"] - moves * 4 * (dp - 1) // dp
        check(f"zero {stage} with {k} micro-batches: {rest} bytes more on the wire than the formula", 0 <= rest <= 256)
        sums = report["memory"]["sums"] - (numbers * 4 // dp if stage >= 2 else numbers * 4)
        check(f"zero {stage} with {k} micro-batches: sums take {sums} bytes more than the formula",
              sums == 4)  # the loss
    check(f"{k} micro-batches: zero 0 and 1 differ", bits[0] == bits[1])
    check(f"{k} micro-batches: zero 2 and 3 differ", bits[2] == bits[3])
    check(f"{k} micro-batches: losses {bits[0][0]} and {bits[2][0]}",
          all(abs(a - b) < 1e-5 * b for a, b in zip(bits[0][0], bits[2][0])))
    print(f"{dp} ranks, {k} micro-batches: memory and traffic of the formulas, stages agree")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for words in RUNS:
        run(*words)
    data(48, CLASSES)
    run_micro(3, 4)
