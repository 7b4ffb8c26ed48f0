"""The table of ATen overloads: ROWS[name] is the function that translates one call into ops of msc.Graph.

A row is called as row(c, *arguments, **keywords) with the arguments of the ATen call.  A tensor among them is an
msc.Tensor, or a torch.Tensor where its value is known (it depends on no input).  `c` is a Call: the graph, the types of
the results, and conversions.  A row returns the result, or a list of results; a result may be a function without
arguments, which is called when the result is used.  What a row cannot say it leaves to PyTorch's own decomposition of
this one call (c.decompose()) or refuses with a reason (c.refuse(why))."""

import torch

from msc.ops import Type

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
}
TORCH = {name: dtype for dtype, name in DTYPES.items()}
FLOATS = ("f32", "f64", "f16", "bf16")
ROWS = {}
RANDOM = set()  # overloads whose results no two runs share: they are never computed while exporting


class Refused(Exception):
    """A row cannot translate this call; the text says why."""


class Decompose(Exception):
    """PyTorch's own decomposition is to be translated in place of this call."""


def row(*names, random=False):
    """Registers a function for overloads: "add.Tensor"; a name without a dot is its overload "default"."""

    def register(function):
        for name in names:
            name = name if "." in name else name + ".default"
            if name in ROWS:
                raise KeyError(f"two rows for {name}")
            ROWS[name] = function
            if random:
                RANDOM.add(name)
        return function

    return register


def shape_of(x):
    """The shape of a tensor or number, a tuple."""
    return tuple(x.shape) if hasattr(x, "shape") else ()


def dtype_of(x):
    """msc's name of the element type of a tensor; None: a number, which has none of its own."""
    return None if not hasattr(x, "dtype") else DTYPES.get(x.dtype, x.dtype)


def is_known(x):
    """True of a number or of a tensor whose value does not depend on any input."""
    return not hasattr(x, "graph")


def _stand_in(x):
    return x if not hasattr(x, "shape") else torch.empty(shape_of(x), dtype=TORCH[dtype_of(x)], device="meta")


