"""The op table as the builder sees it: names, operands and attributes, from the rows of ir/op.def, and result types.

msc infers all types again and compares, so what is checked here is only what is needed to compute a type; a size that
is not known until --dim is given is -1 and stays -1 in whatever depends on it."""
import json
import os
import re
from collections import namedtuple
from math import prod


class Error(ValueError):
    """The model is wrong; the traceback shows where."""


Type = namedtuple("Type", "dtype dims")

Attr = namedtuple("Attr", "name kind required default")
Row = namedtuple("Row", "name operands results attrs infer")
# what kinds say beyond that is for the compiler
_KINDS = {"dim": "int", "dims": "ints", "perm": "ints", "each": "ints", "digits": "str"}
_PLAIN = ("int", "float", "bool", "str", "ints", "floats", "splits", "layouts", "digits", "digit_lists", "type",
          "dense")
_DEFAULTS = {"int": int, "float": float, "str": str, "bool": lambda text: text == "true"}


def _attr(word):
    """An attribute from the row's "name:kind[=default]"; with `?` behind the kind it may be absent."""
    name, kind = word.split(":")
    kind, equals, default = kind.partition("=")
    optional = kind.endswith("?")
    kind = kind.rstrip("?")
    kind = _KINDS.get(kind, kind if kind in _PLAIN else "str")  # the other kinds are sets of words
    return Attr(name, kind, not optional and not equals, _DEFAULTS[kind](default) if equals else None)


def made_by_build(name):
    """The contents of a JSON file that the build puts beside this one."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        raise ImportError(f"{path} is not there: build it with ninja, or install the wheel") from None


def listed():
    """The rows of ops.json, which are those of ir/op.def (tools/python/list_ops)."""
    return made_by_build("ops.json")["ops"]


def _rows():
    """The listed rows, each with the function that infers its types."""
    rows = {}
    for row in listed():
        own = "_" + row["name"] in globals()  # where a shape function of the compiler does several ops
        shape = row["name"] if own else _LIKE.get(row["shape"], row["shape"])
        rows[row["name"]] = Row(row["name"], tuple(row["operands"].split()), tuple(row["results"].split()),
                                tuple(_attr(w) for w in row["attributes"].split()), globals()["_" + shape])
    return rows


# ---- which dimension: axis, dim, axes or dims, from the end where it is negative, for every op ----

_SPELLINGS = ("axis", "dim", "axes", "dims")


def dimension_of(row):
    """The row's own word for the dimension, or dimensions, that its op is about; None: it is about none."""
    own = [a for a in row.attrs if a.name in _SPELLINGS and a.kind in ("int", "ints")]
    return own[0].name if own else None


def respelled(row, words):
    """What an op is told, with any of the words for its dimension as the row's own."""
    own = dimension_of(row)
    others = [w for w in _SPELLINGS if own and w in words and w != own and all(a.name != w for a in row.attrs)]
    for other in others:
        if own in words:
            raise Error(f"{row.name}: {own} and {other} both say which dimension; one of them is enough")
        words[own] = words.pop(other)
    return words


def _rank(row, attrs, types):
    if row.name == "iota":
        return len(attrs["type"][1])
    if row.name == "scatter_add":
        return len(types[1].dims) - len(types[0].dims) + 1
    return len(types[0].dims) + (row.name in ("expand_dims", "stack"))


def counted(row, attrs, types):
    """Dimensions counted from the first; one number where a list is wanted is a list of one."""
    own, out = dimension_of(row), dict(attrs)
    for name in (own, "perm"):
        spec = next((a for a in row.attrs if a.name == name), None)
        value = out.get(name)
        if spec is None or value is None or (spec.default is not None and spec.default < 0):
            continue  # the op itself counts from the end
        rank, each = _rank(row, attrs, types), list(value) if hasattr(value, "__len__") else [value]
        if any(d < -rank for d in each):
            raise Error(f"{name} {min(each)} is not one of {rank} dimensions")
        each = [d + rank if d < 0 else d for d in each]
        out[name] = each if spec.kind == "ints" else each[0]
    return out


