#!/usr/bin/env python3
"""Learning rates, and other numbers of optimizers, that change between steps: with the rates of the model the same bits
as a plan with fixed ones, with others those of a plan that was compiled with them, for every optimizer, on ranks and
stages; schedules of msc run."""
import json
import math
import os
import struct

from expect import Expect, write

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
KINDS = {
    "sgd": ", weight_decay = 1.0e-02 : f64",
    "momentum": ", momentum = 9.0e-01 : f64, nesterov = true",
    "adam": "",
    "adamw": ", weight_decay = 1.0e-01 : f64",
    "lamb": ""
}
MODEL = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32>, %y: tensor<8xi32>, %w: tensor<12x6xf32>, %v: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) {pipeline_stage = 0 : i64} : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32> loc("a")
    %1 = "msc.relu"(%0) {pipeline_stage = 0 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32> loc("b")
    %2 = "msc.matmul"(%1, %v) {pipeline_stage = 1 : i64} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32> loc("c")
    %3 = "msc.softmax_cross_entropy"(%2, %y) {pipeline_stage = 1 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32> loc("d")
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.3"},
                   {msc.name = "v", msc.role = "parameter", msc.init = "normal:0.3"}],
      optimizer = OPTIMIZER} : () -> ()
}
"""
PLAIN = MODEL.replace(" {pipeline_stage = 0 : i64}", "").replace(" {pipeline_stage = 1 : i64}", "")

# A table of which a step reads twelve rows, some of them twice.
TABLE = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%i: tensor<12xi32>, %t: tensor<10x4xf32>):
    %0 = "msc.gather"(%t, %i) : (tensor<10x4xf32>, tensor<12xi32>) -> tensor<12x4xf32> loc("rows")
    %1 = "msc.mul"(%0, %0) : (tensor<12x4xf32>, tensor<12x4xf32>) -> tensor<12x4xf32> loc("squares")
    %2 = "msc.reduce_mean"(%1) {dims = [0, 1]} : (tensor<12x4xf32>) -> tensor<f32> loc("mean")
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "i", msc.role = "data"},
                   {msc.name = "t", msc.role = "parameter", msc.init = "normal:0.3"}],
      optimizer = OPTIMIZER} : () -> ()
}
"""
TABLE_ROWS = TABLE.replace('(%t, %i) :', '(%t, %i) {in_strategy = [[2, 1], [1]]} :')


def group(kind, lr, more="", names=None):
    of = "" if names is None else f', parameters = ["{names}"]'
    return f'{{kind = "{kind}", lr = {lr!r} : f64{more}{of}}}'


def compiled(path, optimizer, *keys, model=PLAIN):
    write("net.mlir", model.replace("OPTIMIZER", optimizer))
    expect(["compile", "net.mlir", "-o", path, *(w for k in keys for w in ("--set", k))], 0, None)


def losses(path, *options):
    out = expect([
        "run", path, "--trust-native", "--data", "x=x.idx", "y=y.idx", "--steps", "6", "--seed", "3", "--json", *options
    ], 0, "").stdout.decode()
    return [line["loss"] for line in map(json.loads, out.splitlines()) if "step" in line]


with open("x.idx", "wb") as out:
    out.write(struct.pack(">BBBBII", 0, 0, 8, 2, 40, 12) + bytes(i * 37 % 256 for i in range(480)))
with open("y.idx", "wb") as out:
    out.write(struct.pack(">BBBBI", 0, 0, 8, 1, 40) + bytes(i * 7 % 4 for i in range(40)))

