#!/usr/bin/env python3
"""digits: the 1,797 handwritten digits of scikit-learn (8x8, 0..16) in; MNIST-like idx files (28x28, 0..255) out.

  digits.py FOLDER                  writes FOLDER/images.idx and FOLDER/labels.idx
  digits.py --extract WHEEL OUT     takes the data file out of a scikit-learn wheel (tools/setup does it)

scikit-learn itself is not imported."""
import gzip
import importlib.util
import os
import struct
import sys
import zipfile

MEMBER = "sklearn/datasets/data/digits.csv.gz"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find():
    candidates = [os.path.join(ROOT, ".venv", "digits.csv.gz")]
    spec = importlib.util.find_spec("sklearn")
    if spec and spec.submodule_search_locations:
        candidates.append(os.path.join(spec.submodule_search_locations[0], "datasets", "data", "digits.csv.gz"))
    for path in candidates:
        if os.path.exists(path):
            return path
    sys.exit("digits: neither .venv/digits.csv.gz nor an installed scikit-learn; run tools/setup or set MSC_MNIST_DIR")


def taps():
    """Output pixel i of 28 lies at (4i - 5) / 14 of 8 pixels: (left, right, 14ths of the right one)."""
    result = []
    for i in range(28):
        place = min(max(4 * i - 5, 0), 7 * 14)
        left = min(place // 14, 6)
        result.append((left, left + 1, place - 14 * left))
    return result


def scale(pixels, weights):
    """Bilinear in whole numbers, so that every machine makes the same bytes."""
    wide = [[row[a] * (14 - w) + row[b] * w for a, b, w in weights]
            for row in (pixels[8 * r:8 * r + 8] for r in range(8))]
    out = bytearray()
    for a, b, w in weights:
        out += bytes((p * (14 - w) + q * w) * 255 // (16 * 196) for p, q in zip(wide[a], wide[b]))
    return out


def write(path, shape, data):
    with open(path + ".new", "wb") as out:
        out.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + data)
    os.replace(path + ".new", path)


def main():
    if sys.argv[1:2] == ["--extract"] and len(sys.argv) == 4:
        with zipfile.ZipFile(sys.argv[2]) as wheel, open(sys.argv[3], "wb") as out:
            out.write(wheel.read(MEMBER))
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    weights, images, labels = taps(), bytearray(), bytearray()
    with gzip.open(find(), "rt") as lines:
        for line in lines:
            values = [int(float(v)) for v in line.split(",")]
            images += scale(values[:64], weights)
            labels.append(values[64])
    os.makedirs(sys.argv[1], exist_ok=True)
    write(os.path.join(sys.argv[1], "images.idx"), (len(labels), 28, 28), images)
    write(os.path.join(sys.argv[1], "labels.idx"), (len(labels),), labels)


main()
