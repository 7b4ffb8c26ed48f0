#!/usr/bin/env python3
"""msc ckpt: what a checkpoint holds and whether it is sound; merged, sliced for other ranks, converted under other
names into one file or sharded ones with an index, and back to the same bits; differences; wrong input. Where the
public safetensors package is there, it reads what was written."""
import json
import os
import shutil
import struct
import zlib

from expect import Expect, write
from small_models import two_products, write_samples

V1 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt", "v1")
os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
MODEL = two_products(dropout=False, names=("layers.0.w", "head.w"))
write("net.mlir", MODEL)
write_samples(44)
RUN = "--trust-native --data x=x.idx y=y.idx --seed 5 --json"
ZERO = "--set zero=1 --set parallel_optimizer_config={\"parallel_optimizer_threshold\":0}"
for name, keys in (("one", ""), ("two", f"--set device_num=2 --set parallel_mode=data_parallel {ZERO}"),
                   ("three", f"--set device_num=3 --set parallel_mode=data_parallel {ZERO}")):
    expect(f"compile net.mlir -o {name}.bin --set gradients_mean=true {keys}", 0, None)
expect(f"run two.bin {RUN} --steps 6 --ckpt-dir c --ckpt-every 3 --save trained.safetensors", 0, "")
LAST, BEFORE = "c/step-000000000006", "c/step-000000000003"


