"""Rows chosen by a mask that depends on data, as x[mask], masked_select, nonzero and where(mask) give them.

How many they are is not known before a step.  The graph has all rows, chosen or not, and the mask beside them: what
treats each row by itself does so with all of them; what adds rows up, or puts them back in their places, leaves out
those that were not chosen.

Rows that were not chosen may hold anything, infinity and NaN too.  They are replaced by zeros, and with that their
gradients, before they meet what other rows use too, as the weights of a linear layer, and before they are added up."""

import contextlib
import math

import torch

from msc.pytorch.aten import FLOATS, Call, Refused, dtype_of, is_known, positive, shape_of

DEPENDS = "the size of its result depends on data"
OTHER_USE = "rows that a mask chose while the step runs are used otherwise than one by one, in sums or in their places"


class Choice:
    """Which rows are there: a mask of the graph, [rows]; `each`: of how many rows every element of the first mask
    became one by a reshape."""

    def __init__(self, mask, each=1, first=None):
        self.mask, self.each, self._first = mask, each, first or self
        self._spread, self._counts, self._also = {}, {}, {}

    def spread(self, c, each):
        """The choice for rows that are `each` times as many as those of the first mask."""
        first = self._first
        if each == 1:
            return first
        if each not in first._spread:
            wide = c.stretch(c.reshape(first.mask, first.mask.shape + (1,)), first.mask.shape + (each,))
            mask = c.reshape(wide, (math.prod(wide.shape),))
            first._spread[each] = Choice(mask, each, first)
        return first._spread[each]

    def also(self, c, mask):
        """A mask of those rows that this one has too."""
        if mask.number not in self._also:
            self._also[mask.number] = c.g.logical_and(self.mask, mask)
        return self._also[mask.number]

    def is_of(self, mask):
        return self._first.mask.number == mask.number

    def count(self, c, dtype):
        """How many rows there are, a number of this element type."""
        if dtype not in self._counts:
            self._counts[dtype] = c.g.reduce_sum(c.g.cast(self.mask, dtype), [0])
        return self._counts[dtype]


class Chosen:
    """A tensor of which only those rows are there that were chosen; `rows`: all, of the graph or known."""

    def __init__(self, rows, choice):
        self.rows, self.choice, self.is_clean = rows, choice, False

    shape = property(lambda self: tuple(self.rows.shape))
    dtype = property(lambda self: self.rows.dtype)

    def clean(self, c):
        """The same with zeros in all other rows."""
        if self.is_clean or isinstance(self.rows, torch.Tensor):
            return self
        return self.filled(c, 0)

    def filled(self, c, value):
        mask = c.reshape(self.choice.mask, self.choice.mask.shape + (1,) * (len(self.shape) - 1))
        rows = c.g.select(c.stretch(mask, self.shape), self.rows, c.stretch(c.t(value, self.dtype), self.shape))
        result = Chosen(rows, self.choice)
        result.is_clean = value == 0
        return result


class Size:
    """A number made of that of chosen rows: how large it is if all are, and how many times their number it is."""

    def __init__(self, converter, val):
        expression = val.node.expr
        symbol, *others = expression.free_symbols
        if others or symbol not in converter.choices:
            raise Refused(DEPENDS)
        values = [float(expression.subs({symbol: n})) for n in (0, 1, 2)]
        self.choice = converter.choices[symbol]
        self.each = values[1] if values == [0, values[1], 2 * values[1]] else None
        self.whole = expression.subs({symbol: self.choice.mask.shape[0]})

    def tensor(self, c):
        if self.each is None:
            raise Refused(OTHER_USE)
        dtype = c.dtype if c.dtype in FLOATS else "f32"
        return c.mul(self.choice.count(c, dtype), self.each)


