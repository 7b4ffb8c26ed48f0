#!/usr/bin/env python3
"""offload: a small GPT whose parameters, optimizer state or values of a step live in host memory or on disk: the
losses, the evaluation and the weights of one that has them on the device, bit for bit, with 1 and 4 ranks, the parallel
optimizer and a pipeline; less of an arena; a resumed run goes on with the same bits; what is wrong is named and leaves
nothing."""
import array
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile

from network import write_npy
from program import attempt, call, check_memory, finish, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 6, 8, 8, 64, 48
ON_DISK = {"offload_path": "."}
HOMES = [
    {"offload": {"optimizer": "cpu"}},
    {"offload": {"param": "cpu", "optimizer": "cpu"}},
    {"offload": {"param": "disk", "optimizer": "disk"}, **ON_DISK, "host_mem_block_size": 4096},
    {"offload": {"param": "cpu", "optimizer": "disk"}, **ON_DISK},
]
SEMI = {"parallel_mode": "semi_auto_parallel"}
CUT = {"parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
# ranks, keys
JOBS = [
    (1, {}),
    (4, {**SEMI, "mesh": {"dp": 4}}),
    (4, {**SEMI, "mesh": {"dp": 4}, "zero": 1, **CUT}),
    (4, {**SEMI, "mesh": {"dp": 4}, "zero": 3, **CUT}),
    (2, {**SEMI, "pipeline_stages": 2, "micro_size": 2}),
    (1, {"micro_size": 2}),
]


def make_gpt(out, layers, vocab, hidden=64):
    call(sys.executable, "-m", "msc.models", "gpt", "--layers", str(layers), "--hidden", str(hidden), "--heads", "2",
         "--seq", str(SEQ), "--batch", str(BATCH), "--vocab", str(vocab), "--dropout", "0.1", "--optimizer", "adam",
         "--lr", "0.01", "-o", out)


def write_model():
    rng = random.Random(3)
    tokens = [rng.randrange(VOCAB) for _ in range(SAMPLES * SEQ)]
    write_npy("x.npy", array.array("i", tokens), [SAMPLES, SEQ])
    write_npy("y.npy", array.array("i", [(t * 5 + 1) % VOCAB for t in tokens]), [SAMPLES, SEQ])
    make_gpt("gpt.fbs", 4, VOCAB)


def compiled(ranks, keys, model="gpt.fbs"):
    return json.loads(call(MSC, "compile", model, "-o", "plan.bin", "--json",
                           *settings({"device_num": ranks, **keys})))


def run(ranks, *words, steps=STEPS):
    out = call(MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "1", "--steps", str(steps), "--seed", "5",
               "--json", "--data", "x=x.npy", "y=y.npy", *words)
    return [json.loads(line) for line in out.splitlines()]


def train(ranks, keys, model="gpt.fbs"):
    report = compiled(ranks, keys, model)
    lines = run(ranks, "--save", "w.safetensors", "--train", f"0:{SAMPLES}", "--eval", f"0:{BATCH}")
    check_memory(report, lines[-1])
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return report, lines[-1], ([line["loss"] for line in lines if "loss" in line],
                               [line["eval"]["loss"] for line in lines if "eval" in line], weights)


def check_same_bits(ranks, keys):
    before, _, want = train(ranks, keys)
    assert want[0][-1] < want[0][0], want[0]
    for home in HOMES:
        report, totals, have = train(ranks, {**keys, **home})
        assert have[0] == want[0], f"{ranks} ranks, {keys}, {home}: losses {have[0]}, not {want[0]}"
        assert have == want, f"{ranks} ranks, {keys}, {home}: other weights or evaluation"
        away = report["offload"]
        assert (away["host"] > 0) == ("cpu" in home["offload"].values()), (home, away)
        assert (away["disk"] > 0) == ("disk" in home["offload"].values()), (home, away)
        assert totals["host_bytes"] + totals["disk_bytes"] > 0, totals
        for kind, where in (("param", "parameters"), ("optimizer", "state")):
            kept, all_of_them = report["memory"][where], before["memory"][where]
            if kind in home["offload"]:
                assert kept < all_of_them / 4, f"{keys}, {home}: {kept} of {all_of_them} bytes of {where} stay"
    left = [f for f in os.listdir(".") if "offload" in f]
    assert not left, left


def check_values():
    """Values that the backward needs of the forward wait off the device; with all else away little is left there."""
    for keys in ({}, {"micro_size": 2}, {**SEMI, "mesh": {"dp": 4}, "zero": 3, **CUT}):
        ranks = 4 if "mesh" in keys else 1
        before, _, want = train(ranks, keys)
        for home in ({"activation": "cpu"}, {"activation": "disk"},
                     {"param": "cpu", "optimizer": "disk", "activation": "cpu"}):
            report, _, have = train(ranks, {**keys, "offload": home, **(ON_DISK if "disk" in home.values() else {})})
            assert have == want, (keys, home, have[0], want[0])
            scratch, all_of_it = report["memory"]["scratch"], before["memory"]["scratch"]
            if home["activation"] == "cpu" and ranks == 1:
                assert scratch < all_of_it * 0.8, f"{keys}, {home}: {scratch} of {all_of_it} bytes"


def check_limit():
    """With all away a GPT takes a quarter of what its parameters and state do, and trains in a fifth less with the same
    bits: what does not fit beside the rest is fetched later, and has been taken back sooner."""
    before, _, want = train(1, {})
    quarter = (before["memory"]["parameters"] + before["memory"]["state"]) // 4
    for home in ("cpu", "disk"):
        away = {"offload": dict.fromkeys(("param", "optimizer", "activation"), home)}
        if home == "disk":
            away.update(ON_DISK)
        free = compiled(1, away)["memory_bytes_per_rank"]
        report, _, have = train(1, {**away, "memory_limit": free * 4 // 5})
        assert report["memory_bytes_per_rank"] <= free * 4 // 5, (home, report["memory"], free)
        assert have == want, (home, have[0], want[0])
        assert home == "disk" or free <= quarter, (free, quarter)


def check_resident():
    """What a process has beside its pools is no more with values elsewhere: no copies of them are kept."""
    make_gpt("wide.fbs", 1, 32768)  # tables of 8 MiB
    beside = []
    for home in ({}, HOMES[1], {"offload": HOMES[2]["offload"], **ON_DISK}):
        compiled(1, home, "wide.fbs")
        totals = run(1)[-1]
        pools = totals["planned_bytes"] + totals["host_bytes"]
        beside.append(totals["rss_bytes"] - pools)
        assert beside[-1] <= beside[0] + 0.05 * pools, (home, beside, pools, totals)


def check_resumed():
    for home in HOMES[1:3]:
        compiled(2, {**SEMI, "mesh": {"dp": 2}, "zero": 1, **CUT, **home})
        whole = [line["loss"] for line in run(2) if "loss" in line]
        first = [line["loss"] for line in run(2, "--ckpt-dir", "c", steps=3) if "loss" in line]
        then = [line["loss"] for line in run(2, "--ckpt-dir", "c", "--resume") if "loss" in line]
        assert first + then == whole, (home, first, then, whole)
        call("rm", "-r", "c")


def check_other_form():
    """A checkpoint of one form goes on in the other."""
    keys = {**SEMI, "mesh": {"dp": 2}, "zero": 1, **CUT}
    compiled(2, keys)
    whole = [line["loss"] for line in run(2) if "loss" in line]
    for first, then in ((HOMES[2], {}), ({}, HOMES[1])):
        compiled(2, {**keys, **first})
        run(2, "--ckpt-dir", "c", steps=3)
        compiled(2, {**keys, **then})
        have = [line["loss"] for line in run(2, "--ckpt-dir", "c", "--resume") if "loss" in line]
        assert have == whole[3:], (first, then, have, whole)
        call("rm", "-r", "c")


def check_order():
    """The device that checks the order of calls runs a plan with transfers."""
    compiled(4, {**SEMI, "mesh": {"dp": 4}, "zero": 1, **CUT, **HOMES[3]})
    call(MSC, "run", "plan.bin", "-n", "4", "--device", "timed", "--steps", "2", env={"MSC_TIME_SCALE": "0.01"})


def check_hidden():
    """The share of transfers that is predicted to hide is what a device shows that takes as long as is predicted: the
    executor starts transfers as early, and waits as late, as the prediction says."""
    device = {"name": "by hand", "flops_per_s": {"f32": 1e9}, "memory_bytes": 10**12,
              "bytes_per_s": 1e9, "launch_ns": 1000,
              "host_bytes_per_s": 4e7, "disk_bytes_per_s": 1e8}
    with open("c.json", "w") as file:
        json.dump({"device": device, "levels": [{"name": "all", "latency_ns": 1000, "bytes_per_s": 1e9}]}, file)
    shares = []
    for home in HOMES:
        call(MSC, "compile", "gpt.fbs", "-o", "plan.bin", "--cluster", "c.json", *settings(home))
        for _ in range(10):  # others may keep this process from waking in time: then transfers take too long
            totals = json.loads(call(MSC, "run", "plan.bin", "--device", "timed", "--steps", "2", "--json",
                                     env={"MSC_TIME_SCALE": "2"}).splitlines()[-1])
            predicted, = totals["predicted_hidden"]
            moving = totals["transfer_ms"][0]  # 0: updates run where the optimizer state lives
            measured = max(0, 1 - totals["transfer_wait_ms"][0] / moving) if moving else 0
            late = totals["transfer_ms"][0] > 1.2 * totals["time_scale"] * totals["predicted_transfer_ms"][0]
            if abs(measured - predicted) <= 0.1:
                break
        assert late or abs(measured - predicted) <= 0.1, (home, measured, predicted, totals)
        assert (predicted == 0) == ("disk" not in home["offload"].values()), "copies in memory take the calls' cores"
        shares.append(predicted)
    assert min(shares) < 0.8 and max(shares) > 0.2, shares


def check_copied_in_place():
    """Where no core is idle the threads of calls copy within the host's memory: the step waits as long as they take.
    With a core to spare a thread of its own does, with the same bits."""
    compiled(1, HOMES[1])
    losses = []
    for threads in (os.cpu_count(), 1):
        out = call(MSC, "run", "plan.bin", "--threads", str(threads), "--steps", "3", "--seed", "5", "--timing",
                   "--json", "--data", "x=x.npy", "y=y.npy")
        lines = [json.loads(line) for line in out.splitlines()]
        losses.append([line["loss"] for line in lines if "loss" in line])
        totals = lines[-1]
        moved, waited = totals["transfer_ms"][0], totals["transfer_wait_ms"][0]
        assert moved > 0 and (threads == 1 or moved <= waited <= 1.5 * moved + 0.1), (threads, moved, waited)
    assert losses[0] == losses[1], losses


def check_auto():
    """As little as the limit asks for leaves the device, with the same bits; beside recompute it fits in less than
    that alone, and is never slower by what is predicted."""
    auto = {"auto_offload": True}
    before, _, want = train(1, {})
    need, most = before["memory_bytes_per_rank"], 0
    alone = compiled(1, {"offload": {"param": "cpu", "optimizer": "cpu"}})
    least = alone["memory_bytes_per_rank"]
    for limit in (need, need - 1, (need + least) // 2, least):
        report, _, have = train(1, {**auto, "memory_limit": limit})
        away = report["offload"]["host"]
        assert report["memory_bytes_per_rank"] <= limit and have == want, (limit, report["memory_bytes_per_rank"])
        assert (away > 0) == (limit < need), (limit, away)
        assert limit < need - 1 or away <= need / 4, f"{away} bytes are too many to save one of {need}"
        most = max(most, away)
    assert report["predicted_step_ms"] <= alone["predicted_step_ms"], (report, alone)
    host = most // 2
    report, _, have = train(1, {**auto, "memory_limit": least, "offload_cpu_size": host, **ON_DISK})
    away = report["offload"]
    assert have == want and 0 < away["host"] <= host and away["disk"] > 0, (away, most)
    words = [MSC, "compile", "gpt.fbs", "-o", "no.bin"]
    text = refused([*words, *settings({**auto, "memory_limit": least // 5, "offload_cpu_size": 1000})],
                   "bytes per rank", f"limit is {least // 5}", "a larger offload_cpu_size or an offload_path")
    assert "offload={" not in text, text  # all that can leave the device has left it
    refused([*words, *settings({"memory_limit": least})], "auto_offload=true")
    limit = least * 9 // 10
    both = compiled(1, {**auto, "recompute": "auto", "memory_limit": limit})
    assert both["memory_bytes_per_rank"] <= limit, both["memory_bytes_per_rank"]
    limit = need * 85 // 100
    recomputed = compiled(1, {"recompute": "auto", "memory_limit": limit})
    both = compiled(1, {**auto, "recompute": "auto", "memory_limit": limit})
    assert both["predicted_step_ms"] <= recomputed["predicted_step_ms"], (both, recomputed)


def check_auto_trials():
    """The trials of what lives in host memory, each with trials of what is computed again, are few also where sets of
    ops are tried: compilations take seconds, not minutes."""
    call(sys.executable, "-m", "msc.models", "mlp", "--batch", "12", "--optimizer", "adam", "-o", "mlp.fbs")
    keys = {"device_num": 4, "parallel_mode": "auto_parallel", "micro_size": 3, "recompute": "auto"}
    need = compiled(1, {}, "mlp.fbs")["memory_bytes_per_rank"]
    words = settings({**keys, "auto_offload": True, "memory_limit": need * 3 // 10})
    done = subprocess.run([MSC, "compile", "mlp.fbs", "-o", "plan.bin", "--timing", *words], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    trials = int(re.search(r"overlap, trials: (\d+)", done.stdout + done.stderr).group(1))
    assert 100 < trials < 700, trials


def check_auto_values():
    """Where values of a step fill the memory these leave it, too: less fits than with state and parameters alone, the
    bits are the same, and what exceeds offload_cpu_size is on disk. Stages keep theirs."""
    make_gpt("flat.fbs", 4, VOCAB, hidden=32)
    auto = {"auto_offload": True}
    before, _, want = train(1, {}, "flat.fbs")
    need, said = before["memory_bytes_per_rank"], []
    least = compiled(1, {"offload": {"param": "cpu", "optimizer": "cpu"}}, "flat.fbs")["memory_bytes_per_rank"]
    everything = least * 9 // 10
    args_alone = [MSC, "compile", "flat.fbs", "-o", "no.bin",
                  *settings({"offload": {"param": "cpu", "optimizer": "cpu"}, "memory_limit": everything})]
    refused(args_alone, "values of a step", 'offload={"activation":"cpu"}')
    for limit in (need * 9 // 10, least, everything):
        report, _, have = train(1, {**auto, "memory_limit": limit}, "flat.fbs")
        assert report["memory_bytes_per_rank"] <= limit and have == want, (limit, report, have[0], want[0])
        said.append((report["memory"]["scratch"], report["offload"]["host"], report["predicted_step_ms"]))
    assert said[-1][0] < before["memory"]["scratch"], (said, before["memory"])
    for host in (said[-1][1] // 2, 0):
        report, _, have = train(1, {**auto, "memory_limit": need * 7 // 10, "offload_cpu_size": host, **ON_DISK},
                                "flat.fbs")
        away = report["offload"]
        assert have == want and away["host"] <= host and away["disk"] > 0, (host, away)
    micro = train(1, {"micro_size": 2}, "flat.fbs")
    limit = micro[0]["memory_bytes_per_rank"] * 6 // 10
    report, _, have = train(1, {"micro_size": 2, **auto, "memory_limit": limit}, "flat.fbs")
    assert have == micro[2] and report["memory_bytes_per_rank"] <= limit, (have[0], micro[2][0])
    staged = {**SEMI, "pipeline_stages": 2, "micro_size": 2}
    whole = train(2, staged, "flat.fbs")
    limit = whole[0]["memory_bytes_per_rank"] - 1
    report, _, have = train(2, {**staged, **auto, "memory_limit": limit}, "flat.fbs")
    assert report["memory_bytes_per_rank"] <= limit and have == whole[2], (report, have[0], whole[2][0])


def check_told():
    """What is said before of bytes that move holds, and what is measured is told."""
    keys = {**SEMI, "pipeline_stages": 2, "micro_size": 2, **HOMES[2]}
    report = compiled(2, keys)
    stages = json.loads(call(MSC, "explain", "plan.bin", "--json"))["offload"]
    assert max(s["disk_bytes"] for s in stages) == report["offload"]["disk"], stages
    calls = call(MSC, "dump", "plan.bin")
    assert "stow" in calls and "fetch" in calls and "by blocks of 4096" in calls, calls
    places = re.findall(r"disk\+\d+:\d+w? scratch\+(\d+):", calls)  # disks read to and write from whole sectors
    assert places and not any(int(at) % 512 for at in places), places
    for s in stages:  # what is kept is fetched once a step at least, and taken back once
        assert s["moved_bytes"] > 1.9 * s["disk_bytes"] and 0 <= s["hidden"] <= 1 and s["intensity"] > 0, s
        assert 0 < s["efficiency"] < 1 and 0 <= s["exposed_ms"] <= s["transfer_ms"], s
    assert "hidden" in call(MSC, "explain", "plan.bin")
    totals = run(2, "--timing")[-1]
    assert min(totals["transfer_ms"]) > 0 and min(totals["transfer_wait_ms"]) >= 0, totals
    trace = json.loads(call(MSC, "simulate", "plan.bin", "--json"))
    assert any(s["ms"]["transfers"] > 0 for s in trace["stages"]), trace


def refused(words, *said, code=None):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode and (code is None or done.returncode == code), (words, done.returncode)
    for word in said:
        assert word in done.stderr, (words, word, done.stderr)
    return done.stderr


def check_refused():
    def compile_words(**keys):
        return [MSC, "compile", "gpt.fbs", "-o", "no.bin", *settings(keys)]

    disk = {"offload": {"optimizer": "disk"}}
    refused(compile_words(**disk), "offload_path")
    refused(compile_words(offload={"activation": "cpu"}, device_num=2, pipeline_stages=2, micro_size=2, **SEMI),
            "offload.activation: not supported yet with pipeline_stages")
    refused(compile_words(offload_path="."), "offload_path says nothing without")
    refused(compile_words(**disk, **ON_DISK, host_mem_block_size=5000), "multiple of 4096")
    need = compiled(1, HOMES[1])["offload"]["host"]
    refused(compile_words(**HOMES[1], offload_cpu_size=need - 1), f"{need} bytes per rank", f"{need} would do")
    need = compiled(1, {**disk, **ON_DISK})["offload"]["disk"]
    refused(compile_words(**disk, **ON_DISK, offload_disk_size=need - 1), f"{need} would do")
    compiled(1, {**disk, **ON_DISK, "offload_disk_size": need})
    assert not os.path.exists("no.bin")
    data = ["--data", "x=x.npy", "y=y.npy", "--steps", "1"]
    compiled(1, {**disk, "offload_path": "nowhere"})
    refused([MSC, "run", "plan.bin", *data], "offload_path", "nowhere", "No such file")
    call(MSC, "run", "plan.bin", *data, "--offload-path", ".")
    compiled(1, {**disk, **ON_DISK})
    full = subprocess.run([MSC, "run", "plan.bin", *data], capture_output=True, text=True, restore_signals=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (need - 1, need - 1)))
    assert full.returncode and f"no file of {need} bytes can be made in ." in full.stderr, full


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_model()
        for ranks, keys in JOBS:
            attempt(check_same_bits, ranks, keys)
        attempt(check_values)
        attempt(check_limit)
        attempt(check_resident)
        attempt(check_resumed)
        attempt(check_other_form)
        attempt(check_order)
        attempt(check_told)
        attempt(check_hidden)
        attempt(check_copied_in_place)
        attempt(check_auto)
        attempt(check_auto_values)
        attempt(check_auto_trials)
        attempt(check_refused)
        finish()
        print(f"{len(JOBS)} jobs with the bits of their like on the device, in {len(HOMES)} ways")


main()
