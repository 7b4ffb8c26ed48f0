#!/usr/bin/env python3
"""Files of PyTorch without PyTorch: what torch.save and its distributed checkpoints write, made here by Python's own
pickle and zipfile with modules that have the same names; read to the same values; what is damaged, compressed, not
contiguous, elsewhere, or names what has nothing to do with tensors is refused, and nothing is ever called."""
import collections
import io
import os
import pickle
import shutil
import struct
import sys
import types
import zipfile
from argparse import Namespace

from expect import Expect, write

expect = Expect()

# ---- the names that stand in the files ----


def module(name, **members):
    m = sys.modules.setdefault(name, types.ModuleType(name))
    for key, value in members.items():
        setattr(m, key, value)
        if isinstance(value, (type, types.FunctionType, Named)):
            value.__module__, value.__qualname__ = name, key


class Named:
    """Pickled as a name."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return self.name


class Size(tuple):

    def __reduce__(self):
        return Size, (tuple(self), )


class Data:
    """An object with members."""

    def __init__(self, **members):
        self.__dict__.update(members)


class Metadata(Data):
    pass


class TensorStorageMetadata(Data):
    pass


class BytesStorageMetadata(Data):
    pass


class ChunkStorageMetadata(Data):
    pass


class TensorProperties(Data):

    def __getstate__(self):
        return (self.dtype, False)


class MetadataIndex(Data):
    pass


class _StorageInfo(Data):
    pass


def _rebuild_tensor_v2(*args):
    raise SystemExit("called")


def load_url(*args):
    raise SystemExit("called")


META = (Metadata, TensorStorageMetadata, BytesStorageMetadata, ChunkStorageMetadata, TensorProperties, MetadataIndex)
F32, F8 = Named("float32"), Named("float8_e4m3fn")
module("torch", Size=Size, float32=F32, float8_e4m3fn=F8, FloatStorage=type("FloatStorage", (), {}),
       LongStorage=type("LongStorage", (), {}), ComplexFloatStorage=type("ComplexFloatStorage", (), {}))
module("torch._utils", _rebuild_tensor_v2=_rebuild_tensor_v2)
module("torch.hub", load_url=load_url)
module("torch.distributed.checkpoint.metadata", **{c.__name__: c for c in META})
module("torch.distributed.checkpoint.filesystem", _StorageInfo=_StorageInfo)
sys.modules["torch"]._utils = sys.modules["torch._utils"]


class Tensor:

    def __init__(self, storage, size, offset=0, stride=None, kind="FloatStorage", numel=1000):
        if stride is None:
            stride, step = [], 1
            for n in reversed(size):
                stride.insert(0, step)
                step *= n
        self.storage, self.args = Storage(storage, kind, numel), (offset, tuple(size), tuple(stride), False)

    def __reduce__(self):
        return _rebuild_tensor_v2, (self.storage, *self.args, collections.OrderedDict())


class Storage:

    def __init__(self, key, kind, numel):
        self.id = ("storage", getattr(sys.modules["torch"], kind), str(key), "cpu", numel)


class Pickler(pickle.Pickler):

    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None


def saved(value, storages, method=zipfile.ZIP_STORED, order="little", protocol=2):
    """What torch.save writes."""
    out, text = io.BytesIO(), io.BytesIO()
    Pickler(text, protocol).dump(value)
    with zipfile.ZipFile(out, "w", method) as z:
        z.writestr("archive/data.pkl", text.getvalue())
        z.writestr("archive/byteorder", order)
        for key, data in enumerate(storages):
            z.writestr(f"archive/data/{key}", data)
    return out.getvalue()


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def read(path):
    import json
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__")
    at = 8 + n
    return {
        k: (v["dtype"], v["shape"], data[at + v["data_offsets"][0]:at + v["data_offsets"][1]])
        for k, v in head.items()
    }


def refused(path, *words):
    expect(f"ckpt ls {path}", 1, lambda text: "" if all(w in text for w in words) and text.count("\n") == 1 else
           f"{words}")


# ---- a file of torch.save ----
state = {
    "model": collections.OrderedDict([("w", Tensor(0, (2, 3))), ("tied", Tensor(0, (3, ), offset=2)),
                                      ("scalar", Tensor(1, (), kind="LongStorage"))]),
    "optimizer": {"state": {0: {"exp_avg": Tensor(0, (1, 6), stride=(77, 1))}}, "param_groups": [{"lr": 0.1}]},
    "iteration": 7, "empty": Tensor(1, (0, 4)), "text": "x" * 300,
}
DATA = [floats(*range(6)), struct.pack("<q", -5)]
for protocol in (2, 4, 5):
    write("model.pt", saved(state, DATA, protocol=protocol))
    expect("ckpt convert model.pt -o model.safetensors", 0, "", "")
    expect.check(f"protocol {protocol}: {read('model.safetensors').keys()}", read("model.safetensors") == {
        "model.w": ("F32", [2, 3], DATA[0]), "model.tied": ("F32", [3], DATA[0][8:20]),
        "model.scalar": ("I64", [], DATA[1]), "optimizer.state.0.exp_avg": ("F32", [1, 6], DATA[0]),
        "empty": ("F32", [0, 4], b"")
    })
os.makedirs("hf")
write("hf/pytorch_model.bin", saved(state["model"], DATA))
expect("ckpt ls hf", 0, "", lambda text: "" if "tied " in text and "3 tensors" in text else text)

whole = saved(state, DATA)
for n in (0, 3, 4, 21, len(whole) // 3, len(whole) - 30, len(whole) - 1):
    write("cut.pt", whole[:n])
    refused("cut.pt", "cut.pt: ")
for wrong, words in (
    (saved(state, DATA, zipfile.ZIP_DEFLATED), "is compressed"),
    (saved(state, DATA, order="big"), "big endian"),
    (saved({"w": Tensor(0, (3, 2), stride=(1, 3))}, DATA), "tensor 'w': cut.pt: a tensor is not contiguous"),
    (saved({"w": Tensor(0, (7, ))}, DATA), "a tensor leaves its storage"),
    (saved({"w": Tensor(0, (2, ), offset=5)}, DATA), "a tensor leaves its storage"),
    (saved({"w": Tensor(0, (2**40, 2**40))}, DATA), "a tensor is not contiguous"),
    (saved({"w": Tensor(9, (2, ))}, DATA), "no member 'archive/data/9'"),
    (saved({"w": Tensor(0, (1, ), kind="ComplexFloatStorage")}, DATA), "torch.ComplexFloatStorage are not supported"),
    (saved({"w": os.system}, DATA), f"it names '{os.system.__module__}.system', which has nothing to do with tensors"),
    (saved({"w": eval}, DATA), "it names '__builtin__.eval'"),
    (saved({"w": "\0" + "x" * 9, "v": 2**70}, DATA), "a long number"),
):
    write("cut.pt", wrong)
    refused("cut.pt", words)
deep = Tensor(0, (1, ))
for _ in range(60):
    deep = {"a": deep}
write("cut.pt", saved(deep, DATA))
refused("cut.pt", "dictionaries are nested too deeply")
twice = {"w": 1}
for _ in range(30):
    twice = {"a": twice, "b": twice}
write("cut.pt", saved(twice, DATA))
refused("cut.pt", "too many dictionaries")
circle = {"w": Tensor(0, (1, ))}
circle["again"] = circle
write("cut.pt", saved(circle, DATA))
refused("cut.pt", "dictionaries are nested too deeply")


# What would be called is only read.
class Call:

    def __reduce__(self):
        return load_url, ("http://127.0.0.1/x", )


write("called.pt", saved({"w": Tensor(0, (6, )), "c": Call()}, DATA))
expect("ckpt ls called.pt", 0, "", lambda text: "" if text.splitlines()[-1].startswith("1 tensors, 24 bytes") else text)

# ---- Megatron-LM: parts of tensor parallelism, stages, gated layers ----
HIDDEN, WIDE = 4, 8


def matrix(rows, columns, first=0):
    return [[float(first + r * columns + c) for c in range(columns)] for r in range(rows)]


def flat(m):
    return floats(*(v for row in m for v in row))


def megatron(folder, parts, stages, gated, extra=None, change=lambda part: part):
    """Returns the whole tensors."""
    shutil.rmtree(folder, ignore_errors=True)
    whole = {"embedding.word_embeddings.weight": matrix(8, HIDDEN), "output_layer.weight": matrix(8, HIDDEN, 1000)}
    for i in range(2 * stages):
        name, first = f"decoder.layers.{i}.", 100 * (i + 1)
        whole[name + "self_attention.linear_qkv.weight"] = matrix(12, HIDDEN, first)
        whole[name + "self_attention.linear_proj.weight"] = matrix(HIDDEN, HIDDEN, first + 50)
        whole[name + "mlp.linear_fc1.weight"] = matrix(2 * WIDE, HIDDEN, first)
        whole[name + "mlp.linear_fc2.weight"] = matrix(HIDDEN, WIDE, first + 7)
        whole[name + "input_layernorm.weight"] = matrix(1, HIDDEN, first + 9)
    for stage in range(stages):
        for p in range(parts):
            model, storages = collections.OrderedDict(), []
            for name, m in whole.items():
                layer = int(name.split(".")[2]) if "layers" in name else None
                if layer is None and (stage > 0) != ("output" in name) and stages > 1:
                    continue
                if layer is not None and layer // 2 != stage:
                    continue
                rows, columns = len(m) // parts, len(m[0]) // parts
                if "proj" in name or "fc2" in name:
                    part = [row[p * columns:(p + 1) * columns] for row in m]
                elif "layernorm" in name:
                    part = m
                elif "fc1" in name and gated:
                    half = WIDE // parts
                    part = m[p * half:(p + 1) * half] + m[WIDE + p * half:WIDE + (p + 1) * half]
                else:
                    part = m[p * rows:(p + 1) * rows]
                local = name if layer is None else name.replace(f"layers.{layer}.", f"layers.{layer % 2}.")
                model[local] = Tensor(len(storages), (len(part), len(part[0])))
                storages.append(flat(part))
            model.update(extra or {})
            args = Namespace(swiglu=gated, tensor_model_parallel_size=parts)
            place = f"{folder}/mp_rank_{p:02}" + (f"_{stage:03}" if stages > 1 else "")
            os.makedirs(place)
            content = change({"model": model, "args": args, "iteration": 9})
            write(f"{place}/model_optim_rng.pt", saved(content, storages))
    return {name: ("F32", [len(m), len(m[0])], flat(m)) for name, m in whole.items()}


for parts, stages, gated in ((1, 1, True), (2, 1, False), (4, 1, True), (1, 3, False), (2, 2, True)):
    want = megatron("mega", parts, stages, gated)
    expect("ckpt convert mega -o mega.safetensors", 0, "", "")
    got = read("mega.safetensors")
    expect.check(f"Megatron, {parts} parts, {stages} stages, gated {gated}: {got.keys() ^ want.keys()}", got == want)
megatron("mega", 2, 1, False, {"adapter.weight": Tensor(0, (1, ))})
refused("mega", "it is not known how 'adapter.weight' is cut over the 2 ranks")
megatron("mega", 1, 1, False, {"adapter.weight": Tensor(0, (1, ))})
expect("ckpt ls mega", 0, "", lambda text: "" if "adapter.weight" in text and "checkpoint of Megatron-LM" in text else
       text)
megatron("mega", 2, 1, False)
whole = open("mega/mp_rank_01/model_optim_rng.pt", "rb").read()
write("mega/mp_rank_01/model_optim_rng.pt", saved({"model": {}}, []))
refused("mega", "part 1 has another ")
write("mega/mp_rank_01/model_optim_rng.pt", whole[:100])
refused("mega", "mp_rank_01/model_optim_rng.pt: zip: ")
megatron("mega", 1, 1, False, change=lambda part: {"iteration": 3})
refused("mega", "the files of Megatron-LM have no model")

# ---- a distributed checkpoint ----


def distributed(folder, protocol=4, change=lambda m: m, path="__0_0.distcp", transforms=None):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    chunks = {"w": (((0, 0), (2, 3)), ((2, 0), (1, 3))), "optim.m": (((0, ), (2, )), ((2, ), (2, )), ((4, ), (0, )))}
    data, places, files = {"__0_0.distcp": b"", "__1_0.distcp": b""}, {}, list(("__0_0.distcp", "__1_0.distcp"))
    for name, parts in chunks.items():
        for i, (offset, size) in enumerate(parts):
            num = size[0] * (size[1] if len(size) > 1 else 1)
            first = offset[0] * (size[1] if len(size) > 1 else 1)
            file = files[i % 2]
            text = saved(Tensor(0, size), [floats(*range(first, first + num))])
            places[MetadataIndex(fqn=name, offset=Size(offset), index=i)] = _StorageInfo(
                relative_path=path if file == "__0_0.distcp" else file, offset=len(data[file]), length=len(text),
                transform_descriptors=transforms)
            data[file] += text
    tensors = {
        name: TensorStorageMetadata(
            properties=TensorProperties(dtype=F32), size=Size((3, 3) if name == "w" else (4, )),
            chunks=[ChunkStorageMetadata(offsets=Size(o), sizes=Size(s)) for o, s in parts])
        for name, parts in chunks.items()
    }
    tensors["step"] = BytesStorageMetadata()
    places[MetadataIndex(fqn="step", offset=None, index=None)] = _StorageInfo(relative_path=path, offset=0, length=10)
    metadata = change(Metadata(state_dict_metadata=tensors, storage_data=places))
    write(f"{folder}/.metadata", pickle.dumps(metadata, protocol))
    for file, text in data.items():
        write(f"{folder}/{file}", text)


for protocol in (2, 4, 5):
    distributed("dcp", protocol)
    expect("ckpt convert dcp -o dcp.safetensors", 0, "", "")
    expect.check(f"distributed, protocol {protocol}", read("dcp.safetensors") == {
        "w": ("F32", [3, 3], floats(*range(9))), "optim.m": ("F32", [4], floats(*range(4)))})
expect("ckpt ls dcp", 0, "", lambda text: "" if "optim.m " in text and ", state\n" in text and "in 2 files" in text else
       text)
expect("ckpt convert dcp -o w.safetensors --parameters", 0, "", "")
expect.check("without the optimizer", list(read("w.safetensors")) == ["w"])


def without(key):

    def change(m):
        m.storage_data = {k: v for k, v in m.storage_data.items() if k.fqn != key}
        return m

    return change


def changed(name, **members):

    def change(m):
        m.state_dict_metadata[name].__dict__.update(members)
        return m

    return change


distributed("dcp", change=without("w"))
refused("dcp", "a chunk of 'w' is in no file")
distributed("dcp", change=changed("w", size=Size((4, 3))))
refused("dcp", "the shards of 'w' have 9 of its 12 elements")
distributed("dcp", change=changed("w", chunks=[ChunkStorageMetadata(offsets=Size((0, 0)), sizes=Size((3, 3)))]))
refused("dcp", "the chunk of 'w' has another shape or type than .metadata says")
distributed("dcp", change=lambda m: {"no": "metadata"})
refused("dcp", "this is no distributed checkpoint of PyTorch")
distributed("dcp", path="../__0_0.distcp")
refused("dcp", "'../__0_0.distcp' is no file of this folder")
distributed("dcp", transforms=["zstd"])
refused("dcp", "is compressed, or changed in another way")
distributed("dcp", change=changed("w", properties=TensorProperties(dtype=F8)))
expect("ckpt convert dcp -o no.safetensors", 1, lambda text: "" if "tensor 'w' is not supported" in text else text)
distributed("dcp")
os.unlink("dcp/__1_0.distcp")
refused("dcp", "__1_0.distcp: cannot open")
distributed("dcp")
text = open("dcp/.metadata", "rb").read()
for n in (0, 1, 30, len(text) // 2, len(text) - 1):
    write("dcp/.metadata", text[:n])
    refused("dcp", "dcp/.metadata: pickle: ")
expect.check("nothing half-written", not os.path.exists("no.safetensors"))
expect.done()
