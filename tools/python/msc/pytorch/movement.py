"""ATen calls that move elements: views, cuts, joins, indexing, pads, windows seen as tensors."""

import math

import torch

from msc.pytorch.aten import FLOATS, dtype_of, is_known, positive, row, shape_of
from msc.pytorch.elementwise import truth


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
    source = c.t(source)
    if not places:
        return c.own(x)
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
    numbers = _strided(c, size, stride, storage_offset)
    return c.pick(c.reshape(x, (math.prod(shape_of(x)),)), 0, numbers)


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


# ---- indexing ----


@row("embedding")
def embedding(c, table, indices, padding_idx=-1, scale_grad_by_freq=False, *_):
    if scale_grad_by_freq:
        c.refuse("scale_grad_by_freq")
    if padding_idx >= 0 and not is_known(table):
        # the row of padding is not trained: what stands there counts as a constant
        is_pad = torch.zeros(shape_of(table)[0], 1, dtype=torch.bool)
        is_pad[padding_idx] = True
        stopped = (
            c.g.stop_gradient(table) if c.has("stop_gradient") else c.refuse("padding_idx without stop_gradient")
        )
        table = c.where(is_pad, stopped, table)
    return c.g.gather(c.own(table), c.own(indices))


@row("index_select")
def index_select(c, x, dim, indices):
    if not shape_of(x):
        return c.own(x)
    indices = c.reshape(indices, (math.prod(shape_of(indices)),))
    return c.g.gather(c.own(x), indices, axis=dim % len(shape_of(x)))


def _counted_from_front(c, index, size):
    """Whole numbers 0 .. size - 1; negative ones count from the end."""
    if is_known(index):
        return c.converter.constant(torch.where(index < 0, index + size, index).to(torch.int64))
    index = index if index.dtype in ("i32", "i64") else c.g.cast(index, "i64")
    return c.g.select(c.compare(index, 0, "lt"), c.add(index, size), index)


def _without_masks(c, indices):
    """Boolean masks known now become the numbers of their true elements."""
    out = []
    for index in indices:
        if index is None or dtype_of(index) not in ("i1", "u8"):
            out.append(index)
        elif not is_known(index):
            c.refuse("a boolean mask that depends on data gives results of unknown size")
        else:
            out += (
                list(index.bool().nonzero(as_tuple=True))
                if index.ndim
                else [torch.zeros(int(index), dtype=torch.int64)]
            )
    return out


def _plan_index(c, x, indices):
    """x with the indexed dimensions first and merged into one; the numbers of its rows; the result's permutation."""
    rank = len(shape_of(x))
    at = [i for i, index in enumerate(indices) if index is not None]
    rest = [i for i in range(rank) if i not in at]
    shape = torch.broadcast_shapes(*[shape_of(indices[i]) for i in at])
    sizes = [shape_of(x)[i] for i in at]
    merged = c.reshape(c.transpose(x, at + rest), [math.prod(sizes)] + [shape_of(x)[i] for i in rest])
    numbers = None
    for i, size in zip(at, sizes):
        index = c.stretch(_counted_from_front(c, indices[i], size), shape)
        index = c.t(index, "i64")
        numbers = index if numbers is None else c.g.add(c.mul(numbers, size), index)
    return at, rest, merged, numbers, shape


@row("index.Tensor", "_unsafe_index.Tensor")
def index(c, x, indices):
    if not shape_of(x):
        return c.reshape(x, c.shape)
    indices = _without_masks(c, list(indices))
    at = [i for i, index in enumerate(indices) if index is not None]
    if len(at) == 1:
        numbers = _counted_from_front(c, indices[at[0]], shape_of(x)[at[0]])
        return c.g.gather(c.own(x), numbers, axis=at[0])
    at, rest, merged, numbers, shape = _plan_index(c, x, indices)
    y = c.g.gather(merged, numbers, axis=0)
    if at != list(range(at[0], at[0] + len(at))):
        return y  # indices with a gap: their dimensions come first
    before, k = at[0], len(shape)
    return c.transpose(y, list(range(k, k + before)) + list(range(k)) + list(range(k + before, len(y.shape))))


