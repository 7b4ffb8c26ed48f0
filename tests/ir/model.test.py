#!/usr/bin/env python3
"""Every way in which a model.fbs that is sound in structure can be wrong in meaning: one message each, at the user's
place."""
import copy
import os
import sys

sys.path.insert(0, os.path.join(os.getcwd(), "tests/tools"))
from expect import Expect, write  # noqa: E402


from msc import file  # noqa: E402

expect = Expect()

F32, I32 = 0, 7
BASE = {
    "version": 1,
    "types": [{"dtype": F32, "dims": d} for d in ([4, 8], [8, 2], [2], [4, 2], [])] + [{"dtype": I32, "dims": [4]}],
    "value_types": [0, 5, 1, 2, 3, 3, 4],
    "locs": [{"file": "net.py", "line": 7, "col": 3, "scope": "head"}, {"file": "net.py", "line": 9}, {"node": "n12"}],
    "blocks": [{"name": ""}, {"name": "head"}],
    "body": {
        "ops": [{"kind": "matmul", "name": "d1", "operands": [0, 2], "results": [4], "loc": 1,
                 "block": 1}, {"kind": "add", "operands": [4, 3], "results": [5], "loc": 2},
                {"kind": "softmax_cross_entropy", "operands": [5, 1], "results": [6]}]
    },
    "inputs": [{"name": "x", "value": 0}, {"name": "y", "value": 1, "role": 1}],
    "parameters": [{"name": "w", "value": 2, "init": {"kind": "zeros"}},
                   {"name": "b", "value": 3, "init": {"kind": "zeros"}, "loc": 2}],
    "outputs": [{"name": "logits", "value": 5}],
    "train": {"loss": 6, "optimizers": [{"kind": "sgd", "attrs": [{"name": "lr", "value": ("Float", {"v": 0.5})}]}]},
    "mesh": [{"name": "a", "size": 2}],
}
AT_D1 = "net.py:7:3: error: op 'd1': matmul: "
IN_HEAD = "\n  in head\n"


def case(change, message, *args):
    """`change` edits a copy of the model in place; message lines without a place are the file's."""
    m = copy.deepcopy(BASE)
    change(m)
    write("m.fbs", file.encode(m))
    if message is None:
        expect(["dump", "m.fbs", *args])
        return
    lines = [
        line if line.startswith((" ", "net.py", "msc", "m.fbs: note")) else f"m.fbs: error: {line}"
        for line in message.rstrip("\n").split("\n")
    ]
    expect(["dump", "m.fbs", *args], 1, "\n".join(lines) + "\n", "")


def op(m, i=0):
    return m["body"]["ops"][i]


def ints(name, *v):
    return {"name": name, "value": ("Ints", {"v": v})}


def hints(**h):
    return lambda m: op(m).update(hints=h)


def both(*changes):
    return lambda m: [c(m) for c in changes]


case(lambda m: None, None)

# The file as a whole.
write("short.fbs", b"abc")
expect("dump short.fbs", 1, "short.fbs: error: not a model file: too short [E0113]\n", "")
write("other.fbs", b"\x08\0\0\0ABCD\0\0\0\0\0\0\0\0")
expect("dump other.fbs", 1, "other.fbs: error: not a model file: wrong file identifier [E0113]\n", "")
write("plan.fbs", b"\x08\0\0\0MSCP\0\0\0\0\0\0\0\0")
expect("dump plan.fbs", 1, lambda text: ""
       if text.startswith("plan.fbs: error: not a plan, or a damaged one: ") else "refused as a plan", "")
write("cut.fbs", file.encode(BASE)[:-40])
expect("dump cut.fbs", 1, lambda text: ""
       if text.startswith("cut.fbs: error: damaged: ") and text.endswith("[E0113]\n") else "damaged")
expect("dump none.fbs", 1, "none.fbs: error: cannot read: No such file or directory [E0112]\n", "")
case(lambda m: m.update(version=2), "format version 2; this msc reads version 1 [E0113]")
case(lambda m: m.update(version=None), "format version 0; this msc reads version 1 [E0113]")
case(lambda m: m.update(name="a\0b"), "name: a text has a zero byte inside [E0113]")

