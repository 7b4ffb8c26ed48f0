"""ATen calls that move elements: views, cuts, joins, pads, windows seen as tensors."""

import math

import torch

from msc.pytorch.aten import positive, row, shape_of


@row(
    "view",
    "reshape",
    "_unsafe_view",
    "_reshape_copy",
    "_reshape_alias",
    "view_copy",
    "unsqueeze",
    "unsqueeze_copy",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "squeeze_copy",
    "squeeze_copy.dim",
    "squeeze_copy.dims",
    "flatten.using_ints",
    "unflatten.int",
    "view_as",
    "reshape_as",
    "ravel",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
)
def view(c, x, *_, **__):
    return c.reshape(x, c.shape)


@row("view.dtype", "view_copy.dtype")
def view_dtype(c, *_):
    c.refuse("bits of one element type seen as another")


@row("permute", "permute_copy")
def permute(c, x, dims):
    return c.transpose(x, positive(dims, len(dims)) if dims else [])


@row("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def transpose(c, x, a, b):
    perm = list(range(len(shape_of(x))))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return c.transpose(x, perm)


@row("t", "t_copy", "numpy_T", "mT", "adjoint")
def turned(c, x):
    rank = len(shape_of(x))
    return c.own(x) if rank < 2 else transpose(c, x, rank - 2, rank - 1)


@row("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def movedim(c, x, source, to):
    rank = len(shape_of(x))
    source, to = positive(source, rank), positive(to, rank)
    perm = [None] * rank
    for s, d in zip(source, to):
        perm[d] = s
    rest = iter(i for i in range(rank) if i not in source)
    return c.transpose(x, [next(rest) if p is None else p for p in perm])


@row("expand", "expand_copy", "broadcast_to", "expand_as")
def expand(c, x, *_, **__):
    return c.stretch(x, c.shape)


@row("repeat", "tile")
def repeat(c, x, repeats):
    x = c.reshape(x, (1,) * (len(repeats) - len(shape_of(x))) + shape_of(x))
    repeats = [1] * (len(x.shape) - len(repeats)) + list(repeats)
    return x if set(repeats) <= {1} else c.g.tile(x, repeats)


def bounds(size, low, high):
    """Start and end of a slice, within 0 .. size."""

    def at(v, absent):
        return absent if v is None else max(0, min(v + size if v < 0 else v, size))

    return at(low, 0), at(high, size)


@row("slice.Tensor", "slice_copy.Tensor")
def slice_(c, x, dim=0, start=None, end=None, step=1):
    dim %= len(shape_of(x))
    return c.cut(x, dim, *bounds(shape_of(x)[dim], start, end), step)


@row("narrow", "narrow_copy")
def narrow(c, x, dim, start, length):
    dim %= len(shape_of(x))
    start = start % shape_of(x)[dim] if start < 0 else start
    return c.cut(x, dim, start, start + length)


@row("select.int", "select_copy.int")
def select(c, x, dim, index):
    dim %= len(shape_of(x))
    index %= shape_of(x)[dim]
    return c.reshape(c.cut(x, dim, index, index + 1), c.shape)


def _replace(c, x, dim, low, high, step, source):
    size = shape_of(x)[dim]
    places = list(range(low, high, step))
    if not places:
        return c.own(x)
    source = c.t(source)
    if step == 1:
        return c.join(
            [c.cut(x, dim, 0, low)] * bool(low) + [source] + [c.cut(x, dim, high, size)] * (high < size), dim
        )
    both = c.join([c.own(x), source], dim)
    order = torch.arange(size)
    order[low:high:step] = torch.arange(size, size + len(places))
    return c.pick(both, dim, order)


@row("slice_scatter")
def slice_scatter(c, x, source, dim=0, start=None, end=None, step=1):
    dim %= len(shape_of(x))
    low, high = bounds(shape_of(x)[dim], start, end)
    high = max(low, high)
    if low < high:
        part = list(shape_of(x))
        part[dim] = len(range(low, high, step))
        source = c.stretch(c.t(source), part)
    return _replace(c, x, dim, low, high, step, source)


@row("select_scatter")
def select_scatter(c, x, source, dim, index):
    dim %= len(shape_of(x))
    index %= shape_of(x)[dim]
    one = list(shape_of(x))
    one[dim] = 1
    return _replace(c, x, dim, index, index + 1, 1, c.reshape(c.t(source), one))


def split_sizes(c, x, sizes, dim=0):
    dim %= len(shape_of(x))
    if len(sizes) == 1:
        return [c.own(x)]
    if 0 in sizes:
        at = [sum(sizes[:i]) for i in range(len(sizes))]
        return [None if n == 0 else c.cut(x, dim, a, a + n) for a, n in zip(at, sizes)]
    return list(c.g.split(c.own(x), dim, list(sizes)))


row("split_with_sizes", "split_with_sizes_copy", "split.sizes")(split_sizes)


@row("split.Tensor", "split_copy.Tensor", "chunk", "tensor_split.sections", "unsafe_chunk", "unsafe_split.Tensor")
def split(c, x, _, dim=0):
    dim %= len(shape_of(x))
    return split_sizes(c, x, [t[1][dim] for t in c.types], dim)


@row("unbind.int", "unbind_copy.int")
def unbind(c, x, dim=0):
    dim %= len(shape_of(x))
    return [c.reshape(p, c.shape) for p in split_sizes(c, x, [1] * shape_of(x)[dim], dim)]


@row("cat", "concat", "concatenate")
def cat(c, xs, dim=0):
    xs = [c.t(x) for x in xs if 0 not in shape_of(x)]
    return xs[0] if len(xs) == 1 else c.g.concat(xs, dim % len(c.shape))


@row("stack")
def stack(c, xs, dim=0):
    dim %= len(c.shape)
    one = c.shape[:dim] + (1,) + c.shape[dim + 1 :]
    return c.join([c.reshape(c.t(x), one) for x in xs], dim)


@row("flip")
def flip(c, x, dims):
    dims = positive(dims, len(shape_of(x))) if dims else []
    return c.g.reverse(c.own(x), dims) if dims and len(c.shape) else c.own(x)


@row("roll")
def roll(c, x, shifts, dims=()):
    shifts = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    dims = list(dims) if isinstance(dims, (list, tuple)) else [dims]
    if not dims:
        y = c.reshape(x, (math.prod(c.shape),))
        return c.reshape(_rolled(c, y, 0, shifts[0]), c.shape)
    x = c.own(x)
    for shift, dim in zip(shifts, dims):
        x = _rolled(c, x, dim % len(c.shape), shift)
    return x


def _rolled(c, x, dim, shift):
    shift %= x.shape[dim]
    return c.g.roll(x, dim, shift) if shift else x


@row("diagonal", "diagonal_copy")
def diagonal(c, x, offset=0, dim1=0, dim2=1):
    rank = len(shape_of(x))
    dim1, dim2 = dim1 % rank, dim2 % rank
    rest = [i for i in range(rank) if i not in (dim1, dim2)]
    rows, columns = shape_of(x)[dim1], shape_of(x)[dim2]
    y = c.reshape(c.transpose(x, rest + [dim1, dim2]), [shape_of(x)[i] for i in rest] + [rows * columns])
    steps = torch.arange(c.shape[-1])
    first = offset if offset >= 0 else -offset * columns
    return c.pick(y, len(rest), first + steps * (columns + 1))


@row("diagonal_scatter")
def diagonal_scatter(c, x, source, offset=0, dim1=0, dim2=1):
    numbers = torch.arange(math.prod(c.shape)).reshape(c.shape)
    order = numbers.clone().flatten()
    where = numbers.diagonal(offset, dim1, dim2)
    order[where.flatten()] = torch.arange(where.numel()) + numbers.numel()
    both = c.join([c.reshape(x, (numbers.numel(),)), c.reshape(c.t(source), (where.numel(),))], 0)
    return c.pick(both, 0, order.reshape(c.shape))


def _strided(c, size, stride, storage_offset):
    """Numbers of the elements of x that as_strided takes."""
    places, own = c.converter.memory_of(0)
    first = own if storage_offset is None else storage_offset
    taken = torch.arange(first + sum((n - 1) * s for n, s in zip(size, stride)) + 1).as_strided(size, stride, first)
    if not all(0 <= n < len(places) and places[n] >= 0 for n in taken.unique().tolist()):
        c.refuse("memory around its operand")
    return places[taken]


@row("as_strided", "as_strided_copy")
def as_strided(c, x, size, stride, storage_offset=None):
    numbers, elements = _strided(c, size, stride, storage_offset), math.prod(shape_of(x))
    rows = shape_of(numbers)[0] if numbers.ndim and numbers.numel() else 1
    if rows > 1 and elements % rows == 0:  # each row may take elements of its own alone, as each sample does
        own, first = elements // rows, numbers[0]
        starts = (torch.arange(rows) * own).reshape((rows,) + (1,) * first.ndim)
        if int(first.max()) < own and torch.equal(numbers, first + starts):
            return c.pick(c.reshape(x, (rows, own)), 1, first)
    return c.pick(c.reshape(x, (elements,)), 0, numbers)


@row("as_strided_scatter")
def as_strided_scatter(c, x, source, size, stride, storage_offset=None):
    num = math.prod(shape_of(x))
    numbers = torch.arange(num)  # of x's elements, then of the source's
    taken = _strided(c, size, stride, storage_offset)
    numbers[taken.flatten()] = num + torch.arange(math.prod(size))
    flat = [c.reshape(c.t(part), (math.prod(shape_of(part)),)) for part in (x, source)]
    return c.reshape(c.pick(c.join(flat, 0), 0, numbers), c.shape)


@row("tril", "triu")
def triangle(c, x, diagonal=0):
    places = [c.positions(c.shape[-2:], dim) for dim in (0, 1)]
    lower = c.name.startswith("tril")
    return c.where(c.stretch(c.compare(places[1], c.add(places[0], diagonal), "le" if lower else "ge"), c.shape), x, 0)


# ---- pads ----


def _signed_pads(rank, pads):
    """(dimension, before, behind) of PyTorch's list, which begins with the last dimension."""
    return [(rank - 1 - i, pads[2 * i], pads[2 * i + 1]) for i in range(len(pads) // 2)]


@row("constant_pad_nd")
def constant_pad(c, x, pads, value=0):
    x, rank = c.own(x), len(shape_of(x))
    low, high = [0] * rank, [0] * rank
    for dim, before, behind in _signed_pads(rank, pads):
        x = c.cut(x, dim, max(0, -before), x.shape[dim] - max(0, -behind))
        low[dim], high[dim] = max(0, before), max(0, behind)
    return c.g.pad(x, low, high, value=float(value)) if any(low + high) else x


def _pad_places(size, before, behind, mode):
    """Which element of a dimension lies at each place of the padded one."""
    places = torch.arange(size, dtype=torch.float64).reshape(1, 1, -1)  # one row of one channel
    return torch.nn.functional.pad(places, (before, behind), mode=mode).flatten().to(torch.int64)


def _pad_by_index(mode):
    def pad(c, x, pads):
        x = c.own(x)
        for dim, before, behind in _signed_pads(len(x.shape), pads):
            if before or behind:
                x = c.pick(x, dim, _pad_places(x.shape[dim], before, behind, mode))
        return x

    return pad


def _pad_by_index_backward(mode):
    def backward(c, dy, x, pads):
        dy, shape = c.own(dy), shape_of(x)
        for dim, before, behind in _signed_pads(len(shape), pads):
            if before or behind:
                places = c.t(_pad_places(shape[dim], before, behind, mode), "i64")
                dy = c.g.scatter_add(places, dy, rows=shape[dim], axis=dim)
        return dy

    return backward


for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
    row(*(f"{_name}_pad{n}d" for n in (1, 2, 3)))(_pad_by_index(_mode))
    row(*(f"{_name}_pad{n}d_backward" for n in (1, 2, 3)))(_pad_by_index_backward(_mode))
row("_pad_circular")(_pad_by_index("circular"))


@row("pad")
def pad(c, x, pads, mode="constant", value=None):
    if mode == "constant":
        return constant_pad(c, x, pads, value or 0)
    return _pad_by_index(mode)(c, x, pads)


# ---- windows as tensors ----


def _spread(c, x, numbers, shape):
    """Elements of x added up at the places that `numbers` (known now, of x's shape) names in a tensor of zeros."""
    n = math.prod(shape_of(x))
    y = c.g.scatter_add(c.converter.constant(numbers.reshape(n)), c.reshape(x, (n,)), rows=math.prod(shape))
    return c.reshape(y, shape)


def _window_numbers(size, kernel, dilation, padding, stride):
    """The size of the padded image, and [kernel, windows]: where element k of each window lies in it, row by row."""
    padded = [n + 2 * p for n, p in zip(size, padding)]
    starts = [range(0, n - d * (k - 1), s) for n, k, d, s in zip(padded, kernel, dilation, stride)]
    h = torch.tensor([[s + i * dilation[0] for s in starts[0]] for i in range(kernel[0])])
    w = torch.tensor([[s + i * dilation[1] for s in starts[1]] for i in range(kernel[1])])
    places = h[:, None, :, None] * padded[1] + w[None, :, None, :]
    return padded, places.reshape(kernel[0] * kernel[1], -1)


@row("im2col")
def im2col(c, x, kernel, dilation, padding, stride):
    *lead, h, w = shape_of(x)
    padded, places = _window_numbers((h, w), kernel, dilation, padding, stride)
    zero = [0] * len(lead)
    x = c.g.pad(c.own(x), zero + list(padding), zero + list(padding)) if any(padding) else c.own(x)
    y = c.pick(c.reshape(x, lead + [padded[0] * padded[1]]), len(lead), places)
    return c.reshape(y, c.shape)


@row("col2im")
def col2im(c, x, size, kernel, dilation, padding, stride):
    padded, places = _window_numbers(size, kernel, dilation, padding, stride)
    *lead, rows, windows = shape_of(x)
    planes = math.prod(lead) * rows // (kernel[0] * kernel[1])
    x = c.reshape(x, (planes, places.numel()))
    y = c.g.scatter_add(c.converter.constant(places.flatten()), x, rows=padded[0] * padded[1], axis=1)
    y = c.reshape(y, (planes, padded[0], padded[1]))
    y = c.cut(c.cut(y, 1, padding[0], padding[0] + size[0]), 2, padding[1], padding[1] + size[1])
    return c.reshape(y, c.shape)


@row("unfold", "unfold_copy")
def unfold(c, x, dim, size, step):
    if not shape_of(x):
        return c.reshape(x, c.shape)
    dim %= len(shape_of(x))
    places = torch.arange(0, shape_of(x)[dim] - size + 1, step)[:, None] + torch.arange(size)
    y = c.pick(x, dim, places)
    rank = len(y.shape)
    return c.transpose(y, [i for i in range(rank) if i != dim + 1] + [dim + 1])
