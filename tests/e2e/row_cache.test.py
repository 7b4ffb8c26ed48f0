#!/usr/bin/env python3
"""row_cache: tables in host memory or on disk, of which the arena holds some rows (cache_rows), looked up from two
places and updated by every optimizer that has a lazy form: the losses, evaluations, weights and state of tables that
lie in the arena whole, bit for bit, on one rank and on several, whole and cut by rows and columns; a resumed run goes
on with them. As many look-ups find their row as explain says, and a rank takes the memory that the plan says.  What has
no room and what cannot be cached is named.

With MSC_TEST_TARGET=cuda plans for GPUs run on the stand-in, call by call and as graphs: the host swaps rows with the
GPU's memory, of every width; losses are also those of a plan for a CPU, but for rounding."""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from network import write_npy
from program import attempt, call, check_memory, finish, run_on_standin, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
TARGET = os.environ.get("MSC_TEST_TARGET", "cpu")
STANDIN = os.path.join(os.path.dirname(MSC), "tests/cuda/standin")
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


def compile_file(path, keys, target):
    words = [] if target == "cpu" else ["--target", target, "--dump-dir", "dump"]
    return json.loads(call(MSC, "compile", path, "-o", "m.bin", "--json", *words, *settings(keys)))


def compiled(text, keys, target=TARGET):
    with open("m.mlir", "w") as out:
        out.write(text)
    return compile_file("m.mlir", keys, target)


def machine(gpus=1):
    """What the environment of a run on GPUs has in addition."""
    return {} if TARGET == "cpu" else {
        "LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"),
        "MSC_STANDIN_GPUS": str(gpus), "MSC_STANDIN_WARPS": "shuffled", "MSC_STANDIN_SEED": "7"}


def run(ranks, *words, steps=STEPS, gpus=None):
    out = call(MSC, "run", "m.bin", "-n", str(ranks), "--in-order", "--steps", str(steps), "--seed", "5", "--json",
               "--data", "a=a.npy", "b=b.npy", *words, env=machine(gpus or ranks))
    return [json.loads(line) for line in out.splitlines()]


def run_failing(*words):
    done = subprocess.run([MSC, "run", "m.bin", *words], capture_output=True, text=True,
                          env={**os.environ, **machine()})
    assert done.returncode == 1, done
    return done.stderr


def losses_of(lines):
    return [line["loss"] for line in lines if "loss" in line]


def train(text, ranks, keys, gpus=None):
    report = compiled(text, {"device_num": ranks, **keys})
    lines = run(ranks, "--save", "w.safetensors", "--train", f"0:{BATCH * STEPS}", "--eval", f"0:{BATCH * 2}",
                gpus=gpus)
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
        if TARGET == "cuda" and ranks == 2:  # no graph then
            again = train(model(optimizer(kind), CACHED, cut), ranks, {**keys, **home}, gpus=1)[2]
            assert again == want, f"{what}: otherwise where ranks share a GPU"
        kept, all_of_them = report["memory"]["parameters"], before["memory"]["parameters"]
        few = all_of_them * (CACHED / ROWS + 0.1)
        assert ranks > 1 or kept < few, f"{what}: {kept} of {all_of_them} bytes of parameters stay"
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
                                    "0:64", env=machine()).splitlines()[0]))
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
    refused(model("", CACHED, ' {primitive_target = "CPU"}'), "stays in host memory", words=("--target", "cuda:sm_90"))
    need = compiled(model(optimizer("adam"), CACHED), {"offload": {"param": "cpu"}})["offload"]["host"]
    done = subprocess.run([MSC, "compile", "m.mlir", "-o", "no.bin", "--target", TARGET,
                           *settings({"offload": {"param": "cpu"}, "offload_cpu_size": need - 1})],
                          capture_output=True, text=True)
    assert done.returncode and f"{need} would do" in done.stderr, done.stderr