# The rates of the model, and others.
for kind, more in KINDS.items():
    compiled("fixed.bin", group(kind, 0.03, more))
    compiled("variable.bin", group(kind, 0.03, more), "variable_lr=true")
    fixed = losses("fixed.bin")
    expect.check(f"{kind}: nothing set {fixed}", losses("variable.bin") == fixed and len(set(fixed)) == 6)
    expect.check(f"{kind}: set to the same", losses("variable.bin", "--lr-schedule", "constant") == fixed)
    compiled("half.bin", group(kind, 0.015, more))
    half = losses("variable.bin", "--lr-schedule", "step:every=1000,factor=1,warmup=0")
    expect.check(f"{kind}: factor 1", half == fixed)
    half = losses("variable.bin", "--lr-schedule", "linear:warmup=2000")  # (step + 1) / 2000
    compiled("least.bin", group(kind, 0.03 / 2000, more))
    expect.check(f"{kind}: the first step at 1/2000: {half}", half[:2] == losses("least.bin")[:2] and half != fixed)

# On ranks and stages the same factors.
SCHEDULE = ("--lr-schedule", "cosine:warmup=2,min=0.1")
one = losses("variable.bin", *SCHEDULE)
for keys, model in ((("device_num=4", "parallel_mode=auto_parallel"),
                     PLAIN), (("device_num=2", "parallel_mode=data_parallel", "gradients_mean=true", "zero=1"), PLAIN),
                    (("device_num=2", "parallel_mode=semi_auto_parallel", "pipeline_stages=2"), MODEL)):
    compiled("ranks.bin", group("lamb", 0.03), "variable_lr=true", *keys, model=model)
    many = losses("ranks.bin", *SCHEDULE)
    expect.check(f"{keys}: {many} {one}", max(abs(a - b) / b for a, b in zip(many, one)) < 1e-5)
compiled("cuda.bin", group("adamw", 0.03), "variable_lr=true")
expect("compile net.mlir -o cuda.bin --target cuda --set variable_lr=true", 0, None)

# Groups have rates of their own, and the loss scale its say.
groups = f"[{group('sgd', 0.5, names='w')}, {group('sgd', 0.25, names='v')}]"
compiled("groups.bin", groups)
compiled("variable.bin", groups, "variable_lr=true")
expect.check("groups", losses("groups.bin") == losses("variable.bin", "--lr-schedule", "constant"))
compiled("scaled.bin", group("adam", 0.01), "loss_scale=dynamic")
compiled("variable.bin", group("adam", 0.01), "loss_scale=dynamic", "variable_lr=true")
expect.check("with a loss scale", losses("scaled.bin") == losses("variable.bin"))

try:
    import msc
except ImportError as e:
    print(f"skipped: jobs in Python: {e}; run tools/setup")
