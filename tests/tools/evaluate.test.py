#!/usr/bin/env python3
"""Evaluations of any number of samples, by `msc run --eval` and Job.evaluate, on one rank and several: the loss and
accuracy of all samples together, computed here in f64, whatever the last batch lacks; losses of which only whole
batches can be told."""
import array
import json
import math
import os
import random

from expect import MSC, Expect, need_library
from network import write_npy
from small_models import write_idx

need_library()

import msc  # noqa: E402

BUILD = os.path.dirname(MSC)
expect = Expect()
BATCH, WIDTH, CLASSES, SAMPLES, IGNORED = 8, 6, 4, 29, 3

random.seed(7)
pixels = [[random.randrange(256) for _ in range(WIDTH)] for _ in range(SAMPLES)]
classes = [random.randrange(CLASSES) for _ in range(SAMPLES)]
classes[16:24] = [IGNORED] * 8  # a batch without any row that is kept
shares = [random.randrange(1, 200) for _ in range(SAMPLES)]
write_idx("x.idx", [SAMPLES, WIDTH], sum(pixels, []))
write_idx("y.idx", [SAMPLES], classes)
write_idx("s.idx", [SAMPLES], shares)
xs, ss = [[p / 255 for p in row] for row in pixels], [s / 255 for s in shares]


def mean(g, logits, y, s, w):
    return g.softmax_cross_entropy(logits, y)


def total(g, logits, y, s, w):
    return g.reduce_sum(g.softmax_cross_entropy(logits, y, reduction="none") * s, [0]) * 0.25


def regular(g, logits, y, s, w):
    return g.softmax_cross_entropy(logits, y) + g.reduce_sum(w * w, [0, 1]) * 0.1


def kept(g, logits, y, s, w):
    return g.softmax_cross_entropy(logits, y, ignore_index=IGNORED) + g.reduce_sum(w * w, [0, 1])


def weighted(g, logits, y, s, w):
    return g.reduce_sum(g.softmax_cross_entropy(logits, y, reduction="none") * s, [0]) / g.reduce_sum(s, [0])


def pairs(g, logits, y, s, w):
    return g.reduce_mean(g.matmul(logits, g.transpose(logits, perm=[1, 0])), [0, 1])


def noisy(g, logits, y, s, w):
    return g.reduce_mean(logits * g.uniform(logits), [0, 1])


# By loss: the terms and weight of one sample, of which the loss of many is (sum of terms) / (sum of weights); what is
# added to it; and what multiplies it, where a loss is not of one sample but of as many as a batch has.
CASES = {
    mean: (lambda e, y, s: (e, 1), lambda norm: 0, 1),
    total: (lambda e, y, s: (e * s / 4, 1), lambda norm: 0, BATCH),
    regular: (lambda e, y, s: (e, 1), lambda norm: 0.1 * norm, 1),
    kept: (lambda e, y, s: (e * (y != IGNORED), y != IGNORED), lambda norm: norm, 1),
    weighted: (lambda e, y, s: (e * s, s), lambda norm: 0, 1)
}
WHOLE_ONLY = (pairs, noisy)
PLANS = ({}, {"device_num": 2, "parallel_mode": "data_parallel"}, {"device_num": 4, "parallel_mode": "auto_parallel"},
         {"micro_size": 2}, {"device_num": 2, "parallel_mode": "semi_auto_parallel", "pipeline_stages": 2,
                             "micro_size": 2})


def network(loss, batch=BATCH):
    g = msc.Graph("net")
    x, y = g.input("x", "f32", [batch, WIDTH]), g.input("y", "i32", [batch], role="label")
    s = g.input("s", "f32", [batch])
    w = g.parameter("w", "f32", [WIDTH, CLASSES], init="normal:0.5")
    logits = g.matmul(x, w)
    g.output("logits", logits)
    g.loss(loss(g, logits, y, s, w))
    g.optimizer("sgd", lr=0.0)
    return g


def wanted(loss, w, begin, end):
    """The loss of samples [begin, end), and their accuracy."""
    terms, constant, factor = CASES[loss]
    above = below = right = 0
    for i in range(begin, end):
        z = [sum(a * w[k][c] for k, a in enumerate(xs[i])) for c in range(CLASSES)]
        e = math.log(sum(map(math.exp, z))) - z[classes[i]]
        term, weight = terms(e, classes[i], ss[i])
        above, below = above + term, below + weight
        right += max(range(CLASSES), key=lambda c: z[c]) == classes[i]
    norm = sum(v * v for row in w for v in row)
    return (above / below * factor + constant(norm) if below else math.nan), right / (end - begin)


