"""python3 -m msc.criteo -o FOLDER: made-up clicks in the shape of Criteo's: x.npy [samples, fields] of categories,
numbers.npy [samples, dense], and y.npy [samples, 1], 1 for a click.

Categories are drawn by Zipf's law: number k of a field comes up in proportion to 1 / (k + 1)^skew.  Every category and
every number speaks for or against a click by a weight of its own, so that there is something to learn.  The same
options give the same files anywhere."""
import argparse
import array
import bisect
import itertools
import math
import os
import random
import struct
import sys


def write_npy(path, numbers, shape):
    kind = {"i": "<i4", "f": "<f4"}[numbers.typecode]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    if sys.byteorder == "big":
        numbers = array.array(numbers.typecode, numbers)
        numbers.byteswap()
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers.tobytes())


def opinion(seed, field, category):
    """The weight of a category: in -1 .. 1, the same whenever it is asked for."""
    return random.Random(f"{seed}/{field}/{category}").uniform(-1, 1)


def make(samples, fields=26, vocab=1000, dense=13, skew=1.05, seed=0):
    """(categories, numbers, clicks) as flat arrays."""
    draw, weights = random.Random(seed), {}
    sums = list(itertools.accumulate((k + 1.0)**-skew for k in range(vocab)))
    x, numbers, y = array.array("i"), array.array("f"), array.array("f")
    for _ in range(samples):
        score = 0.0
        for f in range(fields):
            k = min(bisect.bisect_right(sums, draw.random() * sums[-1]), vocab - 1)
            if (f, k) not in weights:
                weights[f, k] = opinion(seed, f, k)
            score += weights[f, k]
            x.append(k)
        for i in range(dense):
            v = draw.gauss(0, 1)
            score += (i % 3 - 1) * v / 2
            numbers.append(v)
        y.append(float(draw.random() < 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))))
    return x, numbers, y


def main(argv):
    p = argparse.ArgumentParser(prog="python3 -m msc.criteo", description="Makes up clicks in the shape of Criteo's.")
    p.add_argument("-o", dest="out", required=True, metavar="FOLDER", help="where x.npy, numbers.npy and y.npy go")
    for name, default, text in (("samples", 10000, "how many"), ("fields", 26, "numbers of categories per sample"),
                                ("vocab", 1000, "categories per field"), ("dense", 13, "other numbers per sample"),
                                ("seed", 0, "of everything that is drawn")):
        p.add_argument("--" + name, type=int, default=default, metavar="N", help=f"{text} ({default})")
    p.add_argument("--skew", type=float, default=1.05, metavar="S", help="of Zipf's law (1.05)")
    o = p.parse_args(argv)
    if min(o.samples, o.fields, o.vocab) < 1 or o.dense < 0:
        p.error("samples, fields and vocab must be at least 1, dense at least 0")
    x, numbers, y = make(o.samples, o.fields, o.vocab, o.dense, o.skew, o.seed)
    try:
        os.makedirs(o.out, exist_ok=True)
        write_npy(os.path.join(o.out, "x.npy"), x, (o.samples, o.fields))
        write_npy(os.path.join(o.out, "numbers.npy"), numbers, (o.samples, o.dense))
        write_npy(os.path.join(o.out, "y.npy"), y, (o.samples, 1))
    except OSError as e:
        sys.exit(f"msc.criteo: error: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