else:
    from expect import MSC, SANITIZED
    if SANITIZED:
        print("skipped: a library with sanitizers cannot be loaded into Python")
    else:
        compiled("groups.bin", groups, "variable_lr=true")
        factors = [(s + 1) / 2 if s < 2 else 0.1 + 0.9 * (1 + math.cos(math.pi * (s - 2) / 4)) / 2 for s in range(6)]
        plan = msc.Plan.load("groups.bin", libraries=os.path.dirname(MSC))
        expect.check("scalars", plan.scalars == {"optimizer.lr": 0.5, "optimizer.lr.1": 0.25})
        data = open("x.idx", "rb").read()[-480:]
        xs, ys = [b / 255 for b in data], list(open("y.idx", "rb").read()[-40:])
        told = losses("groups.bin", "--in-order", "--train", "0:40", "--lr-schedule", "cosine:warmup=2,min=0.1")
        with plan.run(seed=3) as job:
            got = []
            for s, factor in enumerate(factors):
                for name, initial in plan.scalars.items():
                    job.set(name, initial * factor)
                b = s % 5
                got.append(job.step(x=xs[96 * b:96 * b + 96], y=ys[8 * b:8 * b + 8]))
            expect.check(f"schedules are what they say {got} {told}", max(abs(a - b) for a, b in zip(got, told)) < 1e-6)
            job.lr = 0.125
            expect.check("lr", job.lr == 0.125 and job.read("optimizer.lr.1").item() == 0.125)
            try:
                job.set("w", 1)
                expect.check("no error", False)
            except msc.RunError as e:
                expect.check(str(e), "'w' that can be changed, only optimizer.lr, optimizer.lr.1; " in str(e))
        g = msc.Graph()
        x, y = g.input("x", "f32", [4, 4]), g.input("y", "i32", [4], role="label")
        g.loss(g.softmax_cross_entropy(g.dense(x, 4, name="d"), y))
        g.optimizer("sgd", lr=0.5)
        for varies in (True, False):
            with msc.compile(g, variable_lr=varies, libraries=os.path.dirname(MSC)).run() as job:
                try:
                    job.lr = 0.25
                    expect.check("changed", varies and job.lr == 0.25)
                except msc.RunError as e:
                    expect.check(f"fixed: {e}", not varies and
                                 "no number 'optimizer.lr' that can be changed; the keys variable_lr and" in str(e))

        # Other numbers of an optimizer: what is set is as what was compiled, from the first step on and between steps.
        HYPERS = {
            "sgd": {"weight_decay": 0.1},
            "momentum": {"momentum": 0.7, "dampening": 0.25, "weight_decay": 0.05},
            "adagrad": {"eps": 1e-2, "weight_decay": 0.1},
            "rmsprop": {"alpha": 0.8, "eps": 1e-3, "weight_decay": 0.1},
            "rmsprop_momentum": {"momentum": 0.6, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.1},
            "adam": {"beta1": 0.7, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1},
            "adamw": {"beta1": 0.7, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1},
            "lamb": {"beta1": 0.7, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1}
        }

        def steps_of(path, first=None, later=None):
            plan = msc.Plan.load(path, libraries=os.path.dirname(MSC))
            with plan.run(seed=3) as job:
                told = []
                for s in range(6):
                    b = s % 5
                    batch = {"x": xs[96 * b:96 * b + 96], "y": ys[8 * b:8 * b + 8], "i": rows[12 * b:12 * b + 12]}
                    batch = {name: v for name, v in batch.items() if name in plan.inputs}
                    told.append(job.step(**batch, **((first or {}) if s == 0 else (later or {}) if s == 3 else {})))
                return told

        start = open("x.idx", "rb").read()[-480:]
        xs, ys = [b / 255 for b in start], list(open("y.idx", "rb").read()[-40:])
        rows = [i * i % 10 for i in range(60)]
        RANKS = [(PLAIN, ()), (PLAIN, ("device_num=4", "parallel_mode=auto_parallel")),
                 (PLAIN, ("device_num=2", "parallel_mode=data_parallel", "gradients_mean=true", "zero=1")),
                 (MODEL, ("device_num=2", "parallel_mode=semi_auto_parallel", "pipeline_stages=2"))]
        TABLE_RANKS = [(TABLE, ()), (TABLE, ("device_num=4", "parallel_mode=auto_parallel")),
                       (TABLE_ROWS, ("device_num=2", "parallel_mode=semi_auto_parallel")),
                       (TABLE, ("device_num=2", "parallel_mode=data_parallel", "gradients_mean=true")),
                       (TABLE, ("micro_size=2", ))]
        CASES = [(kind, hypers, "", PLAIN, RANKS[:None if kind in ("momentum", "adam", "lamb") else 1])
                 for kind, hypers in HYPERS.items()]
        CASES += [(kind, HYPERS[kind], ", lazy = true", TABLE, TABLE_RANKS[:None if kind == "adam" else 3])
                  for kind in ("sgd", "momentum", "adagrad", "adam")]
        for kind, hypers, lazy, whole, ranks in CASES:
            needed = lazy + (", momentum = 9.0e-01 : f64" if "momentum" in hypers else "")
            words = "".join(f", {name} = {value!r} : f64" for name, value in hypers.items())
            compiled("other.bin", group(kind, 0.06, lazy + words), model=whole)
            compiled("first.bin", group(kind, 0.03, needed), model=whole)
            want, first = steps_of("other.bin"), steps_of("first.bin")
            for model, keys in ranks:
                compiled("hypers.bin", group(kind, 0.03, needed), "variable_hypers=true", *keys, model=model)
                got, same = steps_of("hypers.bin", first={**hypers, "lr": 0.06}), steps_of("hypers.bin")
                changed = steps_of("hypers.bin", later={**hypers, "lr": 0.06})
                expect.check(f"{kind}{lazy} {keys} set: {got} {want}",
                             max(abs(a - b) for a, b in zip(got, want)) < 2e-6)
                expect.check(f"{kind}{lazy} {keys} not set: {same} {first}",
                             max(abs(a - b) for a, b in zip(same, first)) < 2e-6)
                expect.check(f"{kind}{lazy} {keys} set later: {changed} {first}",
                             max(abs(a - b) for a, b in zip(changed[:4], first)) < 2e-6 and changed[4:] != first[4:])
        try:
            with msc.Plan.load("first.bin", libraries=os.path.dirname(MSC)).run() as job:
                job.set("optimizer.beta1", 0.5)
            expect.check("no error", False)
        except msc.RunError as e:
            expect.check(str(e), "'optimizer.beta1' that can be changed, only optimizer.step; the keys " in str(e))