def check_no_room():
    """A cache that does not hold the rows of a step: what would do, does."""
    data = ["--in-order", "--steps", str(STEPS), "--data", "a=a.npy", "b=b.npy"]
    compiled(model(optimizer("adam"), 4), {})
    stderr = run_failing(*data)
    said = re.search(r"step 1: the cache of 't' has room for 4 rows, and the step uses (\d+)", stderr)
    assert said, stderr
    compiled(model(optimizer("adam"), int(said.group(1))), {})
    run(1, steps=1)
    compiled(model(optimizer("adam"), int(said.group(1)) - 1), {})
    stderr = run_failing(*data)
    assert f"and the step uses {said.group(1)}" in stderr, stderr
    write_npy("far.npy", array.array("i", [ROWS] * (BATCH * STEPS * BAG)), [BATCH * STEPS, BAG])
    stderr = run_failing("--steps", "1", "--data", "a=far.npy", "b=b.npy")
    assert "t.rows" in stderr and "an index is out of range" in stderr, stderr
    check_far_numbers()


def check_far_numbers():
    """Numbers of 64 bits that no table has rows for, where ranks have parts of it, are out of range on each."""
    compiled(model(optimizer("adam"), CACHED, " {in_strategy = [[4, 1], %s]}"), dict(SEMI, device_num=4))
    for far in (-2**63, 2**63 - 1):
        write_npy("far.npy", array.array("q", [far] * (BATCH * STEPS)), [BATCH * STEPS])
        stderr = run_failing("--steps", "1", "--data", "a=a.npy", "b=far.npy")
        assert "an index is out of range" in stderr, stderr


def clicks(fields, vocab, cached, steps, batch, **keys):
    call(sys.executable, "-m", "msc.criteo", "-o", "clicks", "--samples", str(batch * steps), "--fields", str(fields),
         "--vocab", str(vocab))
    call(sys.executable, "-m", "msc.models", "wide_deep", "-o", "m.fbs", "--batch", str(batch), "--optimizer", "adam",
         "--lazy", "--lr", "0.05", "--fields", str(fields), "--vocab", str(vocab), "--hidden", "16", "--layers", "1",
         "--width", "32", "--cache-rows", str(cached))
    report = compile_file("m.fbs", keys, TARGET)
    out = call(MSC, "run", "m.bin", "--threads", "1", "--in-order", "--steps", str(steps), "--json", "--data",
               "x=clicks/x.npy", "y=clicks/y.npy", env=machine())
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
    if "/asan/" in MSC or "/tsan/" in MSC or TARGET == "cuda":
        print("no check of resident memory: sanitizers and the stand-in take more")
        return
    small, large = (clicks(2, vocab, cached, 40, 4096, **DISK, host_mem_block_size=65536)
                    for vocab, cached in ((200, 400), (120000, 50000)))
    grown, plan = (large[1]["rss_bytes"] - small[1]["rss_bytes"], large[1]["planned_bytes"] + large[1]["host_bytes"] -
                   small[1]["planned_bytes"] - small[1]["host_bytes"])
    table = large[1]["disk_bytes"]
    assert table > 2 * plan and abs(grown / plan - 1) < 0.05, (grown, plan, table)
    print(f"a table of {table / 1e6:.1f} MB on disk takes {grown / 1e6:.1f} MB, {plan / 1e6:.1f} were said")