@row("index_put", "_unsafe_index_put")
def index_put(c, x, indices, values, accumulate=False):
    masks = [i for i in indices if i is not None and dtype_of(i) == "i1"]
    if masks and len(indices) == 1 and not is_known(masks[0]) and not accumulate:
        if math.prod(shape_of(values)) != 1:
            if len(shape_of(masks[0])) != len(c.shape) or len(shape_of(values)) != 1:
                c.refuse("values put where a mask that depends on data is true")
            return masked_scatter(c, x, masks[0], values)
        mask = c.reshape(masks[0], shape_of(masks[0]) + (1,) * (len(c.shape) - len(shape_of(masks[0]))))
        return c.where(c.stretch(mask, c.shape), c.reshape(c.t(values), ()), x)
    indices = _without_masks(c, list(indices))
    if any(0 in shape_of(i) for i in indices if i is not None):
        return c.own(x)
    at, rest, merged, numbers, shape = _plan_index(c, x, indices)
    k = len(shape)
    target = tuple(shape) + tuple(shape_of(x)[i] for i in rest)
    if at == list(range(at[0], at[0] + len(at))):
        before = at[0]
        placed = (
            tuple(shape_of(x)[i] for i in range(before)) + tuple(shape) + tuple(shape_of(x)[i] for i in rest[before:])
        )
        order = list(range(before, before + k)) + list(range(before)) + list(range(before + k, len(placed)))
        values = c.transpose(c.stretch(c.t(values), placed), order)
    values = c.stretch(c.t(values), target)
    y = _put_rows(c, merged, numbers, values, accumulate)
    y = c.reshape(y, [shape_of(x)[i] for i in at + rest])
    order = [(at + rest).index(i) for i in range(len(shape_of(x)))]
    return c.transpose(y, order)


def _put_rows(c, x, numbers, values, accumulate):
    """x [n, *], in which rows are replaced by values, or increased by them."""
    if accumulate:
        return c.g.add(x, c.g.scatter_add(numbers, values, rows=x.shape[0]))
    return c.g.scatter_update(x, numbers, values)


@row("gather")
def gather(c, x, dim, index, **_):
    if not shape_of(x):
        return c.reshape(x, c.shape)
    dim %= len(shape_of(x))
    for i, (have, want) in enumerate(zip(shape_of(x), c.shape)):
        x = x if i == dim or have == want else c.cut(x, i, 0, want)
    return c.g.take_along(c.own(x), c.reshape(index, c.shape), axis=dim)


@row("take_along_dim")
def take_along_dim(c, x, index, dim=None):
    c.decompose()


def _element_numbers(c, x_shape, dim, index):
    """For every element of index, the number of the element of x (row by row) that it names."""
    strides = [math.prod(x_shape[i + 1 :]) for i in range(len(x_shape))]
    places = torch.zeros(shape_of(index), dtype=torch.int64)
    for i, size in enumerate(shape_of(index)):
        if i != dim:
            line = torch.arange(size) * strides[i]
            places = places + line.reshape([-1 if j == i else 1 for j in range(len(x_shape))])
    if is_known(index):
        return c.converter.constant(places + index * strides[dim])
    return c.g.add(c.mul(c.t(index, "i64"), strides[dim]), c.converter.constant(places))


def _scatter(c, x, dim, index, source, accumulate):
    if not shape_of(x):
        source = c.reshape(c.t(source), ())
        return c.g.add(c.own(x), source) if accumulate else source
    dim %= len(shape_of(x))
    shape = shape_of(index)
    if hasattr(source, "shape") and shape_of(source) != shape and shape_of(source):
        for i, size in enumerate(shape):
            source = c.cut(source, i, 0, size)
    source = c.stretch(c.t(source), shape)
    n = math.prod(shape_of(x))
    if accumulate and all(a == b for i, (a, b) in enumerate(zip(shape, shape_of(x))) if i != dim):
        return c.g.add(c.own(x), c.g.add_along(c.own(index), source, rows=shape_of(x)[dim], axis=dim))
    numbers = c.reshape(_element_numbers(c, shape_of(x), dim, index), (math.prod(shape),))
    y = _put_rows(c, c.reshape(x, (n,)), numbers, c.reshape(source, (math.prod(shape),)), accumulate)
    return c.reshape(y, shape_of(x))


@row("scatter.src", "scatter.value")
def scatter(c, x, dim, index, source, **_):
    return c.own(x) if 0 in shape_of(index) else _scatter(c, x, dim, index, source, False)