def is_concerned(converter, node):
    """True for a node that makes or uses chosen rows or their number."""
    vals = node.meta.get("val")
    for v in vals if isinstance(vals, (list, tuple)) else (vals,):
        if isinstance(v, (torch.SymInt, torch.SymFloat)) or any(
            isinstance(s, torch.SymInt) for s in getattr(v, "shape", ())
        ):
            return True
    return any(_has_rows(converter.values.get(n)) for n in node.all_input_nodes)


def _has_rows(value):
    return any(map(_has_rows, value)) if isinstance(value, (list, tuple)) else isinstance(value, (Chosen, Size))


def translate(converter, node, name):
    """The value of a node that is concerned."""
    val = node.meta["val"]
    if isinstance(val, (torch.SymInt, torch.SymFloat)):
        return Size(converter, val)
    arguments, words = converter.of(node.args), converter.of(node.kwargs)
    if name in _CHOOSING and not _is_lookup(arguments):
        return _choose(converter, node, name, arguments)
    call = _Use(converter, node, name, arguments, words)
    return call.result()


@contextlib.contextmanager
def exportable():
    """Lets PyTorch tell the shape of nll_loss of rows whose number is not known, for which it asks whether there are
    none."""
    table, target = torch._decomp.decomposition_table, torch.ops.aten.nll_loss.default
    before = table[target]

    def nll_loss(x, y, weight=None, reduction=1, ignore_index=-100):
        if any(isinstance(s, torch.SymInt) for s in x.shape):
            return x.new_empty(() if reduction else y.shape)
        return before(x, y, weight, reduction, ignore_index)

    table[target] = nll_loss
    try:
        yield
    finally:
        table[target] = before


# ---- choosing ----


def _is_lookup(arguments):
    """True for x[rows], of which the rows are numbers."""
    indices = arguments[1] if len(arguments) > 1 else None
    return isinstance(indices, (list, tuple)) and dtype_of(indices[0]) not in ("i1", "u8")


def _flat(c, mask):
    """A mask in one dimension, each time the same value of the graph."""
    flat = c.converter.flat_masks
    if mask.number not in flat:
        flat[mask.number] = c.reshape(mask, (math.prod(mask.shape),))
    return flat[mask.number]


def _by_index(c, x, indices):
    mask = indices[0]
    if len(indices) != 1 or mask is None:
        raise Refused("a boolean mask that depends on data, beside other indices")
    if isinstance(x, Chosen):  # rows of rows
        if not isinstance(mask, Chosen) or mask.choice is not x.choice:
            raise Refused(OTHER_USE)
        return x.rows, x.choice.also(c, mask.rows)
    if isinstance(mask, Chosen) or is_known(mask):
        raise Refused(OTHER_USE)
    rest = shape_of(x)[len(mask.shape) :]
    return c.reshape(x, (math.prod(mask.shape),) + rest), _flat(c, mask)


def _by_element(c, x, mask):
    shape = torch.broadcast_shapes(shape_of(x), shape_of(mask))
    return c.reshape(c.stretch(x, shape), (math.prod(shape),)), _flat(c, c.stretch(mask, shape))


def _by_place(c, mask):
    """The places of what is true: [rows, dimensions]."""
    places = torch.ones(mask.shape, dtype=torch.bool).nonzero()
    return places, _flat(c, mask)


def _by_places(c, mask):
    places, mask = _by_place(c, mask)
    return list(places.unbind(1)), mask


_CHOOSING = {
    "index.Tensor": _by_index,
    "masked_select.default": _by_element,
    "nonzero.default": _by_place,
    "where.default": _by_places,
    "nonzero_numpy.default": _by_places,
}


def _choose(converter, node, name, arguments):
    c = Call(converter, name, [None])
    if name != "index.Tensor":
        mask = arguments[-1]
        if isinstance(mask, Chosen) or is_known(mask) or mask.dtype != "i1":
            raise Refused(DEPENDS)
    rows, mask = _CHOOSING[name](c, *arguments)
    vals = node.meta["val"]
    size = (vals[0] if isinstance(vals, (list, tuple)) else vals).shape[0]
    symbol = size.node.expr if isinstance(size, torch.SymInt) else None
    known = converter.choices.get(symbol)
    if known and known.mask.number != mask.number:
        raise Refused("rows of two masks are used side by side")
    if symbol is None or not symbol.is_symbol:
        raise Refused(DEPENDS)
    choice = converter.choices.setdefault(symbol, Choice(mask))
    return [Chosen(r, choice) for r in rows] if isinstance(rows, list) else Chosen(rows, choice)


