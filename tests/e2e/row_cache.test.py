#!/usr/bin/env python3
"""row_cache: tables in host memory or on disk, of which the arena holds some rows (cache_rows), looked up from two
places and updated by every optimizer that has a lazy form: the losses, evaluations, weights and state of tables that
lie in the arena whole, bit for bit, on one rank and on several, whole and cut by rows and columns; a resumed run goes
on with them. As many look-ups find their row as explain says, and a rank takes the memory that the plan says.  What has
no room and what cannot be cached is named."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from network import write_npy
from program import attempt, call, check_memory, finish, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
BATCH, BAG, ROWS, WIDTH, STEPS = 16, 3, 96, 8, 6
CACHED = 40  # rows: more than a step names, fewer than all
KINDS = {
    "sgd": "", "momentum": ", momentum = 0.8 : f32, nesterov = true", "adagrad": "", "adam": ""
}
SEMI = {"parallel_mode": "semi_auto_parallel"}
SPREAD = [  # ranks, keys, the strategies of look-ups
    (4, {"parallel_mode": "data_parallel", "gradients_mean": True}, ""),
    (2, {"parallel_mode": "data_parallel", "gradients_mean": True, "loss_scale": "dynamic", "variable_lr": True}, ""),
    (2, {"parallel_mode": "data_parallel", "gradients_mean": True, "zero": 3, "parallel_optimizer_config":
         {"parallel_optimizer_threshold": 0}}, ""),
    (4, SEMI, " {in_strategy = [[4, 1], %s]}"),
    (4, SEMI, " {manual_split = [19, 40, 14, 23]}"),
    (4, SEMI, " {in_strategy = [[1, 4], %s]}"),
    (3, {"parallel_mode": "auto_parallel"}, ""),
]
DISK = {"offload": {"param": "disk", "optimizer": "disk"}, "offload_path": "."}


def model(optimizer, cached=0, cut="", marks="", read=""):
    first, second = (cut % n if "%s" in cut else cut for n in ("[1, 1]", "[1]"))
    last = "%8" if read else "%6"
    train = f"optimizer = {{{optimizer}}}, " if optimizer else ""
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%a: tensor<{BATCH}x{BAG}xi32>, %b: tensor<{BATCH}xi64>, %t: tensor<{ROWS}x{WIDTH}xf32>, %w: tensor<{WIDTH}xf32>):
    %0 = "msc.gather"(%t, %a){first} : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{BATCH}x{BAG}xi32>) -> tensor<{BATCH}x{BAG}x{WIDTH}xf32>
    %1 = "msc.reduce_sum"(%0) {{dims = [1]}} : (tensor<{BATCH}x{BAG}x{WIDTH}xf32>) -> tensor<{BATCH}x{WIDTH}xf32>
    %2 = "msc.gather"(%t, %b){second} : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{BATCH}xi64>) -> tensor<{BATCH}x{WIDTH}xf32>
    %3 = "msc.add"(%1, %2) : (tensor<{BATCH}x{WIDTH}xf32>, tensor<{BATCH}x{WIDTH}xf32>) -> tensor<{BATCH}x{WIDTH}xf32>
    %4 = "msc.mul"(%3, %w) : (tensor<{BATCH}x{WIDTH}xf32>, tensor<{WIDTH}xf32>) -> tensor<{BATCH}x{WIDTH}xf32>
    %5 = "msc.mul"(%4, %4) : (tensor<{BATCH}x{WIDTH}xf32>, tensor<{BATCH}x{WIDTH}xf32>) -> tensor<{BATCH}x{WIDTH}xf32>
    %6 = "msc.reduce_mean"(%5) {{dims = [0, 1]}} : (tensor<{BATCH}x{WIDTH}xf32>) -> tensor<f32>
{read}    "msc.return"({last}) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "a", msc.role = "data"}}, {{msc.name = "b", msc.role = "data"}},
      {{msc.init = "normal:0.3", msc.name = "t", msc.role = "parameter", msc.cache_rows = {cached} : i64{marks}}},
      {{msc.init = "normal:0.3", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, {train}results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def optimizer(kind):
    return f'kind = "{kind}", lr = 0.05 : f32, lazy = true{KINDS[kind]}'


def compiled(text, keys):
    with open("m.mlir", "w") as out:
        out.write(text)
    return json.loads(call(MSC, "compile", "m.mlir", "-o", "m.bin", "--json", *settings(keys)))


def run(ranks, *words, steps=STEPS):
    out = call(MSC, "run", "m.bin", "-n", str(ranks), "--in-order", "--steps", str(steps), "--seed", "5", "--json",
               "--data", "a=a.npy", "b=b.npy", *words)
    return [json.loads(line) for line in out.splitlines()]


def losses_of(lines):
    return [line["loss"] for line in lines if "loss" in line]


def train(text, ranks, keys):
    report = compiled(text, {"device_num": ranks, **keys})
    lines = run(ranks, "--save", "w.safetensors", "--train", f"0:{BATCH * STEPS}", "--eval", f"0:{BATCH * 2}")
    check_memory(report, lines[-1])
    with open("w.safetensors", "rb") as file:
        weights = file.read()
    return report, lines[-1], (losses_of(lines), [line["eval"]["loss"] for line in lines if "eval" in line], weights)


def check_same_bits(kind, ranks, keys, cut):
    before, _, want = train(model(optimizer(kind), 0, cut), ranks, keys)
    for home in ({}, DISK):
        report, totals, have = train(model(optimizer(kind), CACHED, cut), ranks, {**keys, **home})
        what = f"{kind}, {ranks} ranks, {keys}{cut}, {'disk' if home else 'cpu'}"
        assert have[0] == want[0], f"{what}: losses {have[0]}, not {want[0]}"
        assert have == want, f"{what}: another evaluation, other weights or state"
        assert report["offload"]["host"] > 0 and (report["offload"]["disk"] > 0) == bool(home), (what,
            report["offload"])
        assert 0 < totals["cache_misses"] < totals["cache_rows"], (what, totals)
        kept, all_of_them = report["memory"]["parameters"], before["memory"]["parameters"]
        assert ranks > 1 or kept < all_of_them / 2, f"{what}: {kept} of {all_of_them} bytes of parameters stay"
    left = [f for f in os.listdir(".") if "offload" in f]
    assert not left, left


def check_resumed():
    """Rows in the arena are part of checkpoints, and what is loaded takes their place."""
    for first, then in ((CACHED, CACHED), (CACHED, 0), (0, CACHED)):
        for ranks, keys, cut in ((1, {}, ""), SPREAD[2]):
            keys = {"device_num": ranks, **keys}
            compiled(model(optimizer("adam"), 0, cut), keys)
            whole = losses_of(run(ranks))
            compiled(model(optimizer("adam"), first, cut), keys)
            have = losses_of(run(ranks, "--ckpt-dir", "c", "--ckpt-every", "2", steps=4))
            compiled(model(optimizer("adam"), then, cut), {**keys, **(DISK if then else {})})
            have += losses_of(run(ranks, "--ckpt-dir", "c", "--resume"))
            call("rm", "-r", "c")
            assert have == whole, (first, then, ranks, have, whole)


def check_without_training():
    """A plan that only looks up."""
    said = []
    for cached in 0, CACHED:
        report = compiled(model("", cached), {})
        said.append(json.loads(call(MSC, "run", "m.bin", "--seed", "5", "--json",
                                    "--data", "a=a.npy", "b=b.npy", "--eval",
                                    "0:64").splitlines()[0]))
    assert said[0] == said[1] and said[0]["eval"]["loss"] and not report["memory"]["state"], (said, report["memory"])


def refused(text, *said, keys=None, words=()):
    with open("no.mlir", "w") as out:
        out.write(text)
    done = subprocess.run([MSC, "compile", "no.mlir", "-o", "no.bin", *settings(keys or {}), *words],
                          capture_output=True, text=True)
    assert done.returncode == 1 and not os.path.exists("no.bin"), done
    for word in ("cache_rows of 't'",) + said:
        assert word in done.stderr, (word, done.stderr)


def check_refused():
    read = """    %7 = "msc.reduce_mean"(%t) {dims = [0, 1]} : (tensor<96x8xf32>) -> tensor<f32>
    %8 = "msc.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