def positive(dims, rank):
    """Dimensions counted from the first; a number is a list of one, None or nothing means all."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(rank))
    return [d % max(rank, 1) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]


class Call:
    """One ATen call while it is translated."""

    def __init__(self, converter, name, types):
        self.converter, self.g, self.name = converter, converter.g, name
        self.types = types  # of each result: (msc's element type, shape), None where it is no tensor
        self.dtype, self.shape = next((t for t in types if t), (None, None))

    # ---- what cannot be said ----

    def refuse(self, why):
        raise Refused(why)

    def decompose(self):
        raise Decompose()

    def has(self, op):
        return hasattr(self.g, op)

    # ---- conversions ----

    def t(self, x, dtype=None):
        """A tensor of the graph with this element type (absent: that of the first result) from a tensor or number."""
        dtype = dtype or self.dtype
        if not hasattr(x, "shape"):
            x = torch.tensor(x, dtype=TORCH[dtype])
        if is_known(x):
            return self.converter.constant(x, dtype)
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def own(self, x):
        """A tensor of the graph with the element type that x has."""
        return self.t(x, dtype_of(x))

    def common(self, *operands):
        """The element type in which PyTorch compares or selects among these."""
        stand_ins = [_stand_in(x) for x in operands]
        result = stand_ins[0]
        if len(stand_ins) == 1:
            return DTYPES[result.dtype] if hasattr(result, "dtype") else DTYPES[torch.result_type(result, result)]
        return DTYPES[torch.result_type(*stand_ins)]

    def number(self, x):
        """The value of a number, or of a known tensor whose elements are all equal; None: it is neither."""
        if isinstance(x, torch.Tensor):
            return x.flatten()[0].item() if x.numel() and bool((x == x.flatten()[0]).all()) else None
        if hasattr(x, "graph"):
            return self.converter.numbers.get(x.number)
        return x

    def known(self, x):
        """The torch.Tensor that a constant of the graph was made from; x itself if it is none."""
        return self.converter.known.get(getattr(x, "number", None), x)

    def made_by(self, x, kind):
        """The operands of the op that made x, if it is of this kind; None otherwise."""
        found = self.converter.maker(x)
        return found[1] if found and found[0]["kind"] == kind else None

    def has_open_sizes(self):
        """True if the result of this call differs with sizes that are left open."""
        return self.converter.is_sized()

    def groups_of_rows(self):
        """The number of each row's group in this product of groups; None: the rows are in the order of groups."""
        return self.converter.group_of_each_row()

    def attribute(self, x, name):
        """An attribute of the op that made x; None: it is not given."""
        op = self.converter.maker(x)[0]
        return next((a["value"][1]["v"] for a in op["attrs"] or () if a["name"] == name), None)

    # ---- shorthands for ops ----

    def reshape(self, x, shape):
        x, shape = self.own(x), tuple(int(s) for s in shape)
        return x if x.shape == shape else self.g.reshape(x, shape)

    def stretch(self, x, shape):
        x, shape = self.own(x), tuple(int(s) for s in shape)
        return x if x.shape == shape else self.g.broadcast_to(x, shape)

    def transpose(self, x, perm):
        perm = list(perm)
        return self.own(x) if perm == list(range(len(perm))) else self.g.transpose(self.own(x), perm)

    def cut(self, x, dim, low, high, step=1):
        """Elements low .. high - 1 along a dimension, each step-th."""
        x = self.own(x)
        if (low, high, step) == (0, x.shape[dim], 1):
            return x
        start, limit, stride = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        start[dim], limit[dim], stride[dim] = low, high, step
        return self.g.slice(x, start, limit, stride if step != 1 else None)

    def join(self, parts, dim):
        parts = [p for p in parts if shape_of(p)[dim] != 0]
        return self.own(parts[0]) if len(parts) == 1 else self.g.concat([self.own(p) for p in parts], dim)

    def positions(self, shape, dim):
        """Numbers i64 that count along a dimension."""
        return self.g.iota(Type("i64", tuple(shape)), dim=dim)

    def pick(self, x, dim, indices):
        """Rows of one dimension, by numbers known now (a torch.Tensor): an index dimension for each of theirs."""
        return self.g.gather(self.own(x), self.converter.constant(indices.to(torch.int64)), axis=dim)

    def sum(self, x, dims, keep=False):
        return self.g.reduce_sum(x, list(dims), keep_dims=keep) if dims else x

    def mul(self, x, number):
        return x if number == 1 else self.g.mul(x, self.t(number, x.dtype))

    def add(self, x, number):
        return x if number == 0 else self.g.add(x, self.t(number, x.dtype))

    def where(self, condition, a, b, dtype=None):
        dtype = dtype or self.dtype
        return self.g.select(self.t(condition, "i1"), self.t(a, dtype), self.t(b, dtype))

    def compare(self, a, b, predicate):
        dtype = self.common(a, b)
        if dtype == "i1":
            dtype = "i32"
        return self.g.compare(self.t(a, dtype), self.t(b, dtype), predicate)

    def matmul(self, a, b, **turned):
        two = len(a.shape) == len(b.shape) == 2
        return (self.g.matmul if two else self.g.batch_matmul)(a, b, **turned)

    def apply_along(self, x, dim, matrix):
        """y = x times a matrix [out, in] known now, along one dimension."""
        x, last = self.own(x), len(shape_of(x)) - 1
        perm = [i for i in range(last + 1) if i != dim] + [dim]
        y = self.matmul(self.transpose(x, perm), self.t(matrix, x.dtype), transpose_b=True)
        back = list(range(dim)) + [last] + list(range(dim, last))
        return self.transpose(y, back)


# The rows, by topic; each module registers its own.
from msc.pytorch import (  # noqa: E402,F401
    elementwise, indexing, movement, norms, own_gradients, products, random, recurrent, reductions)