# ---- result types: (operand types, attributes, mesh) -> list of types ----

def _total(dims):
    return -1 if -1 in dims else prod(dims)


def _stretch(shapes):
    """numpy's rules: aligned from the right, 1 stretches; an unknown size is taken for the other's."""
    rank = max(len(s) for s in shapes)
    result = []
    for i in range(rank):
        sizes = {s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0} - {1}
        known = sizes - {-1}
        if len(known) > 1:
            raise Error(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast")
        result.append(known.pop() if known else -1 if sizes else 1)
    return tuple(result)


def _unary(types, attrs, mesh):
    return [types[0]]


def _binary(types, attrs, mesh):
    return [Type(types[0].dtype, _stretch([t.dims for t in types]))]


def _compare(types, attrs, mesh):
    return [Type("i1", _stretch([t.dims for t in types]))]


def _select(types, attrs, mesh):
    return [Type(types[1].dtype, _stretch([t.dims for t in types]))]


def _iota(types, attrs, mesh):
    return [attrs["type"]]


def _cast(types, attrs, mesh):
    return [Type(attrs["dtype"], types[0].dims)]


def _broadcast_to(types, attrs, mesh):
    return [Type(types[0].dtype, tuple(attrs["shape"]))]


def _reshape(types, attrs, mesh):
    shape, total = list(attrs["shape"]), _total(types[0].dims)
    if -1 in shape and total >= 0:
        known = prod(s for s in shape if s != -1)
        if known == 0 or total % known:
            raise Error(f"{list(types[0].dims)} does not reshape to {shape}")
        shape[shape.index(-1)] = total // known
    return [Type(types[0].dtype, tuple(shape))]


def _flatten(types, attrs, mesh):
    dims, axis = types[0].dims, attrs.get("axis", 1)
    return [Type(types[0].dtype, dims[:axis] + (_total(dims[axis:]),))]


def _transpose(types, attrs, mesh):
    dims, perm = types[0].dims, attrs["perm"]
    if sorted(perm) != list(range(len(dims))):
        raise Error(f"perm {list(perm)} is not a permutation of the {len(dims)} dimensions")
    return [Type(types[0].dtype, tuple(dims[p] for p in perm))]


def _at(dims, i, what):
    if not 0 <= i < len(dims):
        raise Error(f"{what} {i} is not a dimension of {list(dims)}")
    return i


def _with(dims, i, size):
    return dims[:i] + (size,) + dims[i + 1:]


def _concat(types, attrs, mesh):
    at = _at(types[0].dims, attrs["dim"], "dim")
    sizes = [t.dims[at] for t in types]
    return [Type(types[0].dtype, _with(types[0].dims, at, -1 if -1 in sizes else sum(sizes)))]


def _split(types, attrs, mesh):
    at = _at(types[0].dims, attrs["dim"], "dim")
    return [Type(types[0].dtype, _with(types[0].dims, at, size)) for size in attrs["sizes"]]


def _slice(types, attrs, mesh):
    stride = attrs.get("stride") or [1] * len(attrs["start"])
    sizes = [-(-(limit - start) // step) for start, limit, step in zip(attrs["start"], attrs["limit"], stride)]
    return [Type(types[0].dtype, tuple(sizes))]


def _pad(types, attrs, mesh):
    dims = types[0].dims
    stride = attrs.get("stride") or [1] * len(dims)
    sizes = [-1 if n < 0 else low + high + (n - 1) * step + 1 if n else low + high for n, low, high,
             step in zip(dims, attrs["low"], attrs["high"], stride)]
    return [Type(types[0].dtype, tuple(sizes))]


def _gather(types, attrs, mesh):
    table, indices = types
    axis = _at(table.dims, attrs.get("axis", 0), "axis")
    return [Type(table.dtype, table.dims[:axis] + indices.dims + table.dims[axis + 1:])]


def _scatter_add(types, attrs, mesh):
    indices, updates = types
    axis = attrs.get("axis", 0)
    return [Type(updates.dtype, updates.dims[:axis] + (attrs["rows"],) + updates.dims[axis + len(indices.dims):])]


def _axis(dims, attrs):
    axis = attrs.get("axis", -1)
    return _at(dims, axis + len(dims) if axis < 0 else axis, "axis")


def _take_along(types, attrs, mesh):
    return [Type(types[0].dtype, types[1].dims)]


def _add_along(types, attrs, mesh):
    dims = types[1].dims
    return [Type(types[1].dtype, _with(dims, _axis(dims, attrs), attrs["rows"]))]


def _gather_nd(types, attrs, mesh):
    x, indices = types
    return [Type(x.dtype, indices.dims[:-1] + x.dims[indices.dims[-1]:])]


def _scatter_nd_add(types, attrs, mesh):
    return [Type(types[1].dtype, tuple(attrs["shape"]))]


def _sort(types, attrs, mesh):
    dims = types[0].dims
    axis = _axis(dims, attrs)
    dims = _with(dims, axis, attrs.get("k", dims[axis]))
    return [Type(types[0].dtype, dims), Type(attrs.get("dtype", "i32"), dims)]


def _einsum(types, attrs, mesh):
    operands, arrow, result = attrs["equation"].replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or len(terms) != len(types) or any(len(term) != len(t.dims) for term, t in zip(terms, types)):
        raise Error(f"equation {attrs['equation']} does not fit {' and '.join(str(list(t.dims)) for t in types)}")
    size = {}
    for term, t in zip(terms, types):
        for letter, n in zip(term, t.dims):
            if size.setdefault(letter, n) != n and -1 not in (n, size[letter]):
                raise Error(f"letter {letter} is {size[letter]} and {n}")
            size[letter] = max(n, size[letter])
    if set(result) - set(size):
        raise Error(f"letters of the result {result} are in no operand")
    return [Type(types[0].dtype, tuple(size[letter] for letter in result))]


def _argmax(types, attrs, mesh):
    dims = types[0].dims
    axis = _axis(dims, attrs)
    return [Type(attrs.get("dtype", "i32"), _with(dims, axis, 1) if attrs.get("keep_dims")
                 else dims[:axis] + dims[axis + 1:])]


def _unique(types, attrs, mesh):
    index = attrs.get("dtype", "i32")
    return [types[0], Type(index, types[0].dims), Type(index, ())]


def _one_hot(types, attrs, mesh):
    return [Type(attrs.get("dtype", "f32"), types[0].dims + (attrs["depth"],))]


def _matmul(types, attrs, mesh):
    a, b = (t.dims for t in types)
    if len(a) < 2 or len(b) < 2:
        raise Error(f"operands must be matrices, not {list(a)} and {list(b)}")
    m, k = a[-2:][::-1] if attrs.get("transpose_a") else a[-2:]
    k2, n = b[-2:][::-1] if attrs.get("transpose_b") else b[-2:]
    if k != k2 and -1 not in (k, k2):
        raise Error(f"inner sizes differ: {k} and {k2}")
    return [Type(types[0].dtype, _stretch([a[:-2], b[:-2]]) + (m, n))]


def _weight_grad(types, attrs, mesh):
    x, dy = (t.dims for t in types)
    if len(x) < 2 or len(x) != len(dy):
        raise Error(f"operands must have one rank of 2 or more, not {list(x)} and {list(dy)}")
    return [Type(types[0].dtype, (x[-1], dy[-1]))]


def _grouped_matmul(types, attrs, mesh):
    x, _, w = (t.dims for t in types)
    if len(x) != 2 or len(w) != 3:
        raise Error(f"x must have rank 2 and w rank 3, not {list(x)} and {list(w)}")
    return [Type(types[0].dtype, (x[0], w[1 if attrs.get("transpose_w") else 2]))]


def _grouped_weight_grad(types, attrs, mesh):
    x, _, dy = (t.dims for t in types)
    if len(x) != 2 or len(dy) != 2:
        raise Error(f"x and dy must have rank 2, not {list(x)} and {list(dy)}")
    return [Type(types[0].dtype, (attrs["groups"], x[1], dy[1]))]


def _image(t):
    if len(t.dims) != 4:
        raise Error(f"{list(t.dims)} is not [n, c, h, w]")
    return t.dims


def _windows(sizes, kernel, attrs):
    """How many windows there are along height and width."""
    padding, result = attrs.get("padding") or [0] * 4, []
    for i, (n, k) in enumerate(zip(sizes, kernel)):
        step, apart = ((attrs.get(name) or [1, 1])[i] for name in ("stride", "dilation"))
        rest = n + padding[2 * i] + padding[2 * i + 1] - (k - 1) * apart - 1
        if n >= 0 and rest < 0:
            raise Error(
                f"a window of {k} elements {apart} apart does not fit into {n} with padding "
                f"{list(padding[2 * i:2 * i + 2])}")
        result.append(-1 if n < 0 else rest // step + 1)
    return tuple(result)


def _conv2d(types, attrs, mesh):
    x, w = _image(types[0]), _image(types[1])
    if x[1] not in (-1, w[1] * attrs.get("groups", 1)):
        raise Error(
            f"the weights {list(w)} have {w[1]} channels in each of {attrs.get('groups', 1)} groups, the images "
            f"{x[1]} in all")
    return [Type(types[0].dtype, (x[0], w[0]) + _windows(x[2:], w[2:], attrs))]


def _conv2d_transpose(types, attrs, mesh):
    return [Type(types[0].dtype, (_image(types[0])[0], _image(types[1])[1] * attrs.get("groups", 1))
                 + tuple(attrs["size"]))]


def _conv2d_weight_grad(types, attrs, mesh):
    return [Type(types[0].dtype, (_image(types[1])[1], _image(types[0])[1] // attrs.get("groups", 1))
                 + tuple(attrs["kernel"]))]


def _resize(types, attrs, mesh):
    return [Type(types[0].dtype, _image(types[0])[:2] + tuple(attrs["size"]))]


def _max_pool(types, attrs, mesh):
    dims = _image(types[0])
    return [Type(types[0].dtype, dims[:2] + _windows(dims[2:], attrs["kernel"], attrs))]


def _max_pool_index(types, attrs, mesh):
    return [Type("i32", _max_pool(types, attrs, mesh)[0].dims)]


def _max_pool_grad(types, attrs, mesh):
    return [Type(types[-1].dtype, _image(types[-1])[:2] + tuple(attrs["size"]))]


def _reduce(types, attrs, mesh):
    dims, gone = types[0].dims, set(attrs["dims"])
    for d in gone:
        _at(dims, d, "dims:")
    keep = attrs.get("keep_dims", False)
    return [Type(types[0].dtype, tuple(1 if i in gone else n for i, n in enumerate(dims) if keep or i not in gone))]


def _cross_entropy(types, attrs, mesh):
    return [Type(types[0].dtype, types[0].dims[:-1] if attrs.get("reduction") == "none" else ())]


def _elements_loss(types, attrs, mesh):
    return [Type(types[0].dtype, types[0].dims if attrs.get("reduction") == "none" else ())]


def _expand_dims(types, attrs, mesh):
    dims, axis = types[0].dims, attrs["axis"]
    if not -len(dims) - 1 <= axis <= len(dims):
        raise Error(f"axis {axis} is not a dimension of a result of rank {len(dims) + 1}")
    axis += (len(dims) + 1) * (axis < 0)
    return [Type(types[0].dtype, dims[:axis] + (1,) + dims[axis:])]


def _squeeze(types, attrs, mesh):
    dims, gone = types[0].dims, set(attrs["dims"])
    for d in gone:
        if dims[_at(dims, d, "dims:")] not in (1, -1):
            raise Error(f"dimension {d} of {list(dims)} is not 1")
    return [Type(types[0].dtype, tuple(n for i, n in enumerate(dims) if i not in gone))]


def _tile(types, attrs, mesh):
    dims, repeats = types[0].dims, attrs["repeats"]
    if len(dims) != len(repeats):
        raise Error(f"repeats {list(repeats)} must have one entry per dimension of {list(dims)}")
    return [Type(types[0].dtype, tuple(-1 if n < 0 else n * k for n, k in zip(dims, repeats)))]


def _stack(types, attrs, mesh):
    axis, rank = attrs.get("axis", 0), len(types[0].dims) + 1
    if not -rank <= axis < rank:
        raise Error(f"axis {axis} is not a dimension of a result of rank {rank}")
    axis += rank * (axis < 0)
    return [Type(types[0].dtype, types[0].dims[:axis] + (len(types),) + types[0].dims[axis:])]


def _batch_norm(types, attrs, mesh):
    return [types[0], types[3], types[4]]


def _glu(types, attrs, mesh):
    dims = types[0].dims
    if not dims or dims[-1] % 2 and dims[-1] != -1:
        raise Error(f"the last dimension of {list(dims)} must be two halves")
    return [Type(types[0].dtype, dims[:-1] + (dims[-1] // 2 if dims[-1] >= 0 else -1,))]


def _attention(types, attrs, mesh):
    q, _, v = (t.dims for t in types[:3])
    if len(q) != 4 or len(v) != 4:
        raise Error(f"operands must be [batch, heads, positions, size], not {list(q)} and {list(v)}")
    return [Type(types[0].dtype, q[:3] + v[3:])]


def _flash_attention(types, attrs, mesh):
    return _attention(types, attrs, mesh) + [Type("f32", types[0].dims[:3])]


def _flash_attention_grad(types, attrs, mesh):
    return list(types[:3])


def _update(types, attrs, mesh):
    return [types[0]] * 3  # as many as the row has results are used


def _group(attrs, mesh):
    """Members of the group `axes`, such as "{dp}" or "{d:(1)2}"; 0: none is named and shapes stay global."""
    if attrs.get("axes") is None:
        return 0
    size = 1
    for axis, part in re.findall(r"([^{},: ]+)(?::\(\d+\)(\d+))?", attrs["axes"]):
        if axis not in mesh:
            raise Error(f"axes {attrs['axes']}: the mesh has no axis {axis}; call Graph.mesh first")
        size *= int(part) if part else mesh[axis]
    return size


def _scaled(t, at, mul, div):
    n = t.dims[_at(t.dims, at, "dim")]
    if n >= 0 and n * mul % div:
        raise Error(f"dimension {at} of {list(t.dims)} does not divide by {div}")
    return Type(t.dtype, _with(t.dims, at, -1 if n < 0 else n * mul // div))


def _all_gather(types, attrs, mesh):
    n = _group(attrs, mesh)
    return [_scaled(types[0], attrs.get("dim", 0), n, 1)] if n else [types[0]]


def _reduce_scatter(types, attrs, mesh):
    n = _group(attrs, mesh)
    return [_scaled(types[0], attrs.get("dim", 0), 1, n)] if n else [types[0]]


def _all_to_all(types, attrs, mesh):
    n = _group(attrs, mesh)
    return [_scaled(_scaled(types[0], attrs.get("split_dim", 0), 1, n),
                    attrs.get("concat_dim", 0), n, 1)] if n else [types[0]]


# Shape functions of the rows that do here what another does.
_LIKE = {
    "logical": "binary", "bitwise": "binary", "float_binary": "binary", "is_finite": "compare",
    "batch_matmul": "matmul", "avg_pool": "max_pool", "avg_pool_grad": "max_pool_grad", "reduce_logical": "reduce",
    "topk": "sort", "lazy_update": "update", "nll_loss": "cross_entropy",
    "dropped_attention": "attention", "lamb_moments": "update",
    **{name: "unary" for name in (
        "float_unary gelu polygamma logcumsumexp scatter_update dropout cumulate softmax cross_entropy_grad norm "
        "l2_normalize group_norm rotary prelu clamp reverse roll collective permute same uniform").split()}}

ROWS = _rows()