@row("scatter_add")
def scatter_add(c, x, dim, index, source):
    return c.own(x) if 0 in shape_of(index) else _scatter(c, x, dim, index, source, True)


@row("scatter_reduce.two")
def scatter_reduce(c, x, dim, index, source, reduce, include_self=True):
    if 0 in shape_of(index):
        return c.own(x)
    if not shape_of(x):
        x, index, source = (c.reshape(v, (1,)) for v in (x, index, source))
        return c.reshape(_reduced(c, x, 0, index, source, reduce, include_self), ())
    return _reduced(c, x, dim % len(shape_of(x)), index, source, reduce, include_self)


@row("scatter.reduce", "scatter.value_reduce")
def scatter_with(c, x, dim, index, source, reduce):
    source = source if hasattr(source, "shape") else torch.full(shape_of(index), source)
    return scatter_reduce(c, x, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


_UNITS = {"prod": 1.0, "amax": -math.inf, "amin": math.inf}


def _reduced(c, x, dim, index, source, reduce, include_self):
    shape = shape_of(index)
    for i, size in enumerate(shape):
        source = c.cut(source, i, 0, size)
    zero, one = torch.zeros(shape_of(x)), torch.ones(shape)
    counts = _scatter(c, c.t(zero), dim, index, c.t(one), True)  # how many elements meet at each place
    counts_all = c.add(counts, 1.0) if include_self else counts
    hit = c.compare(counts, 0, "gt")
    if reduce in ("sum", "mean"):
        total = _scatter(c, c.own(x) if include_self else c.t(zero), dim, index, source, True)
        if reduce == "mean":
            divisor = c.t(c.where(hit, counts_all, 1.0, counts.dtype))
            total = c.g.div(total, divisor)
        return total if include_self else c.g.select(hit, total, c.own(x))
    unit = _UNITS[reduce]
    if c.dtype not in FLOATS:
        c.refuse(f"reduce='{reduce}' of whole numbers")
    # [.., rows, k]: element k of the source where it goes to this row
    perm = [i for i in range(len(shape)) if i != dim] + [dim]
    moved = [c.transpose(v, perm) for v in (index, source, x)]
    kept = shape_of(moved[0])[:-1]
    index, source = (c.reshape(v, kept + (1, shape[dim])) for v in moved[:2])
    rows = torch.arange(shape_of(x)[dim]).reshape(-1, 1)
    meets = c.compare(c.t(index, "i64"), rows, "eq")
    spread = c.g.select(meets, c.stretch(c.t(source), meets.shape), c.stretch(c.t(unit), meets.shape))
    reduction = {"prod": c.g.reduce_prod, "amax": c.g.reduce_max, "amin": c.g.reduce_min}[reduce]
    y = reduction(spread, [len(meets.shape) - 1])
    if y.shape != moved[2].shape:
        whole = moved[2].shape
        y = c.g.pad(y, [0] * len(whole), [a - b for a, b in zip(whole, y.shape)], value=unit)
    y = c.transpose(y, [perm.index(i) for i in range(len(shape))])
    x = c.own(x)
    if include_self:
        return {"prod": c.g.mul, "amax": c.g.max, "amin": c.g.min}[reduce](x, y)
    return c.g.select(hit, y, x)


@row("masked_scatter")
def masked_scatter(c, x, mask, source):
    n = math.prod(c.shape)
    mask = c.reshape(c.stretch(truth(c, mask), c.shape), (n,))
    counts = c.g.cumsum(c.g.cast(mask, "i64"), axis=0)
    place = c.g.max(c.add(counts, -1), c.t(0, "i64"))
    taken = c.g.gather(c.reshape(c.t(source), (math.prod(shape_of(source)),)), place)
    return c.reshape(c.g.select(mask, taken, c.reshape(c.stretch(x, c.shape), (n,))), c.shape)


@row("nonzero", "masked_select", "unique2", "_unique2", "nonzero_static", "unique_dim", "unique_consecutive")
def data_dependent(c, *_, **__):
    c.refuse("the size of its result depends on data")


@row("_local_scalar_dense", "item")
def item(c, *_):
    c.refuse("a number taken out of a tensor decides what is computed")


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
