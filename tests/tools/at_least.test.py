#!/usr/bin/env python3
"""at_least_ms of msc compile: no plan of the network on so many devices, by whatever mode or mesh, is predicted to take
less or has a smaller figure of the search's; compared_at_least_ms: none of the strategies compared has a smaller
figure."""
import json
import os
import subprocess
import sys

from expect import MSC, Expect


expect = Expect()
SLOW = bool(os.environ.get("MSC_TEST_SLOW"))
LAYERS = "--layers 2 --hidden 64 --heads 4 --seq 16 --vocab 128"
MODELS = {"ffn": "", "mlp": "", "resnet18": "--image 32 --width 8", "gpt": LAYERS, "bert": LAYERS, "llama": LAYERS,
          "wide_deep": "", "moe": LAYERS}
QUICK = {"ffn": (2, 6), "gpt": (4,)}
DEVICES = (2, 3, 4, 6, 8, 12)
OTHERS = ("parallel_mode=data_parallel",), ("parallel_mode=auto_parallel", "search_mode=sharding_propagation"), (
    "parallel_mode=auto_parallel", "search_mode=recursive_programming")
RANDOM = os.path.join(os.path.dirname(MSC), "tests/passes/random_graphs")
EPS = 1e-6  # figures are printed with six digits


def compiled(network, *settings):
    """(report, explanation), or None where that is refused."""
    run = subprocess.run([MSC, "compile", network, "-o", "a.plan",
                          "--json", *(x for s in settings for x in ("--set", s))], capture_output=True, text=True)
    if run.returncode:
        return None
    told = subprocess.run([MSC, "explain", "a.plan", "--json"], capture_output=True, text=True)
    return json.loads(run.stdout), json.loads(told.stdout) if told.returncode == 0 else {}


def given_meshes(devices):
    pairs = [(a, devices // a) for a in range(2, devices) if devices % a == 0]
    return [("parallel_mode=auto_parallel", "mesh=" + json.dumps(dict(zip("ab", shape))))
            for shape in [(devices,), *pairs]]


def bounded(network, devices, free=True):
    """How many plans there were.  Not free: it has strategies of the user's, which mean something else on another
    mesh."""
    count = f"device_num={devices}"
    found = compiled(network, count, "parallel_mode=auto_parallel", "search_mode=dynamic_programming")
    if not found:
        return 0
    report, explained = found
    least, compared, step = (report["search"][k] for k in ("at_least_ms", "compared_at_least_ms", "step_ms"))
    what = f"{network} on {devices}"
    expect.check(f"{what}: {report['search']}", least <= compared + EPS and compared <= step + EPS
                 and least <= report["predicted_step_ms"] + EPS)
    every = explained["search"]["compared"] == "all"
    num = 1
    for settings in (*OTHERS, *given_meshes(devices)):
        other = compiled(network, count, *settings)
        if not other:
            continue
        num += 1
        figure = other[1].get("figures", {}).get("step_ns", 0) / 1e6 or float("inf")
        searched = other[0].get("search", {}).get("step_ms", float("inf"))
        shown = (f"{what} with {settings}: predicted {other[0]['predicted_step_ms']}, figure {figure}, "
                         f"searched {searched} ms; {report['search']}")
        expect.check(shown, other[0]["predicted_step_ms"] >= least - EPS and figure >= least - EPS)
        if not free and "mesh=" in settings[-1]:
            continue
        expect.check(f"{shown}: the exact search finds what others find", step <= searched + EPS)
        if not free and "search_mode=recursive_programming" not in settings:
            continue
        expect.check(f"{shown}: of all strategies", not every or figure >= compared - EPS)
    return num


def priced_alike(network, devices):
    """What the fast mode reports of its strategy, the exact search reports of it where it is given.  How many plans."""
    count = ("--set", f"device_num={devices}", "--set", "parallel_mode=auto_parallel")
    file = "kept.json"
    if os.path.exists(file):
        os.remove(file)
    steps = []
    for mode, key in ("sharding_propagation", "save"), ("dynamic_programming", "load"):
        words = (*count, "--set", f"search_mode={mode}", "--set", f"strategy_ckpt_{key}_file={file}")
        run = subprocess.run([MSC, "compile", network, "-o", "a.plan", "--json", *words],
                             capture_output=True, text=True)
        if run.returncode:
            return 0
        steps.append(json.loads(run.stdout)["search"]["step_ms"])
    expect.check(f"{network} on {devices}: one strategy, several prices {steps}", max(steps) - min(steps) < EPS)
    return 1


plans = priced = 0
for model, flags in MODELS.items():
    if SLOW or model in QUICK:
        subprocess.run([sys.executable, "-m", "msc.models", model, "-o", f"{model}.fbs", "--batch", "12",
                        *flags.split()], check=True)
    for devices in DEVICES if SLOW else QUICK.get(model, ()):
        plans += bounded(f"{model}.fbs", devices)
        priced += priced_alike(f"{model}.fbs", devices)
# A strategy tuple of the user's holds in the search digit by digit, too.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "given.fbs", "--batch", "12",
                "--strategy", "dense1=((2,2),(2,2))"], check=True)
plans += bounded("given.fbs", 8, free=False)
expect.check(f"{priced} plans are priced by several searches", priced > (30 if SLOW else 2))
expect.check(f"{plans} plans", plans > (8 * len(DEVICES) * 4 if SLOW else 12))
if SLOW and os.path.exists(RANDOM):
    compared = 0
    for seed in range(1, 201):
        text = subprocess.run([RANDOM], capture_output=True, text=True, check=True,
                              env={**os.environ, "RANDOM_PROGRAM": str(seed)}).stdout
        with open("random.mlir", "w") as out:
            out.write(text.split("\n", 1)[1])
        compared += bounded("random.mlir", DEVICES[seed % len(DEVICES)], "in_strategy" not in text
                            and "in_layout" not in text)
    expect.check(f"{compared} plans of random graphs", compared > 200)
expect.done()