# Types, locations, blocks, mesh.
case(lambda m: m["types"].append({"dtype": 99}), "type 6: unknown element type 99 [E0113]")
case(lambda m: m["types"].append({"dims": [1] * 9}), "type 6: has rank 9, at most 8 is possible [E0113]")
case(lambda m: m["types"].append({"dims": [3, -2]}), "type 6: dimension 1 is -2 [E0113]")
case(lambda m: m["types"].append({"dims": [1 << 40, 1 << 40]}), "type 6: has 2^63 bytes or more [E0113]")
case(lambda m: m["value_types"].append(6), "value 7: has type 6, but the file has 6 types [E0113]")
case(lambda m: m["locs"].append({"caller": 4}),
     "location 3: its caller is location 3, which does not stand before it [E0113]")
case(lambda m: m["locs"].extend({"caller": 3 + i} for i in range(66)), "location 67: has more than 64 callers [E0113]")
case(lambda m: op(m).update(loc=9), "op 0: has location 8, but the file has 3 [E0113]")
case(lambda m: m["blocks"].append({"name": "b", "parent": 2}),
     "block 2: its parent is block 2, which does not stand before it [E0113]")
case(lambda m: m["blocks"].extend({"name": "b", "parent": 1 + i} for i in range(64)),
     "block 65: blocks are nested deeper than 64 [E0113]")
case(lambda m: m["blocks"].append({"name": "b" * 1025}), "block 2: its path is longer than 1024 bytes [E0113]")
case(lambda m: op(m).update(block=2), AT_D1 + "is in block 2, but the file has 2 [E0113]" + IN_HEAD)
case(lambda m: m["mesh"].append({"name": "a", "size": 2}), "mesh: axis a occurs twice [E0113]")
case(lambda m: m["mesh"].append({"name": "", "size": 2}), "mesh: axis 1 has no name [E0113]")
case(lambda m: m["mesh"].append({"name": "b"}),
     "mesh: axis b: sizes must be at least 1 and multiply to at most 65536 [E0113]")
case(lambda m: m["mesh"].append({"name": "b", "size": 65536}),
     "mesh: axis b: sizes must be at least 1 and multiply to at most 65536 [E0113]")
case(lambda m: m["mesh"].extend({"name": f"c{i}", "size": 1} for i in range(8)),
     "mesh: has 9 axes, at most 8 are possible [E0113]")

# Inputs, parameters, constants.
case(lambda m: m["inputs"].append({"name": "z", "value": 9}), "input z: is value 9, but the file has 7 values [E0105]")
case(lambda m: m["inputs"].append({"name": "z", "value": 0}), "input z: defines value 0 a second time [E0105]")
case(lambda m: m["inputs"][0].update(name=""), "input : has no name [E0113]")
case(lambda m: m["inputs"][0].update(name="w"), "two inputs or parameters are called 'w' [E0113]")
case(lambda m: m["inputs"][1].update(role=3), "input y: unknown role 3 [E0113]")
case(lambda m: m["inputs"][0].update(batch_dim=2), "input x: batch_dim 2 is not a dimension of [4,8]f32 [E0102]")
case(lambda m: m["inputs"][0].update(batch_dim=-2), "input x: batch_dim -2 is not a dimension of [4,8]f32 [E0102]")
case(lambda m: m["types"][0].update(dims=[-1, 8]),
     "input x: dimension 0, the batch, has no size; give it with --dim batch=SIZE [E0102]")
case(lambda m: m["types"][0].update(dims=[4, -1]),
     "input x: dimension 1 has no size; give it with --dim x.1=SIZE [E0102]")
case(lambda m: m["types"][0].update(dims=[0, 8]), "input x: dimension 0 has size 0; sizes are at least 1 [E0102]")
case(lambda m: (m["types"][0].update(dims=[-1, -1]), m["types"][3].update(dims=[-1, 2])), None, "--dim", "x.0=4",
     "x.1=8")
case(lambda m: None, "--dim nobody: no input has a dimension of this name; they are batch, x.1 [E0102]", "--dim",
     "nobody=4")
case(
    lambda m: None,
    AT_D1 + "inner sizes differ: 9 (dimension 1 of 'a' [4,9]f32) and 8 (dimension 0 of 'b' [8,2]f32) [E0102]" + IN_HEAD
    +
    'm.fbs: note: --dim changes a size that the model states as a number, and others may be made of it; models of '
    'msc.export(..., dynamic_shapes="batch") say which\n', "--dim", "x.1=9")


