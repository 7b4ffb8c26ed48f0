#!/usr/bin/env python3
"""attention: attention by blocks of scores, whose heads share keys and values, causal, with a mask or with dropout,
trained on 1 rank and on 2 and 4 that cut batch and heads, with one thread and with two: losses have the same bits.
With scores in memory they are nearly the same, and memory is more than twice as much."""
import array
import json
import os
import sys
import tempfile

import msc
from network import write_npy
from program import call, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, TOKENS, WIDTH, HEADS, GROUPS, STEPS = 4, 512, 32, 4, 2, 3
SAMPLES = BATCH * STEPS
RUNS = [(1, (1, 1)), (2, (2, 1)), (2, (1, 2)), (4, (2, 2))]  # ranks, parts of batch and groups


def heads(g, x, num, batch):
    return g.transpose(g.reshape(x, [batch, TOKENS, num, WIDTH // HEADS]), [0, 2, 1, 3])


def model(path, kind, cut):
    """cut: parts of the batch, and of the groups of heads."""
    g = msc.Graph("attention")
    x, y = g.input("x", "f32", [BATCH, TOKENS, WIDTH]), g.input("y", "f32", [BATCH, TOKENS, WIDTH], role="label")
    rows = g.reshape(x, [BATCH * TOKENS, WIDTH])
    d, t = cut

    def part(name, num):
        w = g.parameter(name, "f32", [WIDTH, num * (WIDTH // HEADS)], init="normal:0.3")
        return heads(g, g.matmul(rows, w, in_strategy=[[d, 1], [1, t]]), num, BATCH)

    q, k, v = part("q", HEADS), part("k", GROUPS), part("v", GROUPS)
    strategy = [[d, t, 1, 1]] * 3
    if kind == "dropped":
        keep = g.dropout(g.constant(1.0, shape=[BATCH, HEADS, TOKENS, TOKENS]), 0.2)
        a = g.dropped_attention(q, k, v, keep, causal=True, in_strategy=[*strategy, [d, t, 1, 1]])
    elif kind == "masked":
        mask = g.constant([-1e9 if i % 7 == 3 else i / TOKENS for i in range(TOKENS)], shape=[1, 1, 1, TOKENS])
        a = g.attention(q, k, v, mask=mask, in_strategy=[*strategy, [1, 1, 1, 1]])
    else:
        a = g.attention(q, k, v, causal=True, in_strategy=strategy)
    h = g.reshape(g.transpose(a, [0, 2, 1, 3]), [BATCH * TOKENS, WIDTH])
    h = g.matmul(h, g.parameter("out", "f32", [WIDTH, WIDTH], init="normal:0.3"), in_strategy=[[d, t], [t, 1]])
    e = g.sub(g.add(x, g.reshape(h, [BATCH, TOKENS, WIDTH])), y)
    g.loss(g.reduce_mean(g.mul(e, e), dims=[0, 1, 2]))
    g.optimizer("adamw", lr=0.01)
    g.save(path)


def losses_of(plan, ranks, data, *words):
    lines = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--steps", str(STEPS), "--data", *data,
                 *words).splitlines()
    losses = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
    check(len(losses) == STEPS, f"{plan}: {losses}")
    return losses


def check(ok, text):
    if not ok:
        sys.exit(f"attention: {text}")


def compiled(ranks, **keys):
    """Compiles model.fbs; returns whether attention is one call of the plan, and the bytes of a rank."""
    report = json.loads(call(MSC, "compile", "model.fbs", "-o", "plan.bin", "--json", *settings(
        {"device_num": ranks, "parallel_mode": "semi_auto_parallel" if ranks > 1 else "stand_alone", **keys})))
    return "attention_grad f32" in call(MSC, "dump", "plan.bin"), report["memory_bytes_per_rank"]


def main():
    data = []
    for name, seed in (("x", 7), ("y", 5)):
        write_npy(name + ".npy",
                  array.array("f", [((seed * i + i // 3) % 17 - 8) / 8 for i in range(SAMPLES * TOKENS * WIDTH)]),
                  [SAMPLES, TOKENS, WIDTH])
        data.append(f"{name}={name}.npy")
    for kind in ("causal", "masked", "dropped"):
        expected = least = None
        for ranks, cut in RUNS:
            model("model.fbs", kind, cut)
            whole, memory = compiled(ranks)
            check(whole, f"{kind}: the plan has no call for attention's gradient")
            least = memory if ranks == 1 else least
            for threads in (1, 2) if ranks == 1 else (1,):
                losses = losses_of("plan.bin", ranks, data, "--threads", str(threads))
                expected = expected or losses
                check(losses == expected, f"{kind}, {cut}, {threads} threads: {losses}, on one rank {expected}")
        model("model.fbs", kind, (1, 1))
        whole, memory = compiled(1, library_attention=False)
        check(not whole, f"{kind}: library_attention=false leaves attention one call")
        check(kind == "dropped" or 2 * least < memory, f"{kind}: {least} bytes, with scores in memory {memory}")
        losses = losses_of("plan.bin", 1, data)
        check(all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(losses, expected)),
              f"{kind}: {losses} with scores in memory, {expected} without")
        print(f"{kind}: the same losses on 1, 2 and 4 ranks; {least} bytes, with scores in memory {memory}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