def evaluation(begin, end, *more):
    done = expect(f"run plan.bin --trust-native --data x=x.idx y=y.idx s=s.idx --seed 3 --steps 1 --json --eval "
                  f"{begin}:{end}", 0, None)
    told = next(line["eval"] for line in map(json.loads, done.stdout.decode().splitlines()) if "eval" in line)
    return told, done.stderr.decode()


def given(begin, end):
    return {
        "x": array.array("f", sum(xs[begin:end], [])),
        "y": array.array("i", classes[begin:end]),
        "s": array.array("f", ss[begin:end])
    }


def near(a, b):
    return (a is None or math.isnan(a)) if math.isnan(b) else a is not None and abs(a - b) <= 2e-5 * abs(b) + 1e-6


for loss in CASES:
    for keys in PLANS:
        if loss in (total, regular) and len(keys) > 1 and keys != PLANS[1]:
            continue
        plan = msc.compile(network(loss), libraries=BUILD, **keys)
        plan.save("plan.bin")
        what = f"{loss.__name__} {keys}"
        of_batch = plan.inputs["x"].shape[0]
        factor = of_batch / BATCH if loss is total and not keys.get("parallel_mode") == "data_parallel" else 1
        factor = 0.5 if loss is total and keys == PLANS[1] else factor  # told as the mean of what replicas have
        expect.check(f"{what}: adds up", plan.loss_adds_up)
        with plan.run(seed=3) as job:
            w = job.read("w").tolist()
            for begin, end in ((0, SAMPLES), (0, BATCH), (3, 27), (11, 16), (28, 29), (16, 24)):
                want, right = wanted(loss, w, begin, end)
                got = job.evaluate(**given(begin, end))
                expect.check(f"{what} {begin}:{end} in Python: {got}, not {want * factor}", near(got, want * factor))
                if (begin, end) not in ((0, SAMPLES), (11, 16)):
                    continue
                told, said = evaluation(begin, end)
                expect.check(f"{what} {begin}:{end} {told} not {want * factor} {right} {said}",
                             near(told["loss"], want * factor) and told["samples"] == end - begin and not said
                             and abs(told.get("accuracy", -1) - right) < 1e-6)

for loss in WHOLE_ONLY:
    plan = msc.compile(network(loss), libraries=BUILD)
    plan.save("plan.bin")
    expect.check(f"{loss.__name__} does not add up", not plan.loss_adds_up)
    told, said = evaluation(0, SAMPLES)
    expect.check(f"{loss.__name__} {told} {said}", told["samples"] == 24
                 and "5 samples of the evaluation range are left out: they fill no batch of 8, and the loss is no mean "
                 "of what each sample has alone" in said)
    expect("run plan.bin --trust-native --data x=x.idx y=y.idx s=s.idx --steps 1 --eval 0:5", 1, lambda text: ""
           if "has 5 samples, fewer than one batch of 8" in text else text)
    with plan.run(seed=3) as job:
        job.evaluate(**given(0, 16))
        try:
            job.evaluate(**given(0, 13))
            expect.check("no error", False)
        except msc.Error as e:
            expect.check(str(e), str(e).startswith("13 samples fill no batches of 8, and the loss is no mean of what"))

# The last sample of a short batch, of which it has copies, is infinite: so is the loss of all.
plan = msc.compile(network(total), libraries=BUILD)
plan.save("plan.bin")
write_npy("inf.npy", array.array("f", ss[:-1] + [math.inf]), [SAMPLES])
with plan.run(seed=3) as job:
    for begin, end in ((0, SAMPLES), (26, 29), (28, 29)):
        samples = given(begin, end)
        samples["s"][-1] = math.inf
        loss = job.evaluate(**samples)
        expect.check(f"infinite {begin}:{end}: {loss}", loss == math.inf)
        expect(f"run plan.bin --trust-native --data x=x.idx y=y.idx s=inf.npy --train 0:8 --eval {begin}:{end}", 0,
               None, lambda text: "" if "evaluation: loss inf," in text else text)

# All inputs are given, and equally many samples of each.
with msc.compile(network(mean), libraries=BUILD).run(seed=3) as job:
    for inputs, text in (({"x": given(0, 11)["x"]}, "11 samples are given where a batch has 8: give as many of y, s"),
                         ({**given(0, 11), "y": given(0, 12)["y"]},
                          "inputs have different numbers of samples: 11 and 12"),
                         ({**given(0, 0)}, "the inputs have no samples")):
        try:
            job.evaluate(**inputs)
            expect.check("no error", False)
        except msc.Error as e:
            expect.check(str(e), str(e) == text)
expect.done()