def sized(text, **size):
    """The first dimension of x, y and what follows is this text."""

    def change(m):
        m["sizes"] = [{"name": "n", "value": 4, **size}]
        for i in (0, 3, 5):
            m["types"][i].update(sizes=[text])

    return change


ALL_SIZED = "".join(f"type {i}: {{0}}\n" for i in (0, 3, 5))
case(sized("n"), None)
case(sized("n"), None, "--dim", "n=9")
case(sized("n"), None, "--dim", "batch=9")
case(sized("n"), None, "--dim", "y.0=9")
case(sized("(2*n*3-n+1)/7"), None)
case(sized("(2*n*3-n+1)/7"), None, "--dim", "n=11")
case(sized("(2*n*3-n+1)/7"), ALL_SIZED.format("(2*n*3-n+1)/7 is no whole number for these sizes [E0102]"), "--dim",
     "n=5")
case(sized("n-n"), "input x: dimension 0 has size 0; sizes are at least 1 [E0102]\n"
     "input y: dimension 0 has size 0; sizes are at least 1 [E0102]")
case(sized("n-9"), ALL_SIZED.format("dimension 0 is -5 [E0113]"))
for _text in ("m", "n+", "*n", "2n", "(n)", "(n)/0", "(n", "n/2", "n n", "-", "99999999999999999999*n",
              "n*4611686018427387904"):
    case(sized(_text), ALL_SIZED.format(f"'{_text}' is no size [E0113]"))
case(sized("n", low=5), "size n: is 4; the model was made for 5 and more [E0102]")
case(sized("n", low=2, high=8), "size n: is 9; the model was made for 2 to 8 [E0102]", "--dim", "n=9")
case(sized("n", value=0), "size n: has no value; give it with --dim n=SIZE [E0102]")
case(lambda m: m.update(sizes=[{"name": "n", "value": 1}, {"name": "n", "value": 1}]),
     "size n: occurs twice [E0113]")
case(lambda m: m.update(sizes=[{"name": "2", "value": 1}]), "size 2: is no name [E0113]")
case(lambda m: m.update(sizes=[{"name": f"n{i}", "value": 1} for i in range(65)]),
     "sizes: are 65, at most 64 are possible [E0113]")
case(sized("n+" * 512 + "n"), ALL_SIZED.format("a size has 1025 bytes, at most 1024 are possible [E0113]"))
case(sized("n"), None, "--dim", "n=9", "--dim", "x.0=9")
case(sized("n"), "size n: is 9 by --dim n and 8 by --dim y.0 [E0102]\n", "--dim", "n=9", "--dim", "y.0=8")
case(lambda m: m.update(sizes=[{"name": "n", "value": 1}]),
     "--dim m: no input has a dimension of this name; they are batch, n, x.1 [E0102]", "--dim", "m=4")
case(lambda m: m["types"][2].update(dims=[-1]),
     "net.py:9: error: parameter b: dimension 0 has size -1; sizes of parameters are fixed and at least 1 [E0102]")
case(lambda m: m["parameters"][1].pop("init"), "net.py:9: error: parameter b: has neither weights nor init [E0113]")
case(lambda m: m["parameters"][1].update(init={"kind": "xavier"}),
     "net.py:9: error: parameter b: unknown init xavier; it is one of zeros, ones, constant, normal, uniform [E0113]")
case(lambda m: m["parameters"][1].update(init={"kind": "normal"}),
     "net.py:9: error: parameter b: init normal takes just the attribute std [E0113]")
case(lambda m: m["parameters"][1].update(init={"kind": "ones", "attrs": [ints("std", 1)]}),
     "net.py:9: error: parameter b: init ones takes no attributes [E0113]")
case(
    lambda m: m["parameters"][1].update(
        init={"kind": "normal", "attrs": [{"name": "std", "value": ("Float", {"v": -1.0})}]}),
    "net.py:9: error: parameter b: init normal: std must be a finite number of at least 0 [E0113]")
case(
    lambda m: m["parameters"][1].update(
        init={"kind": "constant", "attrs": [{"name": "value", "value": ("Float", {"v": float("inf")})}]}),
    "net.py:9: error: parameter b: init constant: value must be a finite number [E0113]")