"""
    refused(model(optimizer("sgd").replace(", lazy = true", ""), CACHED), "all rows of the table are updated", "'lazy'")
    refused(model("", CACHED, read=read), "reduce_mean reads the table too")
    refused(model(optimizer("sgd"), CACHED, marks=", msc.parameter_server = true"),
            "parameter server, or in host memory")
    refused(model("", CACHED), "not supported yet for cuda", words=("--target", "cuda:sm_90"))
    need = compiled(model(optimizer("adam"), CACHED), {"offload": {"param": "cpu"}})["offload"]["host"]
    done = subprocess.run([MSC, "compile", "m.mlir", "-o", "no.bin",
                           *settings({"offload": {"param": "cpu"}, "offload_cpu_size": need - 1})],
                          capture_output=True, text=True)
    assert done.returncode and f"{need} would do" in done.stderr, done.stderr


def check_no_room():
    """A cache that does not hold the rows of a step: what would do, does."""
    data = ["--in-order", "--steps", str(STEPS), "--data", "a=a.npy", "b=b.npy"]
    compiled(model(optimizer("adam"), 4), {})
    done = subprocess.run([MSC, "run", "m.bin", *data], capture_output=True, text=True)
    said = re.search(r"step 0: the cache of 't' has room for 4 rows, and the step uses (\d+)", done.stderr)
    assert done.returncode and said, done.stderr
    compiled(model(optimizer("adam"), int(said.group(1))), {})
    run(1, steps=1)
    compiled(model(optimizer("adam"), int(said.group(1)) - 1), {})
    done = subprocess.run([MSC, "run", "m.bin", *data], capture_output=True, text=True)
    assert done.returncode and f"and the step uses {said.group(1)}" in done.stderr, done.stderr
    write_npy("far.npy", array.array("i", [ROWS] * (BATCH * STEPS * BAG)), [BATCH * STEPS, BAG])
    done = subprocess.run([MSC, "run", "m.bin", "--steps", "1", "--data", "a=far.npy", "b=b.npy"], capture_output=True,
                          text=True)
    assert done.returncode and "t.rows" in done.stderr and "an index is out of range" in done.stderr, done.stderr
    check_far_numbers()


def check_far_numbers():
    """Numbers of 64 bits that no table has rows for, where ranks have parts of it, are out of range on each."""
    compiled(model(optimizer("adam"), CACHED, " {in_strategy = [[4, 1], %s]}"), dict(SEMI, device_num=4))
    for far in (-2**63, 2**63 - 1):
        write_npy("far.npy", array.array("q", [far] * (BATCH * STEPS)), [BATCH * STEPS])
        done = subprocess.run([MSC, "run", "m.bin", "--steps", "1", "--data", "a=a.npy", "b=far.npy"],
                              capture_output=True,
                              text=True)
        assert done.returncode == 1 and "an index is out of range" in done.stderr, done.stderr


def clicks(fields, vocab, cached, steps, batch, **keys):
    call(sys.executable, "-m", "msc.criteo", "-o", "clicks", "--samples", str(batch * steps), "--fields", str(fields),
         "--vocab", str(vocab))
    call(sys.executable, "-m", "msc.models", "wide_deep", "-o", "m.fbs", "--batch", str(batch), "--optimizer", "adam",
         "--lazy", "--lr", "0.05", "--fields", str(fields), "--vocab", str(vocab), "--hidden", "16", "--layers", "1",
         "--width", "32", "--cache-rows", str(cached))
    report = json.loads(call(MSC, "compile", "m.fbs", "-o", "m.bin", "--json", *settings(keys)))
    out = call(MSC, "run", "m.bin", "--threads", "1", "--in-order", "--steps", str(steps), "--json", "--data",
               "x=clicks/x.npy", "y=clicks/y.npy")
    return report, json.loads(out.splitlines()[-1])


def check_told():
    """A table of four times the arena: the share of look-ups that find their row is what explain says."""
    fields, vocab, steps, batch = 4, 2000, 500, 128
    report, totals = clicks(fields, vocab, fields * vocab // 4, steps, batch)
    check_memory(report, totals)
    said = json.loads(call(MSC, "explain", "m.bin", "--json"))["caches"]
    assert [c["table"] for c in said] == ["wide.table", "embedding.table"], said
    for c in said:
        assert c["rows"] * 4 == c["table_rows"] == fields * vocab and c["numbers"] == batch * fields, c
        assert c["home_bytes"] == 4 * c["device_bytes"] and c["zipf"] == 1.05 and c["columns"] == fields, c
        assert abs(totals["cache_hit_rate"] / c["hit_rate_by_column"] - 1) < 0.05, (totals["cache_hit_rate"], c)
    text = call(MSC, "explain", "m.bin")
    assert "Zipf" in text and "rows lie on the device" in text, text
    assert "admit to 2000 rows of embedding.table, updated" in call(MSC, "dump", "m.bin")
    print(f"{100 * totals['cache_hit_rate']:.1f} % of look-ups find their row, "
          f"{100 * said[0]['hit_rate_by_column']:.1f} % were said")


def check_resident():
    """A table on disk takes the memory of its cache, once that is full, and of the index: what was said, within 5 %."""
    if "/asan/" in MSC or "/tsan/" in MSC:
        print("no check of resident memory: sanitizers take more")
        return
    small, large = (clicks(2, vocab, cached, 40, 4096, **DISK, host_mem_block_size=65536)
                    for vocab, cached in ((200, 400), (120000, 50000)))
    grown, plan = (large[1]["rss_bytes"] - small[1]["rss_bytes"], large[1]["planned_bytes"] + large[1]["host_bytes"] -
                   small[1]["planned_bytes"] - small[1]["host_bytes"])
    table = large[1]["disk_bytes"]
    assert table > 2 * plan and abs(grown / plan - 1) < 0.05, (grown, plan, table)
    print(f"a table of {table / 1e6:.1f} MB on disk takes {grown / 1e6:.1f} MB, {plan / 1e6:.1f} were said")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rng = random.Random(3)
        first = array.array("i", [min(int(rng.paretovariate(0.5)), ROWS) - 1 for _ in range(BATCH * STEPS * BAG)])
        second = array.array("q", [rng.choice(first[s * BAG:]) for s in range(BATCH * STEPS)])
        write_npy("a.npy", first, [BATCH * STEPS, BAG])
        write_npy("b.npy", second, [BATCH * STEPS])
        for number, kind in enumerate(KINDS):
            few = SPREAD if os.environ.get("MSC_TEST_SLOW") or kind == "adam" else SPREAD[number % 3::3]
            for ranks, keys, cut in [(1, {}, ""), *few]:
                attempt(check_same_bits, kind, ranks, keys, cut)
        for check in check_resumed, check_without_training, check_refused, check_no_room, check_told, check_resident:
            attempt(check)
        finish()


main()