def read(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {
        k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
        for k, v in head.items()
    }


def said(*words):
    return lambda text: "" if all(word in text for word in words) else f"{words}"


# ls
text = expect(f"ckpt ls {LAST}", 0, "").stdout.decode()
expect.check(f"ls {text}", text.startswith(f"{LAST}: checkpoint of msc, step 6, seed 5, 48 samples read, of 2 ranks")
             and "layers.0.w.m " in text and "in 2 shards, state\n" in text and text.endswith("in 2 files\n"))
told = json.loads(expect(f"ckpt ls {LAST} --json", 0, "").stdout)
tensors = {t["name"]: t for t in told["tensors"]}
expect.check("ls --json", told["step"] == 6 and told["ranks"] == 2 and tensors["layers.0.w"]["shape"] == [12, 6] and
             not tensors["layers.0.w"]["state"] and tensors["layers.0.w.m"]["state"] and
             [s["begin"] for s in tensors["layers.0.w.m"]["shards"]] == [[0, 0], [6, 0]])
text = expect("ckpt ls c", 0, "").stdout.decode()
expect.check("all of a folder, the newest first", 0 <= text.find(LAST) < text.find(BEFORE))

# one that version 1 of the format wrote stays readable
expect(f"ckpt verify {V1}", 0, "", said("sound, 7 tensors, 1156 bytes in 2 files"))
expect(f"ckpt merge {V1} -o v1.safetensors", 0, "", "")
kept = read("v1.safetensors")
expect.check("version 1", kept["layers.0.w"][1] == [12, 6] and
             zlib.crc32(b"".join(kept[name][2] for name in sorted(kept))) == 0xbf8376ea)
os.makedirs("v1")
shutil.copytree(V1, "v1/step-000000000006")
expect(f"run three.bin {RUN} --steps 7 --ckpt-dir v1 --resume", 0, "", said('"step":7'))

# merge, and the same through other slices
expect(f"ckpt merge {LAST} -o all.safetensors", 0, "", "")
whole, trained = read("all.safetensors"), read("trained.safetensors")
expect.check("merged", set(whole) == set(tensors) and all(whole[name] == trained[name] for name in trained))
expect("ckpt merge c -o newest.safetensors", 0, "", "")
expect.check("of a folder of checkpoints the newest", read("newest.safetensors") == whole)
os.remove("newest.safetensors")
expect(f"ckpt merge {LAST} -o some.safetensors --parameters", 0, "", "")
expect.check("without state", read("some.safetensors") == trained)
expect(f"ckpt slice {LAST} --plan three.bin -o three", 0, "", "")
expect(f"ckpt diff {LAST} three", 0, "", said("equal: "))
expect("ckpt diff three all.safetensors", 0, "", said("equal: "))
expect.check("three files", sorted(os.listdir("three")) == ["manifest.json"] +
             [f"rank-{r:05}.safetensors" for r in range(3)])
again = json.loads(expect("ckpt ls three --json", 0, "").stdout)
expect.check("progress stays", [again[k] for k in ("step", "seed", "samples", "ranks")] == [6, 5, 48, 3])
os.makedirs("d")
shutil.copytree("three", "d/step-000000000006")
straight = expect(f"run three.bin {RUN} --steps 8", 0, "").stdout.decode().splitlines()[6:8]
on = expect(f"run three.bin {RUN} --steps 8 --ckpt-dir d --resume", 0, "").stdout.decode().splitlines()[:2]
expect.check(f"a slice goes on {on} {straight}",
             all(abs(json.loads(a)["loss"] - json.loads(b)["loss"]) < 1e-4 for a, b in zip(on, straight)))
expect("ckpt slice trained.safetensors --plan two.bin -o begun", 0, "", "")
state = json.loads(expect("ckpt ls begun --json", 0, "").stdout)
expect.check("a file of parameters alone is a start", state["step"] == 0 and len(state["tensors"]) == len(tensors))
expect("ckpt diff begun trained.safetensors --parameters", 0, "", said("equal: "))

# diff
expect(f"ckpt diff {LAST} {BEFORE}", 1, "", said("head.w: ", " of 24 elements, the first is number ", " by "))
lines = expect(f"ckpt diff {LAST} trained.safetensors", 1, "").stdout.decode().splitlines()
expect.check(f"only in one {lines}", len(lines) == len(tensors) - 2 and
             all(line.endswith(f": only in {LAST}") for line in lines))
told = json.loads(expect(f"ckpt diff {LAST} {BEFORE} --json", 1, "").stdout)
expect.check("diff --json", not told["equal"] and "layers.0.w" in [d["name"] for d in told["differences"]])

# convert: names, transposition, sharded files; and back
write("names.json", json.dumps({
    "layers.*.w": {"name": "model.layers.*.mlp.weight", "transpose": True}, "head.w": "lm_head.weight",
    "*.m": None, "*.v": None, "optimizer.*": None
}))
expect(f"ckpt convert {LAST} -o hf.safetensors --map names.json", 0, "", "")
foreign = read("hf.safetensors")
rows = struct.unpack("<72f", trained["layers.0.w"][2])
expect.check(f"names {foreign.keys()}", set(foreign) == {"model.layers.0.mlp.weight", "lm_head.weight"})
expect.check("turned", foreign["model.layers.0.mlp.weight"][1] == [6, 12] and
             struct.unpack("<72f", foreign["model.layers.0.mlp.weight"][2]) == tuple(
                 rows[r * 6 + c] for c in range(6) for r in range(12)))
expect("ckpt convert hf.safetensors -o back.safetensors --map names.json --reverse", 0, "", "")
expect.check("and back", read("back.safetensors") == trained)
expect(f"ckpt convert {LAST} -o hf --parameters --shard-bytes 300", 0, "", "")
index = json.load(open("hf/model.safetensors.index.json"))
expect.check(f"sharded {index}", index["metadata"]["total_size"] == 4 * (72 + 24) and index["weight_map"] == {
    "head.w": "model-00001-of-00002.safetensors", "layers.0.w": "model-00002-of-00002.safetensors"
} and len(os.listdir("hf")) == 3)
expect("ckpt diff hf trained.safetensors", 0, "", said("equal: "))
expect("ckpt diff hf/model.safetensors.index.json trained.safetensors", 0, "", said("equal: "))
expect("ckpt convert hf -o single", 0, "", "")
expect.check("one file of a folder", os.listdir("single") == ["model.safetensors"] and
             read("single/model.safetensors") == trained)
expect(f"run one.bin {RUN} --steps 0 --init hf --save w1.safetensors", 0, "")
expect.check("a sharded start", read("w1.safetensors") == trained)

# verify
expect("ckpt verify c", 0, "", said(f"{LAST}: sound, ", f"{BEFORE}: sound, "))
expect("ckpt verify hf", 0, "", said("hf: complete, without checksums, 2 tensors, 384 bytes in 2 files"))
expect.check("verify --json", json.loads(expect(f"ckpt verify {LAST} --json", 0, "").stdout)["ok"])
shutil.copytree("c", "bad")
with open("bad/step-000000000003/rank-00000.safetensors", "r+b") as file:
    file.seek(-1, os.SEEK_END)
    file.write(b"\x55")
expect("ckpt verify bad", 1, said("rank-00000.safetensors: is damaged: the checksum of tensor"), said(f"6: sound"))
expect("ckpt merge bad/step-000000000003 -o no.safetensors", 1, said("is damaged: the checksum of tensor"), "")
expect("ckpt convert bad/step-000000000003 -o no", 1, said("is damaged: the checksum of tensor"), "")
expect("ckpt slice bad/step-000000000003 --plan one.bin -o no", 1, said("is damaged: the checksum of tensor"), "")

# wrong input
for command, code, words in (
    ("ckpt list c", 2, ("'list' is none of ls, verify, merge, slice, convert, diff", )),
    ("ckpt diff c", 2, ("diff takes two paths", )),
    ("ckpt ls c c", 2, ("ls takes one path", )),
    ("ckpt ls c -o x", 2, ("ls takes no -o", )),
    (f"ckpt merge {LAST}", 2, ("-o W.safetensors is missing", )),
    (f"ckpt merge {LAST} -o x", 2, ("-o names a .safetensors file", )),
    (f"ckpt slice {LAST} -o x", 2, ("--plan plan.bin and -o DIR", )),
    (f"ckpt convert {LAST} -o x.safetensors --shard-bytes 3", 2, ("--shard-bytes needs a folder", )),
    (f"ckpt convert {LAST} -o x --reverse", 2, ("--reverse needs --map", )),
    ("ckpt ls nowhere", 1, ("nowhere: cannot open: No such file or directory", )),
    ("ckpt ls .", 1, ("neither a checkpoint", )),
    (f"ckpt merge all.safetensors -o all.safetensors", 1, ("it is the input 'all.safetensors'", )),
    (f"ckpt slice three --plan three.bin -o three", 1, ("it is an input of this command", )),
    (f"ckpt convert {LAST} -o hf", 1, ("hf: is there already, with other content", )),
    (f"ckpt slice {LAST} --plan two.bin -o net.mlir", 1, ("net.mlir: is there already, with other content", )),
    (f"ckpt slice {LAST} --plan net.mlir -o x", 1, ("not a plan", )),
    (f"ckpt slice {LAST} --plan two.bin -o no/x", 1, ("cannot create: No such file", )),
    ("ckpt slice hf.safetensors --plan two.bin -o x", 1, ("lacks the parameter 'layers.0.w' of the plan",
                                                          "lacks the parameter 'head.w'")),
):
    expect(command, code, said(*words), "")
for text, words in (("[]", "not an object"), ("{", "line 1, column 1"), ('{"head.w": 3}', "neither a name"),
                    ('{"none": "x"}', "'none': there is no such tensor"),
                    ('{"head.w": "layers.0.w"}', "two tensors become 'layers.0.w'"),
                    ('{"*.w": "x"}', "a * on one side only"), ('{"*.*": "*"}', "more than one *"),
                    ('{"head.w": "a", "head.w": "b"}', "duplicate"),
                    ('{"head.w": {"transpose": true}}', "the members name"),
                    ('{"optimizer.*": {"name": "o.*", "transpose": true}}', "must be a matrix")):
    write("wrong.json", text)
    expect(f"ckpt convert {LAST} -o x.safetensors --map wrong.json", 1, said(words), "")
for text, words in (('{"weight_map": {"a": "../x"}}', "'../x' is no file of this folder"),
                    ('{"weight_map": {"a": "w.safetensors", "b": "w.safetensors"}}', "do not have the same tensors"),
                    ('{"weight_map": {}}, 3', "something follows"), ('{"map": {}}', "weight_map is missing"),
                    ('{"weight_map": {"a": "gone.safetensors"}}', "gone.safetensors: cannot open")):
    shutil.rmtree("ix", ignore_errors=True)
    os.makedirs("ix")
    shutil.copy("trained.safetensors", "ix/w.safetensors")
    write("ix/model.safetensors.index.json", text)
    expect("ckpt ls ix", 1, said(words), "")
expect.no_files("net.mlir", "x.idx", "y.idx", "one.bin", "two.bin", "three.bin", "c", "d", "bad", "three", "begun",
                "hf", "single", "ix", "names.json", "wrong.json", "v1", "v1.safetensors",
                "all.safetensors", "some.safetensors",
                "trained.safetensors", "hf.safetensors", "back.safetensors", "w1.safetensors")

try:
    from safetensors import safe_open
except ImportError as e:
    print(f"skipped: files read by the public package: {e}")
else:
    for path in (f"{LAST}/rank-00000.safetensors", "all.safetensors", "hf/model-00001-of-00002.safetensors"):
        with safe_open(path, framework="np") as file:
            own = read(path)
            expect.check(f"{path}: the public package reads it", set(file.keys()) == set(own) and
                         all(file.get_tensor(k).tobytes() == own[k][2] for k in own))
expect.done()