# ---- using ----

_BY_DIM = frozenset(
    """softmax.int log_softmax.int _softmax.default _log_softmax.default sum.dim_IntList mean.dim amax.default
    amin.default argmax.default argmin.default max.dim min.dim logsumexp.default cumsum.default topk.default
    sort.default var.correction std.correction linalg_vector_norm.default unsqueeze.default squeeze.dim squeeze.dims
    select.int slice.Tensor transpose.int split.Tensor split_with_sizes.default chunk.default unbind.int cat.default
    stack.default flip.default glu.default any.dim all.dim prod.dim_int gather.default permute.default
    cosine_similarity.default""".split()
)
_PLAIN = frozenset(
    """clone.default detach.default alias.default _to_copy.default contiguous.default dropout.default
    native_dropout.default one_hot.default broadcast_tensors.default expand.default""".split()
)
_SHAPES = frozenset("view.default reshape.default _unsafe_view.default flatten.using_ints squeeze.default".split())
_FIRST_ALONE = frozenset(
    "linear.default mm.default matmul.default conv1d.default conv2d.default conv2d.padding".split()
)  # the first operand has rows, the others have none
_NORMS = frozenset("layer_norm.default native_layer_norm.default rms_norm.default".split())
_LABELLED = frozenset("cross_entropy_loss.default nll_loss.default nll_loss_nd.default".split())
_LOSSES = frozenset(
    """mse_loss.default l1_loss.default smooth_l1_loss.default huber_loss.default soft_margin_loss.default
    binary_cross_entropy.default binary_cross_entropy_with_logits.default kl_div.default""".split()
)  # of each element
_SUMS = frozenset("sum.default sum.dim_IntList mean.default mean.dim".split())
_EXTREMES = {"amax.default": -math.inf, "max.default": -math.inf, "amin.default": math.inf, "min.default": math.inf}
_PUTTING = frozenset(
    "index_put.default index_add.default index_copy.default index_fill.int_Scalar index_fill.int_Tensor".split()
)
_UNIFORM = frozenset("zeros.default ones.default full.default".split())


def _leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def _mapped(value, function):
    if isinstance(value, (list, tuple)):
        return [_mapped(v, function) for v in value]
    return {k: _mapped(v, function) for k, v in value.items()} if isinstance(value, dict) else function(value)


def _plain(value):
    """All rows in place of those that are chosen."""
    return value.rows if isinstance(value, Chosen) else int(value.whole) if isinstance(value, Size) else value


