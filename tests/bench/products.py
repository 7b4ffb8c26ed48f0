"""products: matrix products [form, batch, m, n, k] in; for each the speed of msc's kernels beside the libraries that
can be loaded, by turns, on one thread and on two; printed as GF/s and as ratios to the best of them.

    tests/bench/products.py [THREADS ...] [hot|cold ...] [f32|bf16] [avx2] [BATCHxMxNxK ...]
    tests/bench/products.py 1 hot avx2                            all of them limited to AVX2

BENCH_PYTHON: Pythons that may have torch and numpy, with colons.  Cold: other memory is written before each product,
more than the caches of a core hold.
The libraries: torch (its matmul, MKL), torch's oneDNN (its linear layer, without transposed a), oneDNN (libdnnl.so.2)
and OpenBLAS (numpy's own, or libopenblas.so.0).  For bf16 torch alone.
A product is a plan of its own, executed by libmscrt in this process: tiles, packing and threads as in a network."""
import array
import ctypes
import functools
import glob
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
    (1, 64, 64, 64), (1, 96, 96, 96), (1, 192, 192, 192), (1, 384, 384, 384), (1, 768, 768, 768),
    (1, 1024, 768, 256), (1, 1024, 1376, 512), (1, 1024, 512, 1376), (1, 512, 1376, 1024), (1, 4096, 256, 1024),
    (1, 1, 1024, 1024), (1, 4, 1024, 1024), (1, 8, 512, 512), (1, 32, 1024, 1024), (1, 32, 256, 512),
    (1, 64, 512, 512), (1, 128, 1024, 256), (1, 1024, 32, 256), (1, 1024, 100, 512), (1, 512, 10, 64),
    (1, 1024, 1024, 16), (1, 256, 256, 4096), (1, 65, 257, 129), (1, 1000, 1000, 1000), (1, 333, 777, 555),
    (64, 128, 128, 64), (64, 128, 64, 128), (16, 256, 256, 64), (16, 256, 64, 256), (128, 64, 64, 64),
)
# Narrower vectors for every library.
AVX2 = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell"}
DTYPE = os.environ.get("BENCH_DTYPE", "f32")  # of operands and result, for the processes of libraries too
LEVEL = []  # of msc's code: options of msc compile
FLUSHED = 32 << 20  # bytes that are written to empty the caches


def operand_shapes(form, batch, m, n, k):
    lead = [batch] if batch > 1 else []
    return lead + ([k, m] if form[0] == "T" else [m, k]), lead + ([n, k] if form[1] == "T" else [k, n])


def write_plan(folder, form, size):
    g = msc.Graph("product")
    a, b = (g.parameter(name, DTYPE, shape, init="uniform:1")
            for name, shape in zip("ab", operand_shapes(form, *size)))
    product = g.matmul if size[0] == 1 else g.batch_matmul
    g.output("c", product(a, b, transpose_a=form[0] == "T", transpose_b=form[1] == "T", name="c"))
    model, plan = os.path.join(folder, "model.fbs"), os.path.join(folder, "plan.bin")
    g.save(model)
    subprocess.run([MSC, "compile", model, "-o", plan, *LEVEL], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return plan


def seconds_of(threads, work, times, cold):
    """Of work(times) for each time; of one thread its own time, which other work of the machine disturbs less."""
    clock = time.process_time if threads == 1 else time.perf_counter
    taken = 0
    for _ in range(times if cold else 1):
        if cold:
            ctypes.memset(other_memory(), 1, FLUSHED)
        begin = clock()
        work(1 if cold else times)
        taken += clock() - begin
    return taken / times


@functools.cache
def other_memory():
    return (ctypes.c_char * FLUSHED)()


class Mine:
    def __init__(self, folder, threads):
        self.folder, self.threads = folder, threads

    def open(self, form, size):
        self.plan = runtime.Plan(write_plan(self.folder, form, size), os.path.join(ROOT, "build/libmscrt.so"),
                                 threads=self.threads)
        return True

    def seconds(self, times, cold=False):
        return seconds_of(self.threads, lambda n: self.plan._call("mscrt_run", b"forward", n, None), times, cold)

    def close(self):
        self.plan.close()


class Peer:
    """A library in a process of its own, which answers a line with a line."""

    def __init__(self, python, library, threads):
        self.process = subprocess.Popen([python, os.path.abspath(__file__), "peer", library, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads), **(AVX2 if LEVEL else {})})

    def ask(self, *question):
        """The answer; None: the process has ended, because its library cannot be loaded."""
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def open(self, form, size):
        """Whether the library has such a product."""
        return self.ask("open", form, size)

    def seconds(self, times, cold=False):
        return self.ask("seconds", times, cold)

    def close(self):
        pass


