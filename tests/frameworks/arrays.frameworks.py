#!/usr/bin/env python3
"""Arrays of numpy given to a job: every element type and layout reaches the plan as numpy has it, contiguous ones
without a copy, or is refused by name."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("numpy")
import numpy as np  # noqa: E402

import msc  # noqa: E402
from msc.array import Borrowed  # noqa: E402

TYPES = {"f32": "f4", "f16": "f2", "f64": "f8", "i1": "?"}
TYPES.update({f"{k}{8 * n}": f"{k}{n}" for k in "iu" for n in (1, 2, 4, 8)})


def layouts(dtype):
    """name -> an array [4, 6], whether it is copied."""
    whole = (np.arange(48).reshape(8, 6) % 7).astype(dtype)
    frozen = whole[:4].copy()
    frozen.setflags(write=False)
    return {
        "contiguous": (whole[:4].copy(), False),
        "rows of a larger one": (whole[2:6], False),
        "every second row": (whole[::2], True),
        "rows backwards": (whole[3::-1], True),
        "transposed": (np.asfortranarray(whole[:4]), True),
        "broadcast": (np.broadcast_to(whole[0], (4, 6)), True),
        "read only": (frozen, False),
        "of a class of its own": (whole[:4].copy().view(np.matrix), False),
    }


def refuses(what, value, dtype, says):
    try:
        Borrowed("input 'x'", value, dtype, None)
    except msc.Error as e:
        assert says in str(e), f"{what}: {e}"
        return
    raise AssertionError(f"{what} was taken")


def main():
    num = 0
    for name, dtype in TYPES.items():
        g = msc.Graph("same")
        x = g.input("x", name, [4, 6])
        g.output("y", g.reverse(x, [1]))
        with msc.compile(g).run() as job:
            for layout, (value, is_copied) in layouts(dtype).items():
                got = job.predict("y", x=value).numpy()
                assert (got == np.asarray(value)[:, ::-1]).all(), f"{name}, {layout}: {got}"
                address = Borrowed("x", value, name, None).address
                assert (address != value.ctypes.data) == is_copied, f"{name}, {layout}: copied {not is_copied}"
                num += 1
        for other, other_type in TYPES.items():
            if other != name and name != "i1" and (name, other) != ("f16", "u16"):  # bits of f16
                refuses(f"{other} for {name}", np.zeros((4, 6), other_type), name, f"has elements of {name}, not of")
    refuses("another byte order", np.zeros(3, ">f4"), "f32", "has elements of f32, not of format '>f'")
    refuses("complex numbers", np.zeros(3, "c8"), "f32", "has elements of f32, not of format 'Zf'")
    refuses("objects", np.array([None, {}]), "f32", "has elements of f32, not of format 'O'")
    bits = np.arange(6, dtype="u2")  # numpy has no bf16: its bits
    assert Borrowed("x", bits, "bf16", None).address == bits.ctypes.data
    print(f"{num} arrays")


main()