for kind, words, model in (("adamw", "", PLAIN), ("lamb", "", PLAIN), ("adam", ", lazy = true", TABLE)):
    compiled("cuda.bin", group(kind, 0.03, words), "variable_hypers=true", model=model)
    expect("compile net.mlir -o cuda.bin --target cuda --set variable_hypers=true", 0, None)

# Programs set the rate by its name, which no parameter may have then.
write("named.mlir", PLAIN.replace("OPTIMIZER", group("sgd", 0.1)).replace('msc.name = "w"',
    'msc.name = "optimizer.lr"'))
expect("compile named.mlir -o named.bin", 0, None)
expect("compile named.mlir -o named.bin --set variable_lr=true", 1, lambda text: ""
       if "'optimizer.lr' is the name of the learning rate, with variable_lr: give the parameter another" in text
       else text)

write("named.mlir", PLAIN.replace("OPTIMIZER", group("momentum", 0.1, ", momentum = 9.0e-01 : f64")).replace(
    'msc.name = "w"', 'msc.name = "optimizer.momentum"'))
expect("compile named.mlir -o named.bin --set variable_hypers=true", 1, lambda text: ""
       if "'optimizer.momentum' is the name of a number of the optimizer, with variable_hypers: give" in text
       else text)
# What is no schedule.
RUN = "run variable.bin --trust-native --data x=x.idx y=y.idx --steps 1 --lr-schedule"
form = "; write it as constant, cosine:warmup=100,min=0.1, linear or step:every=1000,factor=0.5 [E0114]\n"
for text, why in (("sine", "there is no such schedule"), ("", "there is no such schedule"),
                  ("cosine:every=3", "a part of it is no NAME=NUMBER of this schedule"),
                  ("cosine:", "a part of it is no NAME=NUMBER of this schedule"),
                  ("cosine:warmup", "a part of it is no NAME=NUMBER of this schedule"),
                  ("cosine:warmup=x", "a value is no number from 0 on"), ("linear:min=-1",
                                                                          "a value is no number from 0 on"),
                  ("step", "every=N is wanted, at least 1"), ("step:factor=2", "every=N is wanted, at least 1")):
    expect(RUN.split() + [text], 1, f"msc: error: --lr-schedule: '{text}': {why}{form}")
expect(
    "run fixed.bin --trust-native --data x=x.idx y=y.idx --steps 1 --lr-schedule linear", 1, lambda text: ""
    if "the learning rate of this plan is fixed: compile with --set variable_lr=true" in text else text)
expect.done()
