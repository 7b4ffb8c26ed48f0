"""ATen calls in which numbers of elements are operands: rows looked up, elements picked, put and added up."""

import math

import torch

from msc.pytorch.aten import FLOATS, dtype_of, is_known, row, shape_of
from msc.pytorch.elementwise import truth

MOST_PUT = 16  # along a dimension, one after the other


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


def _repeated(c, x, index, dim):
    """x[0, 0, 1, 1 ..]: each row of a dimension as often as the next, without a look-up, so that rows can be cut as
    those of x are.  None: the index is another one."""
    n = shape_of(x)[dim]
    if not is_known(index) or index.ndim != 1 or not n or not len(index) or len(index) % n:
        return None
    times = len(index) // n
    if not torch.equal(index.to(torch.int64), torch.arange(n).repeat_interleave(times)):
        return None
    before, behind = shape_of(x)[: dim + 1], shape_of(x)[dim + 1 :]
    wide = c.stretch(c.reshape(x, before + (1,) + behind), before + (times,) + behind)
    return c.reshape(wide, before[:-1] + (n * times,) + behind)


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
    """The indexed dimensions and the others; x with the former first and merged into one; the numbers of its rows and
    their shape."""
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


class _Along:
    """What x[torch.arange(len(x))[:, None], z] does, and its like: all indices but z number their own dimensions of the
    result, so that each entry of z names an element beside those that it stands for.  None: it is something else."""

    @classmethod
    def of(cls, c, x, indices):
        at = [i for i, index in enumerate(indices) if index is not None]
        picks = [i for i in at if not is_known(indices[i])]
        if at != list(range(len(at))) or len(at) < 2 or len(picks) != 1:
            return None
        shape = torch.broadcast_shapes(*[shape_of(indices[i]) for i in at])
        beside = {}  # dimension of x -> dimension of the result that it is
        for i in set(at) - set(picks):
            varies = [d for d, n in enumerate(indices[i].shape) if n > 1]
            d = len(shape) - indices[i].ndim + varies[0] if len(varies) == 1 else None
            size = shape_of(x)[i]
            if d is None or d in beside.values() or not torch.equal(indices[i].flatten().long(), torch.arange(size)):
                return None
            beside[i] = d
        return cls(c, x, picks[0], beside, shape, indices[picks[0]])

    def __init__(self, c, x, dim, beside, shape, index):
        self.c, self.shape, self.rest = c, tuple(shape), shape_of(x)[len(beside) + 1 :]
        self.own = sorted(beside)
        free = [d for d in range(len(shape)) if d not in beside.values()]
        self.perm = [beside[i] for i in self.own] + free  # of the dimensions of the result that are indices'
        self.x_perm = self.own + [dim] + list(range(len(self.own) + 1, len(shape_of(x))))
        self.axis, self.rows = len(self.own), shape_of(x)[dim]
        self.kept = tuple(shape_of(x)[i] for i in self.own)
        self.num = math.prod(self.shape[d] for d in free)
        self.x = c.transpose(c.own(x), self.x_perm)
        index = c.stretch(_counted_from_front(c, index, self.rows), self.shape)
        self.index = self.beside(c.reshape(index, self.shape + (1,) * len(self.rest)))

    def beside(self, value):
        """A value of the result's shape with its elements in the order of x, which has `dim` behind `own`."""
        perm = self.perm + list(range(len(self.shape), len(self.shape) + len(self.rest)))
        value = self.c.transpose(self.c.stretch(value, self.shape + tuple(self.rest)), perm)
        return self.c.reshape(value, self.kept + (self.num,) + tuple(self.rest))

    def taken(self):
        y = self.c.g.take_along(self.x, self.index, axis=self.axis)
        apart = [self.shape[d] for d in self.perm] + list(self.rest)
        order = [self.perm.index(d) for d in range(len(self.perm))]
        return self.c.transpose(self.c.reshape(y, apart), order + list(range(len(order), len(apart))))

    def put(self, values, accumulate):
        y = _put_along(self.c, self.x, self.axis, self.index, self.beside(self.c.t(values)), accumulate)
        return None if y is None else self.c.transpose(y, [self.x_perm.index(d) for d in range(len(self.x_perm))])


def _put_along(c, x, dim, index, source, accumulate):
    """x, in which elements named along dim, for all of its other dimensions, are replaced or increased; None: they are
    too many."""
    rows, k = shape_of(x)[dim], shape_of(index)[dim]
    if accumulate:
        return c.g.add(x, c.g.add_along(index, source, rows=rows, axis=dim))
    if k > MOST_PUT:
        return None
    for j in range(k):
        here = c.cut(index, dim, j, j + 1)
        one = c.stretch(c.t(1.0, "f32"), here.shape)
        hit = c.compare(c.g.add_along(here, one, rows=rows, axis=dim), 0, "gt")
        x = c.g.select(hit, c.stretch(c.cut(source, dim, j, j + 1), shape_of(x)), x)
    return x


def _each_by_itself(c, x, indices, at, shape):
    """x[rows[:, None], columns] and its like, of numbers that are known: each index picks along its own dimension, and
    the result, [*shape, *the rest of x], has them side by side.  None: it is something else."""
    beside = {}  # dimension of x -> dimension of the result that it is
    for i in at:
        varies = [d for d, n in enumerate(shape_of(indices[i])) if n > 1]
        if not is_known(indices[i]) or len(varies) > 1:
            return None
        beside[i] = len(shape) - len(shape_of(indices[i])) + varies[0] if varies else -1
    if len({d for d in beside.values() if d >= 0}) != sum(d >= 0 for d in beside.values()):
        return None
    for i in at:
        numbers = indices[i].flatten().long()
        numbers = torch.where(numbers < 0, numbers + shape_of(x)[i], numbers)
        if not torch.equal(numbers, torch.arange(shape_of(x)[i])):
            x = c.pick(x, i, numbers)
    rest = [i for i in range(len(shape_of(x))) if i not in at]
    x = c.transpose(x, sorted(at, key=beside.get) + rest)
    return c.reshape(x, tuple(shape) + tuple(shape_of(x)[len(at) :]))


@row("index.Tensor", "_unsafe_index.Tensor")
def index(c, x, indices):
    if not shape_of(x):
        return c.reshape(x, c.shape)
    indices = _without_masks(c, list(indices))
    at = [i for i, index in enumerate(indices) if index is not None]
    if len(at) == 1:
        repeated = _repeated(c, x, indices[at[0]], at[0])
        if repeated is not None:
            return repeated
        numbers = _counted_from_front(c, indices[at[0]], shape_of(x)[at[0]])
        return c.g.gather(c.own(x), numbers, axis=at[0])
    along = _Along.of(c, x, indices)
    if along:
        return along.taken()
    shape = torch.broadcast_shapes(*[shape_of(indices[i]) for i in at])
    y = _each_by_itself(c, x, indices, at, shape)
    if y is None:
        _, _, merged, numbers, _ = _plan_index(c, x, indices)
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
    along = _Along.of(c, x, indices)
    y = along.put(values, accumulate) if along else None
    if y is not None:
        return y
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
    if all(a == b for i, (a, b) in enumerate(zip(shape, shape_of(x))) if i != dim):
        y = _put_along(c, c.own(x), dim, c.own(index), source, accumulate)
        if y is not None:
            return y
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