# ---- libraries: threads in; [form, size] -> a product to call, None: the library has none ----

TORCH = {"f32": "float32", "bf16": "bfloat16"}  # its names of types


def torch_matmul(threads):
    import torch

    torch.set_num_threads(threads)

    def open_product(form, size):
        a, b = (torch.rand(shape).to(getattr(torch, TORCH[DTYPE])) for shape in operand_shapes(form, *size))
        a, b = (x.transpose(-1, -2) if turned == "T" else x for x, turned in zip((a, b), form))
        c = torch.matmul(a, b)
        return lambda: torch.matmul(a, b, out=c)

    return open_product


def torch_onednn(threads):
    import torch

    torch.set_num_threads(threads)
    linear = torch.ops.mkldnn._linear_pointwise

    def open_product(form, size):
        if size[0] > 1 or form[0] == "T" or DTYPE != "f32":
            return None
        a, b = (torch.rand(shape).to(getattr(torch, TORCH[DTYPE])) for shape in operand_shapes(form, *size))
        weight = b if form[1] == "T" else b.t()
        linear(a, weight, None, "none", [], "")
        return lambda: linear(a, weight, None, "none", [], "")

    return open_product


def by_pointers(multiply, integer):
    """multiply(turned a, turned b, m, n, k, a, lda, b, ldb, c, ldc) as a library's products, one after the other of a
    batch."""

    def open_product(form, size):
        if DTYPE != "f32":
            return None
        batch, m, n, k = size
        few = array.array("f", [i / 16 - 0.5 for i in range(17)]).tobytes()
        a, b, c = ((ctypes.c_float * (batch * elems)).from_buffer(
            bytearray((few * (batch * elems // 17 + 1))[:4 * batch * elems])) for elems in (m * k, k * n, m * n))
        strides = (integer(m if form[0] == "T" else k), integer(k if form[1] == "T" else n), integer(n))
        at = [[ctypes.byref(x, 4 * i * elems) for x, elems in ((a, m * k), (b, k * n), (c, m * n))]
              for i in range(batch)]
        sizes = tuple(map(integer, (m, n, k)))
        turned = [t == "T" for t in form]

        def run():
            for x, y, z in at:
                multiply(*turned, *sizes, x, strides[0], y, strides[1], z, strides[2])

        return run

    return open_product


def onednn(_):
    sgemm = ctypes.CDLL("libdnnl.so.2").dnnl_sgemm
    one, zero, letter = ctypes.c_float(1), ctypes.c_float(0), {True: ctypes.c_char(b"T"), False: ctypes.c_char(b"N")}
    return by_pointers(
        lambda ta, tb, m, n, k, a, lda, b, ldb, c, ldc: sgemm(letter[ta], letter[tb], m, n, k, one, a, lda, b, ldb,
                                                              zero, c, ldc), ctypes.c_int64)


def openblas(threads):
    integer, prefix, suffix = ctypes.c_int64, "scipy_", "64_"
    try:
        import numpy

        library = ctypes.CDLL(glob.glob(os.path.dirname(numpy.__file__) + "/../numpy.libs/libscipy_openblas64_*.so")[0])
    except (ImportError, IndexError):
        library, integer, prefix, suffix = ctypes.CDLL("libopenblas.so.0"), ctypes.c_int, "", ""
    sgemm = getattr(library, f"{prefix}cblas_sgemm{suffix}")
    getattr(library, f"{prefix}openblas_set_num_threads{suffix}")(threads)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    return by_pointers(
        lambda ta, tb, m, n, k, a, lda, b, ldb, c, ldc: sgemm(101, 112 if ta else 111, 112 if tb else 111, m, n, k, one,
                                                              a, lda, b, ldb, zero, c, ldc), integer)


LIBRARIES = {"torch": torch_matmul, "torch-onednn": torch_onednn, "onednn": onednn, "openblas": openblas}


def serve(library, threads):
    open_product = LIBRARIES[library](threads)
    for line in sys.stdin:
        verb, *args = json.loads(line)
        if verb == "open":
            product = open_product(*args)
            answer = product is not None
        else:
            answer = seconds_of(threads, lambda n: [product() for _ in range(n)], *args)
        print(json.dumps(answer), flush=True)


def compare(contestants, form, size, cold):
    """Median seconds of each, measured by turns; infinite where a library has no such product."""
    times, taken = [0] * len(contestants), [[] for _ in contestants]
    for i, c in enumerate(contestants):
        if c.open(form, size):
            c.seconds(1)
            times[i] = 4 if cold else max(1, int(SECONDS / c.seconds(2)))
    for _ in range(ROUNDS):
        for c, num, found in zip(contestants, times, taken):
            if num:
                found.append(c.seconds(num, cold))
    for c in contestants:
        c.close()
    return [statistics.median(found) if found else math.inf for found in taken]


def figures(threads, libraries, cold, sizes):
    """Prints a row for each product; of those that a library computes faster the list, worst first."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        peers = [Peer(python, library, threads) for library, python in libraries.items()]
        print(f"products of {DTYPE}, {threads} thread(s), {'cold' if cold else 'hot'}{', AVX2' if LEVEL else ''}, "
              f"GF/s: msc, {', '.join(libraries)}; ratio to the best of them")
        for size in sizes:
            for form in FORMS:
                ours, *theirs = compare([Mine(folder, threads), *peers], form, size, cold)
                work, what = 2 * math.prod(size) / 1e9, f"{form} {'x'.join(map(str, size))}"
                rows.append((min(theirs) / ours, what, list(libraries)[theirs.index(min(theirs))]))
                print(f"  {what:<21} {work / ours:7.1f} " + "".join(f"{work / t:7.1f} " for t in theirs) +
                      f" {rows[-1][0]:6.2f}", flush=True)
    ratios = [ratio for ratio, *_ in rows]
    print(f"  geometric mean {statistics.geometric_mean(ratios):.2f} (goal 1.0), worst {min(ratios):.2f} (goal 0.9)")
    for ratio, what, library in sorted(rows):
        if ratio < 0.95:
            print(f"  {library} is faster: {what}, {ratio:.2f}")


def find_libraries():
    """By name the Python that can load it."""
    found = {}
    for library in LIBRARIES:
        for python in [*PYTHONS, sys.executable]:
            if Peer(python, library, 1).ask("open", "NN", [1, 2, 2, 2]):
                found.setdefault(library, python)
    return found


def main(words=()):
    global DTYPE
    DTYPE = os.environ["BENCH_DTYPE"] = "bf16" if "bf16" in words else DTYPE
    LEVEL[:] = ["--mcpu", "x86-64-v3"] if "avx2" in words else []
    threads = [int(w) for w in words if w.isdigit()] or [1, 2]
    caches = [w for w in words if w in ("hot", "cold")] or ["hot", "cold"]
    sizes = [tuple(map(int, w.split("x"))) for w in words if w[0].isdigit() and "x" in w] or SIZES
    libraries = find_libraries()
    if not libraries:
        return print(f"products: skipped: none of {', '.join(LIBRARIES)} can be loaded")
    for num in threads:
        for cache in caches:
            figures(num, libraries, cache == "cold", sizes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1:])
