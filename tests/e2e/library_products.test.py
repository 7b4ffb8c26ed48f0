#!/usr/bin/env python3
"""library_products: with deterministic=false a library computes the products of which it is known to be faster, and
those of which --autotune measured it; explain says which. Results are those of a sum in f64, up to rounding, for one
rank and for several; by default no library is called. Where there is none, or one rank has none, kernels compute, which
is told once. The library is a stand-in for OpenBLAS, which notes its calls; so no library need be installed."""
import array
import json
import math
import operator
import os
import re
import subprocess
import sys
import tempfile

from network import write_npy
from program import attempt, call, finish

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
import msc

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
CC = os.environ.get("CC", "cc")
STANDIN = r"""
#include <stdio.h>
#include <stdlib.h>
static int threads = 8;
const char *openblas_get_config(void) { return "OpenBLAS 9.8.7 STANDIN"; }
void openblas_set_num_threads(int n) { threads = n; }
int openblas_get_num_threads(void) { return threads; }
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
  FILE *f = fopen(getenv("SGEMM_CALLS"), "a");
  fprintf(f, "%d %d %d, %d threads, order %d\n", m, n, k, threads, order);
  fclose(f);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0; /* from the last term to the first: other bits than kernels' */
      for (int p = k; p-- > 0;)
        sum += (ta == 112 ? a[p * lda + i] : a[i * lda + p]) * (tb == 112 ? b[j * ldb + p] : b[p * ldb + j]);
      c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
    }
}
"""
# name, form, batch, m, n, k; whether a bias and relu follow.  The first two are a library's by default.
PRODUCTS = (("thin", "NN", 1, 300, 260, 8, True), ("turned", "TN", 1, 260, 300, 4, False),
            ("square", "NT", 1, 60, 70, 90, True), ("batched", "NN", 4, 20, 96, 30, False))
PREFERRED = ["300 260 8", "260 300 4"]


def make_library(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open("library.c", "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-o", os.path.join(folder, name), "library.c"], check=True)


def make_libraries():
    """standin: a BLAS, and what hides an installed oneDNN; none: what hides all of them."""
    for folder in ("standin", "none"):
        for name in ("libdnnl.so.2", "libdnnl.so.3", "libopenblas.so.0"):
            make_library(folder, name, "int nothing;")
    make_library("standin", "libopenblas.so.0", STANDIN)


def numbers(count, seed):
    return array.array("f", ((((i + 97 * seed) * 2654435761 >> 7) % 2001 / 1000 - 1) for i in range(count)))


