"""network: a model's IR text and its recorded losses in; files of its data and initial weights, made from formulas,
out."""
import array
import json
import os
import re
import sys

import formula
from program import call


class Network:
    """The arguments of a model, from its IR text, and its recorded losses, whose first line says what they were made
    from."""

    def __init__(self, name, text, losses):
        self.name = name
        head, *rest = losses.splitlines()
        self.losses = [float(v) for v in rest]
        self.batch, self.samples, self.classes = map(
            int,
            re.search(r"batch (\d+), (\d+) samples in order, (\d+) classes", head).groups())
        types = re.findall(r"%([\w.]+): tensor<((?:\d+x)*)(\w+)>", re.search(r"\^bb0\((.*)\):", text).group(1))
        attrs = [
            dict(re.findall(r'msc\.(name|role|init) = "([^"]*)"', entry))
            for entry in re.findall(r"\{([^{}]*msc\.name = [^{}]*)\}", text[text.index("arg_attrs"):])
        ]
        self.args = []
        for (name, dims, dtype), entry in zip(types, attrs):
            assert name == entry["name"]
            self.args.append((name, entry["role"], [int(d) for d in dims.split("x") if d], dtype, entry.get("init")))

    def samples_of(self, role, shape, dtype):
        for s in range(self.samples):
            if role == "data":
                yield formula.tokens(s, shape[1]) if dtype == "i32" else formula.data(
                    s, formula.count(shape[1:]), self.classes)
            elif dtype == "i32":
                yield formula.next_tokens(s, shape[1]) if len(shape) > 1 else [formula.label(s, self.classes)]
            else:
                yield formula.probabilities(s, shape[-1]) if shape[-1] == self.classes else formula.target(s, shape[-1])

    def write_data(self, folder):
        files = []
        for name, role, shape, dtype, _ in self.args:
            if role == "parameter":
                continue
            numbers = array.array("i" if dtype == "i32" else "f")
            for sample in self.samples_of(role, shape, dtype):
                numbers.extend(sample)
            path = os.path.join(folder, f"{self.name}.{name}.npy")
            write_npy(path, numbers, [self.samples] + shape[1:])
            files.append(f"{name}={path}")
        return files

    def write_weights(self, folder):
        header, blobs, at = {}, [], 0
        for i, (name, role, shape, _, init) in enumerate(self.args):
            if role != "parameter":
                continue
            blob = array.array("f", formula.weights(i, init, formula.count(shape))).tobytes()
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(blob)]}
            blobs.append(blob)
            at += len(blob)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = os.path.join(folder, self.name + ".safetensors")
        with open(path, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))
        return path


# What ranks exchange in every way: replicas, tensor parallelism, the parallel optimizer, a pipeline: (ranks, keys).
PLANS_OF_RANKS = [
    (3, {"parallel_mode": "data_parallel", "gradients_mean": True}),
    (4, {"parallel_mode": "auto_parallel", "mesh": {"dp": 2, "tp": 2}}),
    (4, {"parallel_mode": "semi_auto_parallel", "mesh": {"dp": 4}, "zero": 2,
         "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}),
    (4, {"parallel_mode": "semi_auto_parallel", "pipeline_stages": 2, "micro_size": 4, "mesh": {"dp": 2}}),
]


def write_gpt(rng, layers, samples, seq, batch, vocab, *options):
    """gpt.fbs, and x.npy and y.npy with random tokens and what follows each: all three in this folder."""
    tokens = [rng.randrange(vocab) for _ in range(samples * seq)]
    write_npy("x.npy", array.array("i", tokens), [samples, seq])
    write_npy("y.npy", array.array("i", [(t * 5 + 1) % vocab for t in tokens]), [samples, seq])
    call(sys.executable, "-m", "msc.models", "gpt", "--layers", str(layers), "--hidden", "16", "--heads", "2", "--seq",
         str(seq), "--batch", str(batch), "--vocab", str(vocab), *options, "--optimizer", "adam", "--lr", "0.01", "-o",
         "gpt.fbs")


def read_weights(path):
    """The f32 numbers of each tensor in a file in the format safetensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        numbers = file.read()
    return {
        name: array.array("f", numbers[slice(*entry["data_offsets"])])
        for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"
    }


def write_npy(path, numbers, shape):
    kind = {"i": "<i4", "q": "<i8"}.get(numbers.typecode, "<f4")
    dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({dims}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())
