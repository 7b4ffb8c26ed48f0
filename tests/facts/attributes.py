"""attributes: the kind of an op, the shape of its first operand and what a fact says of it, in -> the attributes
that msc's op of that kind takes, out.  Words of other systems are known; numbers without a word stand for what has
no default, in order."""
from msc.ops import ROWS

WORDS = {
    "dim": ("axis", "dims"), "axis": ("dim", "dims"), "dims": ("axis", "dim"), "repeats": ("multiples", "dims"),
    "start": ("begin", "begins"), "limit": ("end", "ends"), "stride": ("strides", ), "padding": ("pad", ),
    "kernel": ("kernel_size", "ksize"), "shape": ("to", "new_shape", "size"),
    "sizes": ("split_sections", "size_splits"), "k": ("top_k", ), "rate": ("p", "drop_prob"),
    "depth": ("num", "classes"), "groups": ("num_groups", "group"), "shift": ("shifts", ), "rows": ("num_segments",
                                                                                                    "depth")
}
PARTS = ("output_num", "num", "parts", "sections")  # of split


def pieces(shape, said, numbers):
    """Sizes of equal parts along the dimension."""
    dim = said.get("axis", said.get("dim", 0))
    num = next((said[w] for w in PARTS if w in said), numbers.pop(0) if numbers else 2)
    return [shape[dim % len(shape)] // num] * num


def usual(kind, name, shape, said, numbers):
    """Of what neither a word nor a number tells; None: nothing is usual."""
    if (kind, name) == ("split", "sizes"):
        return pieces(shape, said, numbers)
    if (kind, name) == ("squeeze", "dims"):
        return [d for d, n in enumerate(shape) if n == 1]
    if (kind, name) == ("dropout", "rate"):
        return 1 - said.get("keep_prob", 0.5)
    return {
        "dim": 0, "axis": 0, "form": "tanh", "dtype": "f32", "dims": list(range(len(shape))), "predicate": "gt",
        "groups": 1, "low": 0, "high": 1
    }.get(name)


def as_kind(value, attr, rank):
    if attr.kind == "ints" and not isinstance(value, (list, tuple)):
        value = [value] * {"kernel": 2, "stride": 2 if rank == 4 else 1, "dilation": 2, "padding": 4}.get(attr.name, 1)
    if attr.name in ("dims", "perm"):
        return [v % rank for v in value]
    if attr.kind == "int" and isinstance(value, (list, tuple)) and len(value) == 1:
        return value[0]
    return list(value) if attr.kind == "ints" else value


def attributes(kind, shape, said, numbers):
    out, numbers = {}, list(numbers)
    for a in ROWS[kind].attrs if kind in ROWS else ():
        word = next((w for w in (a.name, *WORDS.get(a.name, ()))
                     if said.get(w) is not None and (said[w] is not True or a.kind == "bool")), None)
        if word:
            value = said[word]
        elif a.required and numbers and kind != "split":
            value = numbers.pop(0)
        else:
            value = usual(kind, a.name, shape, said, numbers) if a.required else None
        if value is not None:
            out[a.name] = as_kind(value, a, len(shape))
    return out