def write_products():
    """model.fbs; w.safetensors with its operands; x.npy; returns what each product is, from sums in f64."""
    g, header, blobs, at, expected = msc.Graph("products"), {}, [], 0, []
    x = g.input("x", "f32", [2, 1])
    for i, (name, form, batch, m, n, k, more) in enumerate(PRODUCTS):
        lead = [batch] if batch > 1 else []
        shapes = lead + ([k, m] if form[0] == "T" else [m, k]), lead + ([n, k] if form[1] == "T" else [k, n])
        given = {f"a{i}": shapes[0], f"b{i}": shapes[1], f"bias{i}": [n]}
        values = {key: numbers(math.prod(shape), i + len(key)) for key, shape in given.items()}
        for key, shape in given.items() if more else list(given.items())[:2]:
            blobs.append(values[key].tobytes())
            header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(blobs[-1])]}
            at += len(blobs[-1])
        a, b = (g.parameter(key, "f32", shape, init="zeros") for key, shape in zip(given, shapes))
        product = g.matmul if batch == 1 else g.batch_matmul
        c = product(a, b, transpose_a=form[0] == "T", transpose_b=form[1] == "T", name=name)
        if more:
            c = g.relu(g.add(c, g.parameter(f"bias{i}", "f32", [n], init="zeros")))
        g.output(f"y{i}", g.add(g.reshape(c, [1, batch * m * n]), x))
        expected.append(multiply(*values.values(), form, batch, m, n, k, more))
    g.save("model.fbs")
    write_npy("x.npy", array.array("f", [0, 0]), [2, 1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open("w.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
    return expected


def multiply(a, b, bias, form, batch, m, n, k, more):
    c = []
    for at in range(batch):
        rows = [[a[(at * m + i) * k + p] if form[0] == "N" else a[(at * k + p) * m + i] for p in range(k)]
                for i in range(m)]
        columns = [[b[(at * k + p) * n + j] if form[1] == "N" else b[(at * n + j) * k + p] for p in range(k)]
                   for j in range(n)]
        c += [sum(map(operator.mul, row, column)) for row in rows for column in columns]
    return [max(v + bias[i % n], 0) for i, v in enumerate(c)] if more else c


def environment(libraries):
    return {**os.environ, "LD_LIBRARY_PATH": os.path.abspath(libraries), "SGEMM_CALLS": os.path.abspath("calls")}


def calls():
    """The sizes of the library's calls since the last time, sorted; all on one thread."""
    if not os.path.exists("calls"):
        return []
    with open("calls", encoding="utf-8") as file:
        lines = file.read().splitlines()
    os.remove("calls")
    assert all(line.endswith(", 1 threads, order 101") for line in lines), lines
    return sorted({line.split(",")[0] for line in lines})


def compile_plan(model, plan, *keys):
    call(MSC, "compile", model, "-o", plan, *[word for key in keys for word in ("--set", key)])


def run_products(plan, libraries, *options):
    """Its outputs, and what it says."""
    outputs = [f"y{i}=y{i}.npy" for i in range(len(PRODUCTS))]
    done = subprocess.run([MSC, "run", plan, "--trust-native", "--threads", "1", "--init", "w.safetensors", "--data",
                           "x=x.npy", "--output", *outputs, *options], env=environment(libraries), capture_output=True,
                          text=True)
    assert not done.returncode, done.stderr
    found = []
    for i, (_, _, batch, m, n, _, _) in enumerate(PRODUCTS):
        with open(f"y{i}.npy", "rb") as file:
            found.append(array.array("f", file.read()[-8 * batch * m * n:-4 * batch * m * n]))
    return found, done.stderr


def check_close(found, expected):
    for one, other, product in zip(found, expected, PRODUCTS):
        worst = max(abs(v - w) for v, w in zip(one, other))
        assert len(one) == len(other) and worst < 2e-5, (product, worst)


def check_default(expected):
    found, said = run_products("ordered.bin", "standin")
    check_close(found, expected)
    assert not calls() and "librar" not in said, said
    assert run_products("ordered.bin", "standin", "--autotune")[0] == found and not calls()
    os.remove(CHOICES)
    told = call(MSC, "explain", "ordered.bin")
    assert "a library" not in told, told


def check_preferred(expected):
    found, said = run_products("free.bin", "standin")
    check_close(found, expected)
    assert calls() == sorted(PREFERRED) and "warning" not in said, said
    ordered, _ = run_products("ordered.bin", "standin")
    assert found[0] != ordered[0] and found[1] != ordered[1]
    dump = call(MSC, "dump", "free.bin")
    assert dump.count("by a library where it is installed") == 2 and dump.count("if measured to be faster") == 2, dump
    told = call(MSC, "explain", "free.bin")
    assert "thin: a library, where it is installed, computes the product of 300 x 260 x 8: storing" in told, told
    assert "2 matrix products: by the plan's own kernels, or by a library" in told, told
    listed = json.loads(call(MSC, "explain", "free.bin", "--json"))["products"]
    assert [(p["op"], p["library"], "why" in p) for p in listed] == [("thin", "preferred", True), (
        "turned", "preferred", True), ("square", "measured", False), ("batched", "measured", False)], listed


def check_absent(expected):
    found, said = run_products("free.bin", "none")
    check_close(found, expected)
    assert not calls() and said.count("kernels compute 2 matrix products for which a library is faster") == 1, said
    assert "libdnnl.so.2" in said, said


def check_measured(expected):
    """What --autotune measured decides: here, what a file says in its place."""
    run_products("free.bin", "standin", "--autotune")
    measured = calls()
    assert {"60 70 90", "20 96 30", *PREFERRED} <= set(measured), measured
    with open(CHOICES, encoding="utf-8") as file:
        keys = [line[:line.rindex("|") + 1] for line in file.read().splitlines()]
    assert len(keys) == len(PRODUCTS) and all(key.endswith(", or OpenBLAS 9.8.7|") for key in keys), keys
    for choice, wanted in (("library", [*PREFERRED, "60 70 90", "20 96 30"]), ("20 x 32", [])):
        with open(CHOICES, "w", encoding="utf-8") as file:
            file.write("".join(f"{key}{choice}\n" for key in keys))
        found, _ = run_products("free.bin", "standin")
        check_close(found, expected)
        assert calls() == sorted(wanted), choice
    ordered, _ = run_products("ordered.bin", "standin")
    assert not calls()
    with open(CHOICES, "w", encoding="utf-8") as file: # a plan that keeps the order takes no library from the file
        file.write("".join(re.sub(", or [^|]*", "", key) + "library\n" for key in keys))
    assert run_products("ordered.bin", "standin")[0] == ordered and not calls()
    os.remove(CHOICES)


def write_network():
    """A network of which the first layer's product, and its gradient, are a library's, for one rank and for two."""
    g = msc.Graph("network")
    x, y = g.input("x", "f32", [512, 8]), g.input("y", "i32", [512], role="label")
    h = g.relu(g.dense(x, 256, "wide"))
    g.loss(g.softmax_cross_entropy(g.dense(h, 4, "narrow"), y))
    g.optimizer("sgd", lr=0.5)
    g.save("network.fbs")
    write_npy("nx.npy", numbers(1024 * 8, 1), [1024, 8])
    write_npy("ny.npy", array.array("i", [i * 7 % 5 % 4 for i in range(1024)]), [1024])


def train(ranks, libraries, free=True, other="standin"):
    """Losses, and what was said; other: what rank 1 has of libraries."""
    plan = f"network{ranks}.bin"
    compile_plan("network.fbs", plan, f"device_num={ranks}", "parallel_mode=data_parallel", "gradients_mean=true",
                 f"deterministic={'false' if free else 'true'}")
    words = [MSC, "run", plan, "--trust-native", "--threads", "1", "--steps", "6", "--seed", "3", "--json", "--data",
             "x=nx.npy", "y=ny.npy"]
    script = 'if [ "$RANK" = 1 ]; then LD_LIBRARY_PATH=$OTHER; fi; exec "$@"'
    start = [MSC, "launch", "-n", str(ranks), "--", "sh", "-c", script, "sh"] if ranks > 1 else []
    done = subprocess.run([*start, *words], env={**environment(libraries), "OTHER": os.path.abspath(other)},
                          capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    return [line["loss"] for line in lines if "loss" in line], done.stderr


def check_ranks():
    ordered, _ = train(1, "standin", free=False)
    assert len(ordered) == 6 and not calls(), ordered
    assert train(2, "standin", free=False)[0] == ordered and not calls()
    for ranks, rows in ((1, 512), (2, 256)):
        losses, _ = train(ranks, "standin")
        called = calls()
        assert called == [f"{rows} 256 4", f"{rows} 256 8"], called
        worst = max(abs(v - w) for v, w in zip(losses, ordered))
        assert len(losses) == 6 and 0 < worst < 1e-5, (losses, ordered)


def check_one_rank_without():
    losses, said = train(2, "standin", other="none")
    assert not calls() and len(losses) == 6
    assert said.count("matrix products for which a library is faster: another rank does without it") == 1, said


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    os.mkdir("cache", 0o700)
    CHOICES = os.path.join(folder, "cache/msc/products/choices")
    make_libraries()
    results = write_products()
    compile_plan("model.fbs", "ordered.bin")
    compile_plan("model.fbs", "free.bin", "deterministic=false")
    for check in (check_default, check_preferred, check_absent, check_measured):
        attempt(check, results)
    write_network()
    attempt(check_ranks)
    attempt(check_one_rank_without)
    os.chdir("/")
finish()
