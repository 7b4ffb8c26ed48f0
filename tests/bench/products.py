"""products: matrix products [form, batch, m, n, k] in; for each the speed of msc's kernels beside torch's (MKL and
oneDNN), by turns, on one thread and on two; printed as GF/s and ratios.

    tests/bench/products.py [THREADS ...]     BENCH_PYTHON: a Python that has torch

A product is a plan of its own, executed by libmscrt in this process: tiles, packing and threads as in a network."""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/python"))
import msc
from msc import runtime

MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
PYTHONS = os.environ.get("BENCH_PYTHON", sys.executable).split(":")
ROUNDS, SECONDS = 5, 0.04  # of one measurement
FORMS = ("NN", "NT", "TN")
SIZES = (  # batch, m, n, k
    (1, 128, 128, 128), (1, 256, 256, 256), (1, 512, 512, 512), (1, 1024, 1024, 1024), (1, 1536, 1536, 1536),
    (1, 1024, 256, 256), (1, 1024, 1024, 256), (1, 1024, 256, 1024), (1, 1024, 4096, 256), (1, 256, 4096, 1024),
    (1, 2048, 768, 768), (1, 2048, 3072, 768), (1, 768, 3072, 2048), (1, 4096, 64, 1024), (1, 4096, 1024, 64),
    (1, 1024, 64, 4096), (1, 32, 512, 784), (1, 784, 512, 32), (1, 512, 256, 512), (1, 16, 1024, 1024),
    (64, 128, 128, 32), (64, 128, 32, 128), (32, 128, 64, 128), (8, 512, 64, 512), (8, 512, 512, 64),
    (1, 500, 300, 700), (1, 37, 1000, 333), (1, 1000, 10, 512), (1, 64, 3000, 100), (1, 2048, 2048, 512),
)


def operand_shapes(form, batch, m, n, k):
    lead = [batch] if batch > 1 else []
    return lead + ([k, m] if form[0] == "T" else [m, k]), lead + ([n, k] if form[1] == "T" else [k, n])


def write_plan(folder, form, size):
    g = msc.Graph("product")
    a, b = (g.parameter(name, "f32", shape, init="uniform:1")
            for name, shape in zip("ab", operand_shapes(form, *size)))
    product = g.matmul if size[0] == 1 else g.batch_matmul
    g.output("c", product(a, b, transpose_a=form[0] == "T", transpose_b=form[1] == "T", name="c"))
    model, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "plan.bin")
    g.save(model)
    subprocess.run([MSC, "compile", model, "-o", plan], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return plan


def seconds_of(threads, work):
    """Of one thread its own time, which other work of the machine disturbs less."""
    clock = time.process_time if threads == 1 else time.perf_counter
    begin = clock()
    work()
    return clock() - begin


class Mine:
    def __init__(self, folder, threads):
        self.folder, self.threads = folder, threads

    def open(self, form, size):
        self.plan = runtime.Plan(write_plan(self.folder, form, size), os.path.join(ROOT, "build/libmscrt.so"),
                                 threads=self.threads)

    def seconds(self, times):
        return seconds_of(self.threads, lambda: self.plan._call("mscrt_run", b"forward", times, None)) / times

    def close(self):
        self.plan.close()


class Peer:
    """torch in a process of its own, which answers a line with a line."""

    def __init__(self, python, threads):
        self.process = subprocess.Popen([python, os.path.abspath(__file__), "peer", str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def open(self, form, size):
        self.ask("open", form, size)

    def seconds(self, times):
        return self.ask("seconds", times)

    def close(self):
        pass


def serve(threads):
    import torch

    torch.set_num_threads(threads)
    for line in sys.stdin:
        verb, *args = json.loads(line)
        answer = None
        if verb == "open":
            form, size = args
            a, b = (torch.rand(shape) for shape in operand_shapes(form, *size))
            a, b = (x.transpose(-1, -2) if turned == "T" else x for x, turned in zip((a, b), form))
            c = torch.matmul(a, b)
        else:
            times = args[0]
            answer = seconds_of(threads, lambda: [torch.matmul(a, b, out=c) for _ in range(times)]) / times
        print(json.dumps(answer), flush=True)


def compare(contestants, form, size):
    """Median seconds of each, measured by turns."""
    times, taken = [], [[] for _ in contestants]
    for c in contestants:
        c.open(form, size)
        c.seconds(1)
        times.append(max(1, int(SECONDS / c.seconds(2))))
    for _ in range(ROUNDS):
        for c, num, found in zip(contestants, times, taken):
            found.append(c.seconds(num))
    for c in contestants:
        c.close()
    return [statistics.median(found) for found in taken]


def figures(threads, python):
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        mine, peer = Mine(folder, threads), Peer(python, threads)
        print(f"products of f32, {threads} thread(s), GF/s: msc, torch, ratio")
        for size in SIZES:
            for form in FORMS:
                ours, theirs = compare((mine, peer), form, size)
                work = 2 * math.prod(size) / 1e9
                ratios.append(theirs / ours)
                print(f"  {form} {'x'.join(map(str, size)):<18} {work / ours:7.1f} {work / theirs:7.1f}"
                      f" {theirs / ours:6.2f}", flush=True)
    print(f"  geometric mean {statistics.geometric_mean(ratios):.2f} (goal 1.0), worst {min(ratios):.2f} (goal 0.9)")


def main(threads=(1, 2)):
    for python in PYTHONS:
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            break
    else:
        return print("products: skipped: no Python of BENCH_PYTHON has torch")
    for num in threads:
        figures(num, python)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        serve(int(sys.argv[2]))
    else:
        main(map(int, sys.argv[1:] or ["1", "2"]))