class _Use:
    """One call that has chosen rows, or their number, among its operands."""

    def __init__(self, converter, node, name, arguments, words):
        self.converter, self.node, self.name = converter, node, name
        schema = node.target._schema.arguments
        self.given = {a.name: a.default_value for a in schema}
        self.given.update(zip((a.name for a in schema), arguments))
        self.given.update(words)
        self.arguments, self.words = list(arguments), dict(words)
        vals = node.meta["val"]
        self.vals = [v for v in (vals if isinstance(vals, (list, tuple)) else [vals]) if isinstance(v, torch.Tensor)]
        leaves = _leaves(self.arguments) + _leaves(list(self.words.values()))
        self.chosen = [v for v in leaves if isinstance(v, Chosen)]
        self.shared = [v for v in leaves if hasattr(v, "graph")]  # tensors of the graph that all rows meet
        self.types = [(dtype_of(v), tuple(self._whole(s) for s in v.shape)) for v in self.vals]
        self.c = Call(converter, name, self.types)

    def _whole(self, size):
        return int(Size(self.converter, size).whole) if isinstance(size, torch.SymInt) else int(size)

    def result(self):
        if not self.chosen:
            return self._with_sizes()
        if self.name in _PUTTING:
            return self._put_back()
        if self.name in _LABELLED and self.given["reduction"]:
            return self._mean_of_labelled()
        if self.name in _LOSSES and self.given["reduction"]:
            return self._mean_of_losses()
        if self._is_by_row():
            return self._by_row()
        if self.name in _SUMS:
            return self._sum()
        if self.name in _EXTREMES and dtype_of(self.chosen[0]) in FLOATS:
            self.arguments[0] = self.chosen[0].filled(self.c, _EXTREMES[self.name])
            return self._call()
        raise Refused(OTHER_USE)

    def _call(self, arguments=None):
        """The call with all rows, by its row or its decomposition."""
        given = _mapped(self.arguments if arguments is None else arguments, _plain)
        return self.converter.call_with(self.node, self.types, given, _mapped(self.words, _plain), has_rows=True)

    # ---- row by row ----

    def _choice(self):
        choices = {id(v.choice._first) for v in self.chosen}
        if len(choices) != 1:
            raise Refused("rows of two masks are used side by side")
        return self.chosen[0].choice

    def _each(self, val):
        """How many rows of a result there are for one that was chosen first; None: rows are not its first dimension
        alone."""
        sizes = [isinstance(s, torch.SymInt) for s in val.shape]
        if not sizes or not sizes[0] or any(sizes[1:]):
            return None
        each = Size(self.converter, val.shape[0]).each
        return int(each) if each and each == int(each) else None

    def _is_by_row(self):
        each = {self._each(v) for v in self.vals}
        if None in each or len(each) != 1:
            return False
        if self.name in _SHAPES:
            return True
        if each != {v.choice.each for v in self.chosen}:
            return False
        rank, first = len(self.chosen[0].shape), self.arguments[0]
        if self.name in _FIRST_ALONE:
            return isinstance(first, Chosen) and len(self.chosen) == 1 and rank > 1
        if self.name in _NORMS:
            return len(self.given["normalized_shape"]) < rank
        if self.name == "embedding.default" or self.name == "index.Tensor":
            return hasattr(first, "shape") and not isinstance(first, Chosen) and all(
                v is None or isinstance(v, Chosen) for v in _leaves(self.arguments[1])
            ) and self.arguments[1] is not None
        if self.name in _BY_DIM:
            return self._leaves_rows_alone(rank)
        is_by_element = torch.Tag.pointwise in self.node.target.tags or self.name in _LOSSES
        return (is_by_element or self.name in _PLAIN) and all(
            len(v.shape) == len(self.types[0][1]) or self.name == "one_hot.default" for v in self.chosen
        )

    def _leaves_rows_alone(self, rank):
        """True if the dimensions that the call speaks of are others than that of the rows."""
        if self.name in ("cat.default", "stack.default") and len(self.chosen) != len(self.arguments[0]):
            return False
        if self.name == "gather.default" and len(self.chosen) != 2:
            return False
        rank += self.name in ("unsqueeze.default", "stack.default")
        if self.name == "permute.default":
            return self.given["dims"][0] % rank == 0
        found = [self.given[n] for n in ("dim", "dims", "dim0", "dim1") if n in self.given]
        return all(d is not None and d != [] and 0 not in positive(d, rank) for d in found)

    def _by_row(self):
        """Results with all rows.  Those that were not chosen must neither name elements that there are not, nor reach
        what other rows use too, nor give it gradients."""
        choice = self._choice().spread(self.c, self._each(self.vals[0]))
        by_element = torch.Tag.pointwise in self.node.target.tags

        def cleaned(v):
            is_index = not by_element and dtype_of(v) not in FLOATS
            return v.clean(self.c) if isinstance(v, Chosen) and (self.shared or is_index) else v

        arguments = _mapped(self.arguments, cleaned)
        if self.name == "index.Tensor":
            rows = _looked_up(self.c, arguments[0], arguments[1])
            result = rows if rows is not None else self._call(arguments)
        elif all(isinstance(v.rows, torch.Tensor) for v in self.chosen) and not self.shared:
            result = self._known(arguments)
        else:
            result = self._call(arguments)

        def chosen(rows):
            value = Chosen(rows, choice)
            return value.clean(self.c) if self.shared and dtype_of(value) in FLOATS else value

        return [chosen(r) for r in result] if isinstance(result, (list, tuple)) else chosen(result)

    def _known(self, arguments):
        return self.node.target(*_mapped(arguments, _plain), **_mapped(self.words, _plain))

    # ---- sums ----

    def _sum(self):
        x, c = self.chosen[0].clean(self.c), self.c
        rows = c.t(x.rows) if not self.name.startswith("mean") else c.t(x.rows, c.dtype)
        dims, keep = positive(self.given.get("dim"), len(x.shape)), bool(self.given.get("keepdim"))
        total = c.g.reduce_sum(rows, dims, keep_dims=keep)
        if not self.name.startswith("mean"):
            return total
        if 0 not in dims:
            raise Refused(OTHER_USE)
        others = math.prod(x.shape[d] for d in dims if d)
        count = c.mul(x.choice.count(c, total.dtype), float(others))
        return c.g.div(total, c.stretch(count, total.shape))

    def _mean_of_losses(self):
        """Of a loss of each element: the elements' own, then their mean or sum."""
        mean = self.given["reduction"] == 1
        choice, shape = self._choice(), self.chosen[0].shape
        if any(v.shape != shape for v in self.chosen) or any(shape_of(v)[:1] == shape[:1] for v in self.shared):
            raise Refused(OTHER_USE)
        cleaned = _mapped(self.arguments, lambda v: v.clean(self.c) if isinstance(v, Chosen) else v)
        place = [a.name for a in self.node.target._schema.arguments].index("reduction")
        self.words.pop("reduction", None)
        defaults = [a.default_value for a in self.node.target._schema.arguments]
        self.types = [(self.types[0][0], shape)]
        each = self._call((cleaned + defaults[len(cleaned) : place + 1])[:place] + [0] + cleaned[place + 1 :])
        rows, c = Chosen(each, choice).clean(self.c), self.c
        total = c.g.reduce_sum(rows.rows, list(range(len(shape))))
        count = c.mul(choice.count(c, total.dtype), float(math.prod(shape[1:])))
        return c.g.div(total, count) if mean else total

    def _mean_of_labelled(self):
        """Labels of rows that were not chosen become the one that is ignored."""
        x, labels = self.arguments[:2]
        if not isinstance(x, Chosen) or not isinstance(labels, Chosen) or dtype_of(labels) in FLOATS:
            raise Refused(OTHER_USE)
        self._choice()
        labels = labels if hasattr(labels.rows, "graph") else Chosen(self.c.own(labels.rows), labels.choice)
        ignored = labels.filled(self.c, int(self.given["ignore_index"]))
        return self._call([x.clean(self.c), ignored] + self.arguments[2:])

    # ---- back to their places, and numbers ----

    def _put_back(self):
        c, x = self.c, self.arguments[0]
        values = next(self.given[n] for n in ("values", "source", "value") if n in self.given)
        if isinstance(x, Chosen):
            raise Refused(OTHER_USE)
        index = self.given.get("indices", [self.given.get("index")])
        adds = self.name == "index_add.default" or bool(self.given.get("accumulate"))
        if len(index) != 1 or index[0] is None or self.given.get("dim", 0) != 0:
            raise Refused(OTHER_USE)
        index, shape = index[0], shape_of(x)
        if isinstance(index, Chosen):
            mask = index.choice.mask
            if not isinstance(index.rows, torch.Tensor) or index.rows.ndim != 1:
                return self._add_at(index, values, adds)
            rows = _from_pattern(c, index.rows, self._all_values(values, index.choice, shape[1:]), shape[0], adds)
        else:
            mask = index
            if not values.choice.is_of(_flat(c, mask)):
                raise Refused("rows of two masks are used side by side")
            rows = self._all_values(values, values.choice, shape[len(mask.shape) :])
        if rows is None:
            return self._add_at(index, values, adds)
        rows = c.reshape(rows, shape)
        if adds:
            return c.g.add(c.t(x), c.mul(rows, self.given.get("alpha", 1)))
        mask = c.reshape(mask, mask.shape + (1,) * (len(shape) - len(mask.shape)))
        return c.where(c.stretch(mask, shape), rows, c.t(x))

    def _all_values(self, values, choice, rest):
        """What is put, for all rows; zeros for those that were not chosen."""
        c, num = self.c, choice.mask.shape[0]
        if not isinstance(values, Chosen):
            if shape_of(values) and shape_of(values)[0] != 1 and len(shape_of(values)) > len(rest):
                raise Refused(OTHER_USE)
            values = Chosen(c.stretch(c.t(values), (num,) + tuple(rest)), choice)
        if values.choice is not choice:
            raise Refused("rows of two masks are used side by side")
        return c.t(values.clean(c).rows)

    def _add_at(self, index, values, adds):
        """Adds rows at places that data say; those that were not chosen add zeros at place 0."""
        if not adds:
            raise Refused("values put at places of chosen rows, of which several may be one")
        c, x = self.c, self.arguments[0]
        rows = self._all_values(values, index.choice, shape_of(x)[1:])
        places = c.t(index.clean(c).rows, "i64")
        return c.g.add(c.t(x), c.mul(c.g.scatter_add(places, rows, rows=shape_of(x)[0]), self.given.get("alpha", 1)))

    def _with_sizes(self):
        """A call that has numbers of rows among its operands, but no rows."""
        if self.name in _UNIFORM and self._each(self.vals[0]):
            choice = Size(self.converter, self.vals[0].shape[0]).choice.spread(self.c, self._each(self.vals[0]))
            return Chosen(self._known(self.arguments), choice)
        is_sized = any(isinstance(s, torch.SymInt) for s in self.vals[0].shape)
        if torch.Tag.pointwise not in self.node.target.tags or is_sized:
            raise Refused(OTHER_USE)
        self.arguments = [v.tensor(self.c) if isinstance(v, Size) else v for v in self.arguments]
        return self._call()


