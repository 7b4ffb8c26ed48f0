#!/usr/bin/env python3
"""strips: short calls that threads run strip by strip give the bits of one thread, and of strips that run one after the
other, the last one first; a recurrent network is one chain forward, up to a step in which rows read their neighbours;
halves of a row that change places do not end it."""
import array
import os
import random
import re
import tempfile

from network import write_npy
from program import call, losses_and_weights

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, WIDTH, STEPS, MIXED, SAMPLES, TRAINED = 16, 64, 12, 7, 64, 4


def text_of(halves):
    """h = tanh(x u + h w) STEPS times; after MIXED of them each row gets the next one's h, the last the first one's; or
    instead the halves of h change places after each step."""
    x, w = f"tensor<{BATCH}x{WIDTH}xf32>", f"tensor<{WIDTH}x{WIDTH}xf32>"
    lines, h = [f'%p = "msc.matmul"(%x, %u) : ({x}, {w}) -> {x}'], "%p"
    for i in range(STEPS):
        if i == MIXED and not halves:
            head, rest = f"tensor<1x{WIDTH}xf32>", f"tensor<{BATCH - 1}x{WIDTH}xf32>"
            lines += [f'%first = "msc.slice"({h}) {{start = [0, 0], limit = [1, {WIDTH}]}} : ({x}) -> {head}',
                      f'%rest = "msc.slice"({h}) {{start = [1, 0], limit = [{BATCH}, {WIDTH}]}} : ({x}) -> {rest}',
                      f'%mixed = "msc.concat"(%rest, %first) {{dim = 0}} : ({rest}, {head}) -> {x}']
            h = "%mixed"
        lines += [f'%m{i} = "msc.matmul"({h}, %w) : ({x}, {w}) -> {x}',
                  f'%a{i} = "msc.add"(%m{i}, %p) : ({x}, {x}) -> {x}',
                  f'%h{i} = "msc.tanh"(%a{i}) : ({x}) -> {x}']
        h = f"%h{i}"
        if halves:
            m, half = WIDTH // 2, f"tensor<{BATCH}x{WIDTH // 2}xf32>"
            lines += [f'%l{i} = "msc.slice"({h}) {{start = [0, 0], limit = [{BATCH}, {m}]}} : ({x}) -> {half}',
                      f'%r{i} = "msc.slice"({h}) {{start = [0, {m}], limit = [{BATCH}, {WIDTH}]}} : ({x}) -> {half}',
                      f'%c{i} = "msc.concat"(%r{i}, %l{i}) {{dim = 1}} : ({half}, {half}) -> {x}']
            h = f"%c{i}"
    lines += [f'%loss = "msc.softmax_cross_entropy"({h}, %y) : ({x}, tensor<{BATCH}xi32>) -> tensor<f32>']
    parameter = '{{msc.name = "{0}", msc.role = "parameter", msc.init = "normal:0.15"}}'
    return "\n".join([
        "module {", '  "msc.func"() ({', f"  ^bb0(%x: {x}, %u: {w}, %w: {w}, %y: tensor<{BATCH}xi32>):",
        *("    " + line for line in lines), '    "msc.return"(%loss) : (tensor<f32>) -> ()',
        '  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],',
        '      optimizer = {kind = "momentum", lr = 0.05 : f32, momentum = 0.9 : f32},',
        f'      arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {parameter.format("u")}, {parameter.format("w")},',
        '                   {msc.name = "y", msc.role = "label"}]} : () -> ()', "}", ""])


def check_chains(halves):
    """The recurrence is one chain; the mixed rows begin anew."""
    train = re.search(r"section train.*?(?=^section|\Z)", call(MSC, "dump", "n.bin"), re.S | re.M).group(0)
    calls = re.findall(r"^ *\d+  (.*)$", train, re.M)
    longest, length = 0, 0
    for c in calls:
        length = length + 1 if "goes on in" in c else int("strips" in c)
        longest = max(longest, length)
    assert longest >= 2 * ((STEPS if halves else MIXED) - 1), (longest, train)
    if halves:
        return
    mixing = [c for c in calls if "concat" in c]
    assert mixing and not any("goes on in" in c for c in mixing[:1]), train


def train(rng, halves):
    with open("n.mlir", "w") as out:
        out.write(text_of(halves))
    write_npy("x.npy", array.array("f", [rng.gauss(0, 1) for _ in range(SAMPLES * WIDTH)]), [SAMPLES, WIDTH])
    write_npy("y.npy", array.array("i", [rng.randrange(WIDTH) for _ in range(SAMPLES)]), [SAMPLES])
    call(MSC, "compile", "n.mlir", "-o", "n.bin")
    check_chains(halves)
    wanted = None
    for threads, env in ((1, {}), (2, {}), (3, {}), (8, {}), (1, {"MSC_STRIPS_APART": "1"})):
        out = call(MSC, "run", "n.bin", "--threads", str(threads), "--steps", str(TRAINED), "--seed", "5", "--json",
                   "--save", "w.safetensors", "--eval", f"0:{BATCH}", "--data", "x=x.npy", "y=y.npy", env=env)
        got = losses_and_weights(out, TRAINED)
        wanted = wanted or got
        assert got == wanted, f"{threads} threads, {env}: other bits than one thread: {got[0]} and {wanted[0]}"


def main():
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for halves in (False, True):
            train(rng, halves)


main()