case(lambda m: m["parameters"][1].update(comm_fusion=-3),
     "net.py:9: error: parameter b: comm_fusion is -3; it is at least 0 [E0113]")
case(lambda m: m["parameters"][1].update(cache_rows=-3),
     "net.py:9: error: parameter b: cache_rows is -3; it is at least 0 [E0113]")
case(lambda m: m["parameters"][1].update(layout="[{a},{}]"),
     "net.py:9: error: parameter b: its layout has 2 dimensions, its rank is 1 [E0107]")
case(lambda m: m["parameters"][1].update(block=7),
     "net.py:9: error: parameter b: is in block 7, but the file has 2 [E0113]")
case(lambda m: m["parameters"][1].update(loc=7), "parameter b: has location 6, but the file has 3 [E0113]")
case(lambda m: m["parameters"][1].update(weights={"file": 1, "tensor": "t"}),
     "net.py:9: error: parameter b: its weights are in file 1, but the model lists 0 [E0113]")
for path in ("/etc/passwd", "../w.safetensors", "a/../../w", "a//w", "./w", "a/", "", ".."):
    case(lambda m, path=path: m.update(weight_files=[{"path": path}]),
         f"weight file 0: path '{path}' leaves the model's folder; it must be relative, without '..' [E0113]")
case(lambda m: m.update(weight_files=[{"path": "a/..b/w.safetensors"}]), None)
case(lambda m: m["body"].update(args=[0, 1, 3, 2]),
     "body: its arguments are not the inputs followed by the parameters [E0113]")


def constant(**c):
    return lambda m: (m["value_types"].append(c.pop("type", 2)), m.update(constants=[dict(c, value=7)]))


case(constant(data=b"\0" * 8), None)
case(constant(data=b"\0" * 4), None)
case(constant(data=b"\0" * 9), "constant 0: has 9 bytes; [2]f32 needs 8, or 4 to repeat one element [E0113]")
case(constant(data=b"\0" * 8, size="2"), "constant 0: has a size and several elements [E0113]")
case(constant(data=b"\0" * 4, size="2*2"), None)
case(both(lambda m: m["types"].append({"dtype": 5, "dims": [2]}), constant(type=6, data=b"\0", size="128")),
     "constant 0: is 128, which i8 cannot hold [E0102]")
case(constant(data=b""), "constant 0: has 0 bytes; [2]f32 needs 8, or 4 to repeat one element [E0113]")
case(constant(data=bytes((1 << 20) + 1)),
     "constant 0: has 1048577 bytes; more than 1048576 belong into a weight file, as a parameter [E0113]")
case(both(lambda m: m["types"].append({"dtype": 4, "dims": [2]}), constant(type=6, data=b"\1\2")),
     "constant 0: byte 1 is 2; an i1 is 0 or 1 [E0113]")
case(both(lambda m: m["types"].append({"dims": [-1]}), constant(type=6, data=b"\0" * 4)),
     "constant 0: dimension 0 has no size [E0102]")

# Values.
case(lambda m: op(m).update(operands=[0, 77]),
     AT_D1 + "an operand is value 77, but the file has 7 values [E0105]" + IN_HEAD)
case(lambda m: op(m).update(operands=[0, 5]),
     AT_D1 + "an operand is value 5, which is not defined before this use [E0105]" + IN_HEAD)
case(lambda m: op(m, 1).update(results=[4]), "net.py:9: error: add: defines value 4 a second time [E0105]\n"
     "op 2 (softmax_cross_entropy): an operand is value 5, which is not defined before this use [E0105]\n"
     "output 0: is value 5, which is not defined before this use [E0105]")
case(
    lambda m: op(m, 1).update(results=[70]),
    "net.py:9: error: add: defines value 70, but the file has 7 values [E0105]\n"
    "op 2 (softmax_cross_entropy): an operand is value 5, which is not defined before this use [E0105]\n"
    "output 0: is value 5, which is not defined before this use [E0105]")
case(lambda m: m["value_types"].extend([0, 0]), "2 values are never defined, the first is value 7 [E0105]")