# ---- rows at places that are known ----


def _repeats(places, num):
    """How often these places, which are known, run through all of `num`: (one run behind the other, each place at
    once); None: they are others."""
    times, line = places.numel() // num, torch.arange(num)
    if places.ndim != 1 or times * num != places.numel():
        return None
    if torch.equal(places, line.repeat(times)):
        return times, 1
    return (1, times) if torch.equal(places, line.repeat_interleave(times)) else None


def _looked_up(c, x, indices):
    """x at places of chosen rows where these run through all of x: x itself, or repeated; None: they do not."""
    if len(indices) != 1 or not isinstance(indices[0].rows, torch.Tensor):
        return None
    found = _repeats(indices[0].rows, shape_of(x)[0])
    if not found:
        return None
    num, rest = shape_of(x)[0], shape_of(x)[1:]
    wide = c.stretch(c.reshape(x, (1, num, 1) + rest), (found[0], num, found[1]) + rest)
    return c.reshape(wide, (found[0] * num * found[1],) + rest)


def _from_pattern(c, places, rows, num, adds):
    """Rows put at these places of `num`, those that meet added up; None: another way must be found."""
    found = _repeats(places, num)
    if not found or (not adds and found != (1, 1)):
        return None
    apart = (found[0], num, found[1]) + tuple(rows.shape[1:])
    return rows if found == (1, 1) else c.sum(c.reshape(rows, apart), [0, 2])