def check_widths():
    """Rows of every type and odd widths, which are swapped in units of their own, looked up in steps of which each
    needs other rows; the numbers of a table without a cache."""
    for dtype, width, unit in (("f32", 4, 16), ("f64", 1, 8), ("f32", 3, 4), ("bf16", 3, 2), ("i8", 5, 1)):
        said = []
        for cached in 0, 20:
            text = f"""module {{
  "msc.func"() ({{
  ^bb0(%a: tensor<{BATCH}xi32>, %t: tensor<{ROWS}x{width}x{dtype}>):
    %0 = "msc.gather"(%t, %a) : (tensor<{ROWS}x{width}x{dtype}>, tensor<{BATCH}xi32>) -> tensor<{BATCH}x{width}x{dtype}>
    %1 = "msc.cast"(%0) {{dtype = "f32"}} : (tensor<{BATCH}x{width}x{dtype}>) -> tensor<{BATCH}x{width}xf32>
    "msc.return"(%1) : (tensor<{BATCH}x{width}xf32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "a", msc.role = "data"}},
      {{msc.init = "{'constant:3' if dtype == 'i8' else 'normal:1'}", msc.name = "t", msc.role = "parameter", msc.cache_rows = {cached} : i64}}],
      results = ["y"], sym_name = "forward"}} : () -> ()
}}
"""
            compiled(text, {})
            call(MSC, "run", "m.bin", "--seed", "5", "--data", "a=order.npy", "--output", "y=y.npy", env=machine())
            with open("y.npy", "rb") as file:
                said.append(file.read())
        assert said[0] == said[1], (dtype, width)
        if TARGET == "cuda":
            assert f"@swap_rows_{unit}(" in open("dump/kernels.ll").read(), (dtype, width, unit)


def check_large():
    """Steps that look up one row more often than a GPU adds up in one part, with places that do not ascend."""
    global BATCH, CACHED
    before = BATCH, CACHED
    BATCH, CACHED = 160, 70
    rng = random.Random(9)
    write_npy("a.npy", array.array("i", [(min(int(rng.paretovariate(1)), ROWS) * 37 + 8) % ROWS
                                         for _ in range(BATCH * STEPS * BAG)]), [BATCH * STEPS, BAG])
    write_npy("b.npy", array.array("q", [rng.randrange(4) * 31 for _ in range(BATCH * STEPS)]), [BATCH * STEPS])
    check_same_bits("adagrad", 1, {}, "")
    check_same_bits("sgd", *SPREAD[3])
    BATCH, CACHED = before


def check_near_cpu():
    """A plan for GPUs with a cache against one for a CPU without, by every optimizer."""
    for kind in KINDS if TARGET == "cuda" else ():
        compiled(model(optimizer(kind)), {}, "cpu")
        want = losses_of(run(1))
        compiled(model(optimizer(kind), CACHED), {})
        have = losses_of(run(1))
        assert all(abs(a - b) <= 1e-5 * (abs(b) + 1e-3) for a, b in zip(have, want)), (kind, have, want)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rng = random.Random(3)
        first = array.array("i", [min(int(rng.paretovariate(0.5)), ROWS) - 1 for _ in range(BATCH * STEPS * BAG)])
        second = array.array("q", [rng.choice(first[s * BAG:]) for s in range(BATCH * STEPS)])
        write_npy("a.npy", first, [BATCH * STEPS, BAG])
        write_npy("b.npy", second, [BATCH * STEPS])
        write_npy("order.npy", array.array("i", [i * 37 % ROWS for i in range(BATCH * STEPS)]), [BATCH * STEPS])
        for number, kind in enumerate(KINDS):
            every = os.environ.get("MSC_TEST_SLOW") or (kind == "adam" and TARGET == "cpu")
            few = SPREAD if every else SPREAD[number % 3::3] if TARGET == "cpu" else SPREAD[number::4]
            for ranks, keys, cut in [(1, {}, ""), *few]:
                attempt(check_same_bits, kind, ranks, keys, cut)
        for kind in ("adagrad", "adam"):  # one step of the rows of all micro-batches
            attempt(check_same_bits, kind, 1, {"micro_size": 2}, "")
            attempt(check_same_bits, kind, 2, {**SPREAD[0][1], "micro_size": 4}, "")
        for check in (check_resumed, check_without_training, check_refused, check_no_room, check_told, check_resident,
                      check_widths, check_near_cpu, check_large):
            attempt(check)
        finish()


if TARGET == "cpu":
    main()
else:
    run_on_standin(main)