# Ops.
case(
    both(lambda m: op(m, 1).update(kind="bias_ad"),
         lambda m: m["body"]["ops"].extend({"kind": "wavelet", "loc": 1} for _ in range(3))),
    "unknown ops: wavelet (3, first at net.py:7), bias_ad (1, first at net.py:9) [E0104]")
case(lambda m: op(m, 1).update(kind="addd"), "unknown op: addd (1, first at net.py:9; nearest: add) [E0104]")
case(lambda m: op(m, 1).update(kind="fused"), "net.py:9: error: fused: cannot stand in a model file [E0103]")
case(lambda m: op(m, 1).update(kind="return"), "net.py:9: error: return: cannot stand in a model file [E0103]")
case(lambda m: op(m, 1).update(kind="constant"),
     "net.py:9: error: constant: constants of a model file stand in its list of constants [E0103]")
case(lambda m: op(m, 1).update(regions=[{}]),
     "net.py:9: error: add: has a region, which no op of a model file takes [E0103]")
case(lambda m: op(m, 1).update(operands=[4] * 65536),
     "net.py:9: error: add: has more than 65535 operands or results [E0103]")
case(lambda m: op(m).update(operands=[0]), AT_D1 + "takes 2 operands, not 1 [E0103]" + IN_HEAD)
case(lambda m: op(m).update(results=[4, 4]), AT_D1 + "has 1 results, not 2 [E0103]" + IN_HEAD)
case(lambda m: op(m).update(attrs=[ints("transpose_a", 1)]),
     AT_D1 + "attribute transpose_a must be a bool [E0103]" + IN_HEAD)
case(lambda m: op(m).update(attrs=[ints("transpose_c", 1)]),
     AT_D1 + "has no attribute transpose_c; did you mean transpose_a? [E0103]" + IN_HEAD)
case(lambda m: op(m).update(attrs=[ints("in_strategy", 1)]),
     AT_D1 + "in_strategy is a hint, not an attribute [E0103]" + IN_HEAD)
case(lambda m: op(m).update(attrs=[{"name": "transpose_a", "value": ("Bool", {"v": False})}] * 2),
     AT_D1 + "attribute transpose_a is given twice [E0103]" + IN_HEAD)
case(
    lambda m: op(m).update(attrs=[{"name": "transpose_b", "value": ("Bool", {"v": True})}]),
    AT_D1 + "inner sizes differ: 8 (dimension 1 of 'a' [4,8]f32) and 2 (dimension 1 of 'b' [8,2]f32) [E0102]" + IN_HEAD)
case(lambda m: op(m, 2).update(attrs=[{"name": "reduction", "value": ("Str", {"v": "men"})}], loc=3),
     "op 'n12': softmax_cross_entropy: reduction \"men\" is not one of: mean sum none; did you mean 'mean'? [E0103]")
case(lambda m: op(m, 2).update(attrs=[{"name": "reduction", "value": ("Str", {"v": "me\0n"})}]),
     "op 2 (softmax_cross_entropy): a text has a zero byte inside [E0113]")
case(lambda m: (op(m, 1).update(kind="iota", operands=[], attrs=[{"name": "type", "value": ("TypeRef", {"v": 6})}])),
     "net.py:9: error: iota: attribute type is type 6, but the file has 6 types [E0113]")
case(
    lambda m: (m["types"].append({"dims": [-1]}), op(m, 1).update(
        kind="iota", operands=[], attrs=[{"name": "type", "value": ("TypeRef", {"v": 6})}])),
    "net.py:9: error: iota: attribute type: dimension 0 of the type has no size [E0102]")
case(
    lambda m: m["types"][3].update(dims=[4, 3]),
    AT_D1 + "result 0 is declared as [4,3]f32, but computes [4,2]f32 [E0106]" + IN_HEAD +
    "net.py:9: error: add: dimension 0 of 'b' is 2 where the other operands have 3; sizes must be equal or 1, aligned "
    "from the right [E0102]"
)
case(lambda m: m["types"][3].update(dims=[-1, -1]), None)
case(lambda m: (m["types"].append({"dtype": 3, "dims": []}), m["value_types"].__setitem__(6, 6)),
     "op 2 (softmax_cross_entropy): result 0 is declared as []f64, but computes []f32 [E0106]")

# Hints.
# Whether strategies fit is said with everything else that is wrong with them, by the pass strategies: here they are
# only read.
case(
    hints(in_strategy=[{"parts": [2, 1, 0]}], out_strategy=[], in_layout=["[{a},{}]", "[{z},{}]", ""],
          out_layout=["[{a}]"], manual_split=[4, 4]), None)
case(hints(pipeline_stage=-2), AT_D1 + "pipeline_stage is -2; it is at least 0 [E0113]" + IN_HEAD)
case(hints(comm_fusion=-2), AT_D1 + "comm_fusion is -2; it is at least 0 [E0113]" + IN_HEAD)
case(hints(recompute=2), AT_D1 + "recompute is 2; it is -1 (not given), 0 or 1 [E0113]" + IN_HEAD)
case(
    lambda m: m["blocks"][1].update(hints={"in_strategy": []}),
    "block head: in_strategy belongs on an op, or on a block with shard; a block's hints are inherited by all ops "
    "inside [E0109]"
)
case(lambda m: m["blocks"][1].update(hints={"shard": True, "in_strategy": [{"parts": [2, 1]}]}), None)
case(
    lambda m: m["blocks"][1].update(hints={"shard": True, "manual_split": [1]}),
    "block head: manual_split belongs on an op, or on a block with shard; a block's hints are inherited by all ops "
    "inside [E0109]"
)
case(lambda m: m["blocks"][1].update(name="", hints={"shard": True}), "block 0: shard: the block needs a name [E0109]")
case(hints(shard=True), AT_D1 + "shard belongs on a block; an op has strategies of its own [E0109]" + IN_HEAD)
case(hints(memory_limit=1), AT_D1 + "memory_limit belongs on a block; an op has none of its own [E0103]" + IN_HEAD)

# Outputs and training.
case(lambda m: m["outputs"][0].update(value=70), "output 0: is value 70, but the file has 7 values [E0105]")
case(lambda m: m["outputs"][0].update(name="loss"), "two outputs are called 'loss' [E0113]")
case(lambda m: m["outputs"][0].update(name=""), "output 0: has no name [E0113]")
case(lambda m: m.update(outputs=[], train=None), "the model has neither outputs nor a loss [E0113]")
case(lambda m: m["body"].update(results=[6]), "body: its results are not the outputs [E0113]")
case(lambda m: m.update(state=[{"name": "w", "value": 2}]),
     "state 0: parameter 'w' is trained; only a parameter with trainable = false has a value from forward [E0113]")
case(lambda m: m.update(state=[{"name": "nobody", "value": 2}]), "state 0: 'nobody' is no parameter [E0113]")
case(lambda m: m["train"].update(loss=5), "train: the loss is [4,2]f32; it must be one floating-point number [E0106]")
case(lambda m: m["train"].update(loss=50), "train: the loss is value 50, but the file has 7 values [E0105]")
case(lambda m: m["train"].update(micro_size=0), "train: micro_size is 0; it is at least 1 [E0113]")
case(lambda m: m["train"]["optimizers"][0].update(parameters=[2]),
     "optimizer 0: names parameter 2, but the model has 2 [E0119]")
case(lambda m: m["train"]["optimizers"][0]["attrs"].append(ints("lr", 1)),
     "optimizer 0: attribute lr is given twice [E0119]")

# Independent mistakes are all told in one run; what follows from one of them is not.
case(
    lambda m: (m["inputs"][0].update(batch_dim=5), op(m).update(attrs=[ints("transpose_c", 1)]), op(m, 1).update(
        hints={"comm_fusion": -4}), m["outputs"][0].update(name="")),
    "input x: batch_dim 5 is not a dimension of [4,8]f32 [E0102]\n" + AT_D1 +
    "has no attribute transpose_c; did you mean transpose_a? [E0103]" + IN_HEAD +
    "net.py:9: error: add: comm_fusion is -4; it is at least 0 [E0113]\noutput 0: has no name [E0113]")
# ... up to a bound.
m = copy.deepcopy(BASE)
m["body"]["ops"] = [{"kind": "add", "operands": [99, 99], "results": []}] * 5000
write("m.fbs", file.encode(m))
expect(
    "dump m.fbs", 1, lambda text: ""
    if text.endswith("msc: 900 more messages; --diagnostic-format=json shows all\n") else "1000 messages")

expect.done()
