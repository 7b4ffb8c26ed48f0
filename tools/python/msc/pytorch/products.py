"""ATen calls that multiply matrices or slide windows over images, forward and backward."""

import math

import torch

from msc.pytorch import found_again, norms
from msc.pytorch.aten import row, shape_of


@row("mm", "bmm")
def mm(c, a, b, *_):
    return c.matmul(c.t(a), c.t(b))


@row("matmul", "dot", "mv", "inner")
def matmul(c, a, b):
    a, b = c.t(a), c.t(b)
    found = found_again.attention_parts(c, a)
    if found and len(b.shape) == 4:
        q, k, masks, rate, scale = found
        mask = c.known(masks.pop()) if masks else None
        for other in masks:
            mask = c.g.add(c.own(mask), other)
        return norms.attention(c, q, k, b, mask, rate, scale=scale)
    a = c.reshape(a, (1, a.shape[0])) if len(a.shape) == 1 else a
    b = c.reshape(b, (b.shape[0], 1)) if len(b.shape) == 1 else b
    return c.reshape(c.matmul(a, b), c.shape)


@row("linear")
def linear(c, x, w, b=None):
    if 0 in shape_of(x):
        return c.stretch(c.t(0 if b is None else b), c.shape)
    x, w = c.t(x), c.t(w)
    if len(w.shape) == 1 or len(x.shape) == 1:
        y = c.matmul(
            c.reshape(x, (1,) * (2 - len(x.shape)) + x.shape),
            c.reshape(w, (math.prod(w.shape[:-1]), w.shape[-1])),
            transpose_b=True,
        )
        y = c.reshape(y, c.shape)
    else:
        y = c.matmul(x, w, transpose_b=True)
    return y if b is None else c.g.add(y, c.t(b))


def _sum_of(c, b, product, beta, alpha):
    product = c.mul(product, alpha)
    return product if beta == 0 else c.g.add(product, c.mul(c.t(b), beta))


@row("addmm", "baddbmm", "addmv")
def addmm(c, b, x, w, beta=1, alpha=1, **_):
    if 0 in shape_of(x):
        return _sum_of(c, c.stretch(c.t(b), c.shape), c.stretch(c.t(0), c.shape), beta, 1)
    x, w = c.t(x), c.t(w)
    vector = len(w.shape) == 1
    y = c.matmul(x, c.reshape(w, (w.shape[0], 1)) if vector else w)
    return _sum_of(c, b, c.reshape(y, y.shape[:-1]) if vector else y, beta, alpha)


@row("addbmm")
def addbmm(c, b, x, w, beta=1, alpha=1):
    return _sum_of(c, b, c.g.reduce_sum(c.matmul(c.t(x), c.t(w)), [0]), beta, alpha)


@row("outer", "ger")
def outer(c, a, b):
    a, b = c.t(a), c.t(b)
    return c.g.mul(c.reshape(a, (a.shape[0], 1)), c.reshape(b, (1, b.shape[0])))


def _group_of(c, ends, places):
    """How many groups end at or before each place: the number of its group, or of all behind the last end."""
    ended = c.compare(c.reshape(ends, (shape_of(ends)[0], 1)), c.reshape(places, (1,) + shape_of(places)), "le")
    return c.g.reduce_sum(c.t(ended, "i32"), [0])


@row("transformers.grouped_mm_fallback.default", "_grouped_mm")
def grouped_mm(c, x, w, ends=None, bias=None, out_dtype=None):
    """Products of groups: the places of a dimension up to ends[0], then up to ends[1] and so on.  Rows of x [s, k]
    times their group's w [k, n]; a group's x [m, k] times its columns of w [k, s]; x [m, s] times w [s, n] over a
    group's places; or group by group.  Zeros behind the last end."""
    if bias is not None:
        c.refuse("a bias")
    x, w = c.t(x), c.t(w)
    ranks = len(x.shape), len(w.shape)
    if ranks == (3, 3):
        return c.g.batch_matmul(x, w)
    groups, count = shape_of(ends)[0], x.shape[1] if ranks == (2, 2) else x.shape[0] if ranks == (2, 3) else w.shape[1]
    group = c.groups_of_rows()
    group = _group_of(c, ends, torch.arange(count)) if group is None else group
    if ranks == (2, 3):
        return c.g.grouped_matmul(x, group, w)
    if ranks == (3, 2):
        y = c.g.grouped_matmul(c.transpose(w, [1, 0]), group, x, transpose_w=True)
        return c.transpose(y, [1, 0])
    return c.g.grouped_weight_grad(c.transpose(x, [1, 0]), group, w, groups=groups)


# ---- convolutions: msc's have two dimensions ----


def _each(value, n):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * n if len(value) == 1 else value


def _image(c, x):
    """A row of pixels as an image that is one pixel high."""
    return c.reshape(x, shape_of(x)[:-1] + (1,) + shape_of(x)[-1:])


def _with_bias(c, y, b):
    return y if b is None else c.g.add(y, c.reshape(c.t(b), (1, shape_of(b)[0], 1, 1)))


def _convolve(c, x, w, b, stride, padding, dilation, groups):
    """x and w have two dimensions behind their first two."""
    top, left = padding
    y = c.g.conv2d(x, w, stride=stride, dilation=dilation, padding=[top, top, left, left], groups=groups)
    return _with_bias(c, y, b)


def _as_planes(c, x):
    """[n, channels, deep, h, w] as [n * deep, channels, h, w]"""
    n, channels, deep = x.shape[:3]
    return c.reshape(c.transpose(x, [0, 2, 1, 3, 4]), (n * deep, channels) + x.shape[3:])


def _convolve_volume(c, x, w, b, stride, padding, dilation, groups):
    """The sum over the kernel's depth of convolutions of planes."""
    n = x.shape[0]
    x = c.g.pad(x, [0, 0, padding[0], 0, 0], [0, 0, padding[0], 0, 0]) if padding[0] else x
    deep, total = (x.shape[2] - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1, None
    for k in range(w.shape[2]):
        first = k * dilation[0]
        planes = _as_planes(c, c.cut(x, 2, first, first + (deep - 1) * stride[0] + 1, stride[0]))
        kernel = c.reshape(c.cut(w, 2, k, k + 1), w.shape[:2] + w.shape[3:])
        part = _convolve(c, planes, kernel, None, stride[1:], padding[1:], dilation[1:], groups)
        total = part if total is None else c.g.add(total, part)
    total = _with_bias(c, total, b)
    return c.transpose(c.reshape(total, (n, deep) + total.shape[1:]), [0, 2, 1, 3, 4])


def _transposed(c, x, w, b, stride, padding, dilation, groups, output_padding):
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, s, p, d, k, o in zip(x.shape[2:], stride, padding, dilation, w.shape[2:], output_padding)
    ]
    # windows that go beyond what the padding says are those of a larger image, which is cut
    top, left = padding
    need = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(x.shape[2:], stride, dilation, w.shape[2:])]
    whole = [max(a, s + p) for a, s, p in zip(need, size, padding)]
    y = c.g.conv2d_transpose(x, w, size=whole, stride=stride, dilation=dilation, padding=[0] * 4, groups=groups)
    y = c.cut(c.cut(y, 2, top, top + size[0]), 3, left, left + size[1])
    return _with_bias(c, y, b)


def _transposed_volume(c, x, w, b, stride, padding, dilation, groups, output_padding):
    """The sum over the kernel's depth of planes put apart by the stride: each falls as far behind as it lies deep."""
    n, _, deep = x.shape[:3]
    step, kernel, planes = stride[0], w.shape[2], _as_planes(c, x)
    size = (deep - 1) * step - 2 * padding[0] + dilation[0] * (kernel - 1) + output_padding[0] + 1
    whole, total = max(padding[0] + size, deep * step + dilation[0] * (kernel - 1)), None
    for k in range(kernel):
        one = c.reshape(c.cut(w, 2, k, k + 1), w.shape[:2] + w.shape[3:])
        y = _transposed(c, planes, one, None, stride[1:], padding[1:], dilation[1:], groups, output_padding[1:])
        y = c.reshape(y, (n, deep, 1) + y.shape[1:])
        y = c.g.pad(y, [0] * 6, [0, 0, step - 1, 0, 0, 0]) if step > 1 else y
        y = c.reshape(y, (n, deep * step) + y.shape[3:])
        first = k * dilation[0]
        y = c.g.pad(y, [0, first, 0, 0, 0], [0, whole - deep * step - first, 0, 0, 0])
        total = y if total is None else c.g.add(total, y)
    total = c.cut(total, 1, padding[0], padding[0] + size)
    total = _with_bias(c, c.reshape(total, (n * size,) + total.shape[2:]), b)
    return c.transpose(c.reshape(total, (n, size) + total.shape[1:]), [0, 2, 1, 3, 4])


def convolution(c, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    x, w = c.t(x), c.t(w)
    n = len(w.shape) - 2
    single = len(x.shape) == n + 1  # an image without a batch
    x = c.reshape(x, (1,) + x.shape) if single else x
    stride, padding, dilation, output_padding = (_each(v, n) for v in (stride, padding, dilation, output_padding))
    if n == 1:
        x, w = _image(c, x), _image(c, w)
        stride, padding, dilation = [1] + stride, [0] + padding, [1] + dilation
        output_padding = [0] + output_padding
    if n == 3 and transposed:
        y = _transposed_volume(c, x, w, b, stride, padding, dilation, groups, output_padding)
    elif transposed:
        y = _transposed(c, x, w, b, stride, padding, dilation, groups, output_padding)
    elif n == 3:
        y = _convolve_volume(c, x, w, b, stride, padding, dilation, groups)
    else:
        y = _convolve(c, x, w, b, stride, padding, dilation, groups)
    return c.reshape(y, c.shape)


row("convolution")(convolution)


@row("conv1d", "conv2d", "conv3d")
def conv(c, x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    return convolution(c, x, w, b, stride, padding, dilation, False, [0], groups)


@row("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(c, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return convolution(c, x, w, b, stride, padding, dilation, True, output_padding, groups)


def _weight_gradient(c, x, dy, kernel, stride, padding, dilation, groups):
    """The gradient of the weight [o, i/groups, *kernel] of a convolution that makes dy of x, which both have two or
    three dimensions behind their first two.  x is cut, or has more padding behind it, so that its windows are dy's."""
    sizes = list(zip(x.shape[2:], dy.shape[2:], kernel, stride, padding, dilation))
    behind = [(out - 1) * s + d * (k - 1) + 1 - n - p for n, out, k, s, p, d in sizes]
    for i, more in enumerate(behind):
        x = c.cut(x, 2 + i, 0, x.shape[2 + i] + min(0, more))
    behind = [max(0, more) for more in behind]
    if len(kernel) == 2:
        around = [padding[0], behind[0], padding[1], behind[1]]
        words = dict(stride=stride, dilation=dilation, padding=around, groups=groups)
        return c.g.conv2d_weight_grad(x, dy, kernel=list(kernel), **words)
    x = c.g.pad(x, [0, 0, padding[0], 0, 0], [0, 0, behind[0], 0, 0]) if padding[0] or behind[0] else x
    around = [padding[1], behind[1], padding[2], behind[2]]
    words = dict(kernel=kernel[1:], stride=stride[1:], dilation=dilation[1:], padding=around, groups=groups)
    n, deep = dy.shape[0], dy.shape[2]
    dy, parts = _as_planes(c, dy), []
    for k in range(kernel[0]):
        first = k * dilation[0]
        planes = _as_planes(c, c.cut(x, 2, first, first + (deep - 1) * stride[0] + 1, stride[0]))
        part = c.g.conv2d_weight_grad(planes, dy, **words)
        parts.append(c.reshape(part, part.shape[:2] + (1,) + part.shape[2:]))
    return c.join(parts, 2)


@row("convolution_backward")
def convolution_backward(c, dy, x, w, _, stride, padding, dilation, transposed, output_padding, groups, mask):
    """The gradients of x, w and bias.  A transposed convolution is the gradient of one whose x and dy are exchanged."""
    dy, x, w = c.own(dy), c.own(x), c.own(w)
    shapes, n = [shape_of(x), shape_of(w)], len(shape_of(w)) - 2
    stride, padding, dilation = (_each(v, n) for v in (stride, padding, dilation))
    if n == 1:
        dy, x, w = (_image(c, v) for v in (dy, x, w))
        stride, padding, dilation = [1] + stride, [0] + padding, [1] + dilation
    words = (stride, padding, dilation, groups)

    def of_x():
        if transposed:
            y = (_convolve_volume if n == 3 else _convolve)(c, dy, w, None, *words)
            for d in range(2, len(x.shape)):  # output padding may give it another window
                y = c.cut(y, d, 0, x.shape[d])
        elif n < 3:
            around = [padding[0]] * 2 + [padding[1]] * 2
            size = list(x.shape[2:])
            y = c.g.conv2d_transpose(
                dy, w, size=size, stride=stride, dilation=dilation, padding=around, groups=groups
            )
        else:
            sizes = zip(x.shape[2:], dy.shape[2:], w.shape[2:], stride, padding, dilation)
            rest = [size - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for size, out, k, s, p, d in sizes]
            y = _transposed_volume(c, dy, w, None, *words, rest)
        return c.reshape(y, shapes[0])

    def of_w():
        pair = (dy, x) if transposed else (x, dy)
        return c.reshape(_weight_gradient(c, *pair, list(w.shape[2:]), *words), shapes[1])

    return [of_x, of_w, lambda: c.g.reduce_sum(dy, [0] + list(range(2, len(dy.shape))))]


# ---- pooling ----


def _planes(c, x, n):
    """x, with n dimensions of pixels and perhaps without a batch, as [batch, channels, h, w]."""
    x = c.own(x)
    x = c.reshape(x, (1,) + x.shape) if len(x.shape) == n + 1 else x
    return _image(c, x) if n == 1 else x


def _window_lists(n, kernel, stride, padding, dilation=1):
    kernel = _each(kernel, n)
    stride = _each(stride, n) if stride or stride == 0 else kernel
    lists = [kernel, stride or kernel, _each(padding, n), _each(dilation, n)]
    return [[first] + v for first, v in zip((1, 1, 0, 1), lists)] if n == 1 else lists


def _high_pads(size, out, kernel, stride, padding, dilation):
    """How far the last window goes beyond each end: with ceil_mode further than the padding."""
    return [
        max(0, (o - 1) * s + d * (k - 1) + 1 - n - p)
        for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation)
    ]


def _max_pool(c, n, x, kernel, stride, padding, dilation):
    kernel, stride, padding, dilation = _window_lists(n, kernel, stride, padding, dilation)
    x = _planes(c, x, n)
    out = c.shape[-n:] if n > 1 else (1,) + c.shape[-1:]
    high = _high_pads(x.shape[2:], out, kernel, stride, padding, dilation)
    words = dict(stride=stride, dilation=dilation, padding=[padding[0], high[0], padding[1], high[1]])
    return x, kernel, stride, padding, dilation, words


@row("max_pool2d", "max_pool1d")
def max_pool(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    x, kernel, *_, words = _max_pool(c, int(c.name[8]), x, kernel, stride, padding, dilation)
    return c.reshape(c.g.max_pool(x, kernel, **words), c.shape)


def _places(c, x, kernel, stride, padding, dilation, words):
    """Where in its plane [h, w] the largest element of each window lies, counted row by row."""
    inside = c.g.cast(c.g.max_pool_index(x, kernel, **words), "i64")  # in its window, row by row
    across = c.g.mod(inside, c.t(kernel[1], "i64"))
    down = c.g.div(c.g.sub(inside, across), c.t(kernel[1], "i64"))
    h0 = (torch.arange(inside.shape[2]) * stride[0] - padding[0]).reshape(-1, 1)
    w0 = torch.arange(inside.shape[3]) * stride[1] - padding[1]
    h = c.g.add(c.mul(down, dilation[0]), c.t(h0, "i64"))
    w = c.g.add(c.mul(across, dilation[1]), c.t(w0, "i64"))
    return c.g.add(c.mul(h, x.shape[3]), w)


@row("max_pool2d_with_indices", "max_pool1d_with_indices")
def max_pool_with_indices(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    shape = c.shape
    x, *lists, words = _max_pool(c, int(c.name[8]), x, kernel, stride, padding, dilation)
    pooled = c.reshape(c.g.max_pool(x, lists[0], **words), shape)
    return [pooled, lambda: c.reshape(_places(c, x, *lists, words), shape)]


def _max_pool_backward(n):
    def backward(c, dy, x, *more):
        """The indices, the last argument, count in the last n dimensions."""
        count = math.prod(shape_of(x)[-n:])
        flat = [c.reshape(v, shape_of(v)[:-n] + (math.prod(shape_of(v)[-n:]),)) for v in (more[-1], dy)]
        return c.reshape(c.g.add_along(*flat, rows=count, axis=len(shape_of(x)) - n), c.shape)

    return backward


for _n in (2, 3):
    row(f"max_pool{_n}d_with_indices_backward", f"adaptive_max_pool{_n}d_backward")(_max_pool_backward(_n))


@row("max_pool3d", "max_pool3d_with_indices")
def max_pool3d(c, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    """Over planes, then over what is left along the depth."""
    kernel, stride, padding, dilation = _window_lists(3, kernel, stride, padding, dilation)
    x, shape = c.own(x), c.shape
    lead, (deep, height, width) = math.prod(x.shape[:-3]), x.shape[-3:]
    high = _high_pads((deep, height, width), shape[-3:], kernel, stride, padding, dilation)
    x = c.reshape(x, (lead, deep, height, width))
    lists = [v[1:] for v in (kernel, stride, padding, dilation)]
    words = dict(stride=stride[1:], dilation=dilation[1:], padding=[padding[1], high[1], padding[2], high[2]])
    y = c.g.max_pool(x, kernel[1:], **words)
    columns = (lead, 1, deep, y.shape[2] * y.shape[3])
    y = c.reshape(y, columns)
    down = [[v[0], fill] for v, fill in zip((kernel, stride, padding, dilation), (1, 1, 0, 1))]
    down_words = dict(stride=down[1], dilation=down[3], padding=[padding[0], high[0], 0, 0])
    pooled = c.reshape(c.g.max_pool(y, down[0], **down_words), shape)

    def places():
        at = _places(c, y, *down, down_words)  # depth and column
        column = c.g.mod(at, c.t(columns[3], "i64"))
        depth = c.g.div(c.g.sub(at, column), c.t(columns[3], "i64"))
        in_plane = c.reshape(_places(c, x, *lists, words), columns)
        return c.reshape(c.g.add(c.mul(depth, height * width), c.g.take_along(in_plane, depth, axis=2)), shape)

    return [pooled, places] if "indices" in c.name else pooled


def _counts(n, size, out, kernel, stride, padding, count_include_pad, divisor_override):
    """By how much each window's sum is divided: PyTorch's count, [out]."""
    counts = torch.ones((), dtype=torch.float64)
    for i in range(n):
        each = []
        for o in range(out[i]):
            start = o * stride[i] - padding[i]
            end = min(start + kernel[i], size[i] + padding[i])
            each.append(end - start if count_include_pad else min(end, size[i]) - max(start, 0))
        counts = counts[..., None] * torch.tensor(each, dtype=torch.float64)
    return torch.full_like(counts, divisor_override) if divisor_override else counts


def _avg_pool(n):
    def avg_pool(c, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        kernel, stride, padding, _ = _window_lists(n, kernel, stride, padding)
        kernel, stride, padding = (v[-n:] for v in (kernel, stride, padding))
        x, shape = c.own(x), c.shape
        size, out = x.shape[-n:], shape[-n:]
        counts = _counts(n, size, out, kernel, stride, padding, count_include_pad, divisor_override)
        high = _high_pads(size, out, kernel, stride, padding, [1] * n)
        of_seen = not count_include_pad and not divisor_override  # the mean of the elements that a window sees
        lead = math.prod(x.shape[:-n])
        if n == 3:
            first = _mean_of_windows(
                c, c.reshape(x, (lead, size[0]) + size[1:]), kernel[1:], stride[1:], padding[1:], high[1:], of_seen
            )
            y = c.reshape(first, (lead, 1, size[0], math.prod(out[1:])))
            y = _mean_of_windows(c, y, [kernel[0], 1], [stride[0], 1], [padding[0], 0], [high[0], 0], of_seen)
        else:
            fill = [1] * (2 - n)
            y = c.reshape(x, (lead, 1) + tuple(fill) + size)
            if n == 2 and len(x.shape) == 4:
                y = x
            none = [0] * (2 - n)
            y = _mean_of_windows(c, y, fill + kernel, fill + stride, none + padding, none + high, of_seen)
        y = c.reshape(y, shape)
        ratio = math.prod(kernel) / counts
        return y if of_seen or bool((ratio == 1).all()) else c.g.mul(y, c.t(ratio, y.dtype))

    return avg_pool


def _mean_of_windows(c, x, kernel, stride, padding, high, of_seen):
    padding = [padding[0], high[0], padding[1], high[1]]
    return c.g.avg_pool(x, kernel, stride=stride, padding=padding, count_include_pad=not of_seen)


for _n in (1, 2, 3):
    row(f"avg_pool{_n}d")(_avg_pool(_n))


def _spread_over_windows(c, dy, size, kernel, stride, padding, high):
    words = dict(stride=stride, padding=[padding[0], high[0], padding[1], high[1]])
    return c.g.avg_pool_grad(dy, kernel, size=list(size), **words)


def _avg_pool_backward(n):
    def backward(c, dy, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        kernel, stride, padding, _ = _window_lists(n, kernel, stride, padding)
        dy, shape = c.own(dy), c.shape
        size, out = shape[-n:], dy.shape[-n:]
        counts = _counts(n, size, out, kernel, stride, padding, count_include_pad, divisor_override)
        dy = c.g.mul(dy, c.t(math.prod(kernel) / counts, dy.dtype))
        high = _high_pads(size, out, kernel, stride, padding, [1] * n)
        lead = math.prod(shape[:-n])
        if n == 3:
            dy = c.reshape(dy, (lead, 1, out[0], math.prod(out[1:])))
            down = ([kernel[0], 1], [stride[0], 1], [padding[0], 0], [high[0], 0])
            dy = _spread_over_windows(c, dy, (size[0], dy.shape[3]), *down)
            dy = c.reshape(dy, (lead, size[0]) + tuple(out[1:]))
        else:
            dy = c.reshape(dy, (1,) * (4 - len(dy.shape)) + dy.shape)
        y = _spread_over_windows(c, dy, size[-2:], *(v[-2:] for v in (kernel, stride, padding, high)))
        return c.reshape(y, shape)

    return backward


for _n in (2, 3):
    row(f"avg_pool{_n}d_backward")(_avg_pool_backward(_n))


def _adaptive_means(size, out):
    """[out, size]: row i is the mean of the elements that PyTorch gives window i."""
    return torch.nn.functional.adaptive_avg_pool1d(torch.eye(size, dtype=torch.float64)[None], out)[0].T


def _adaptive(n):
    def adaptive(c, x, out):
        x, out = c.own(x), _each(out, n)
        rank = len(x.shape)
        dims = list(range(rank - n, rank))
        if all(o == 1 for o in out):
            return c.g.reduce_mean(x, dims, keep_dims=True)
        if n == 2 and rank == 4 and all(x.shape[d] % o == 0 for d, o in zip(dims, out)):
            kernel = [x.shape[d] // o for d, o in zip(dims, out)]
            return c.g.avg_pool(x, kernel, stride=kernel)
        for d, o in zip(dims, out):
            x = c.apply_along(x, d, _adaptive_means(x.shape[d], o)) if x.shape[d] != o else x
        return x

    return adaptive


for _n in (1, 2, 3):
    row(f"adaptive_avg_pool{_n}d", f"_adaptive_avg_pool{_n}d")(_adaptive(_n))


def _adaptive_windows(size, out):
    """Which elements each window sees: [out, widest]; those that are not the widest see their last several times."""
    spans = [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
    widest = max(end - start for start, end in spans)
    return torch.tensor([[min(start + k, end - 1) for k in range(widest)] for start, end in spans])


def _adaptive_max(n):
    def adaptive_max(c, x, out):
        shape, x, out = c.shape, c.own(x), _each(out, n)
        rank = len(x.shape)
        dims = list(zip(range(rank - n, rank), out))

        def windows(x, d, places):
            o, widest = places.shape
            if x.shape[d] == o * widest:
                return c.reshape(x, x.shape[:d] + (o, widest) + x.shape[d + 1 :])
            return c.pick(x, d, places)

        def pooled():
            y = x
            for d, o in dims:
                y = c.g.reduce_max(windows(y, d, _adaptive_windows(y.shape[d], o)), [d + 1])
            return c.reshape(y, shape)

        def indices():
            y, at, step = x, None, 1  # where the largest so far lies, counted in the dimensions behind
            for d, o in reversed(dims):
                places = _adaptive_windows(y.shape[d], o)
                size, seen = y.shape[d], windows(y, d, places)
                best = c.g.argmax(seen, axis=d + 1, keep_dims=True, dtype="i64")
                y = c.reshape(c.g.take_along(seen, best, axis=d + 1), y.shape[:d] + (o,) + y.shape[d + 1 :])
                own = c.g.add(c.reshape(best, y.shape), c.t(places[:, :1].reshape((o,) + (1,) * (rank - d - 1)), "i64"))
                own = c.mul(own, step)
                if at is not None:
                    before = c.g.take_along(windows(at, d, places), best, axis=d + 1)
                    own = c.g.add(own, c.reshape(before, y.shape))
                at, step = own, step * size
            return c.reshape(at, shape)

        return [pooled, indices]

    return adaptive_max


for _n in (1, 2, 3):
    row(f"adaptive_max_pool{_n}d")(_adaptive_max(_n))


def _adaptive_backward(n):
    def backward(c, dy, x):
        dy, rank = c.own(dy), len(shape_of(x))
        for d in range(rank - n, rank):
            dy = c.apply_along(dy, d, _adaptive_means(shape_of(x)[d], shape_of(dy)[d]).T)
        return dy

    return backward


for _n in (2, 3):
    row(f"_adaptive_avg_pool{_n}d_backward")(_adaptive_backward(_n))


# ---- resizing: each dimension apart from the other ----


def _resize_matrix(size, out, mode, align_corners, scale):
    """The matrix [out, size] that resizes one dimension as PyTorch does: column i is what it makes of unit vector
    i."""
    line = torch.eye(size, dtype=torch.float64)[:, None, :, None]  # images one pixel wide
    op = {
        "bilinear": torch.ops.aten.upsample_bilinear2d.default,
        "bicubic": torch.ops.aten.upsample_bicubic2d.default,
    }[mode]
    y = op(line, [out, 1], bool(align_corners), scale, None)
    return y[:, 0, :, 0].T


def _scales(given, n):
    return [None] * n if not given else list(given)


def _sizes(c, n):
    return c.shape[-n:]


@row("upsample_bilinear2d.vec", "upsample_bicubic2d.vec")
def upsample(c, x, size, align_corners, scales=None):
    mode = "bicubic" if "bicubic" in c.name else "bilinear"
    x, rank = c.own(x), len(shape_of(x))
    for d, out, scale in zip((rank - 2, rank - 1), _sizes(c, 2), _scales(scales, 2)):
        x = c.apply_along(x, d, _resize_matrix(x.shape[d], out, mode, align_corners, scale))
    return x


@row("upsample_bilinear2d", "upsample_bicubic2d")
def upsample_one(c, x, size, align_corners, scale_h=None, scale_w=None):
    return upsample(c, x, size, align_corners, (scale_h, scale_w))


@row("upsample_linear1d.vec")
def upsample_linear1d(c, x, size, align_corners, scales=None):
    x, d = c.own(x), len(shape_of(x)) - 1
    return c.apply_along(
        x, d, _resize_matrix(x.shape[d], c.shape[-1], "bilinear", align_corners, _scales(scales, 1)[0])
    )


def _nearest(n):
    def nearest(c, x, size, scales=None, *more):
        x, rank = c.own(x), len(shape_of(x))
        scales = _scales(scales if isinstance(scales, (list, tuple)) else (scales,) + more if scales else None, n)
        for d, out, scale in zip(range(rank - n, rank), _sizes(c, n), scales):
            line = torch.arange(x.shape[d], dtype=torch.float64)[None, None]
            exact = "exact" in c.name
            op = (
                torch.ops.aten._upsample_nearest_exact1d.default
                if exact
                else torch.ops.aten.upsample_nearest1d.default
            )
            x = c.pick(x, d, op(line, [out], scale)[0, 0])
        return x

    return nearest


for _n in (1, 2, 3):
    row(
        f"upsample_nearest{_n}d.vec",
        f"upsample_nearest{_n}d",
        f"_upsample_nearest_exact{_n}d.vec",
        f"_upsample_nearest_exact{_n}d",
    )(_nearest(_n))


def _antialiased_matrix(c, size, out, align_corners, scale):
    """The matrix [out, size] of one dimension, as _resize_matrix makes it."""
    op = getattr(torch.ops.aten, c.name.split(".")[0].removesuffix("_backward")).default
    line = torch.eye(size, dtype=torch.float64)[:, None, None, :]  # one pixel high: wrong in PyTorch if one wide
    return op(line, [1, out], bool(align_corners), None, scale)[:, 0, 0, :].T


_ANTIALIASED = [f"_upsample_{kind}2d_aa" for kind in ("bilinear", "bicubic", "lanczos")]


@row(*_ANTIALIASED)
def upsample_antialiased(c, x, size, align_corners, scale_h=None, scale_w=None):
    x = c.own(x)
    for d, out, scale in zip((2, 3), size, (scale_h, scale_w)):
        x = c.apply_along(x, d, _antialiased_matrix(c, x.shape[d], out, align_corners, scale))
    return x


@row(*(f"{name}.vec" for name in _ANTIALIASED))
def upsample_antialiased_by(c, x, size, align_corners, scales=None):
    return upsample_antialiased(c, x, _sizes(c, 2), align_corners, *_scales(scales, 2))


@row(*(f"{name}_backward" for name in _ANTIALIASED))
def upsample_antialiased_backward(c, dy, size, input_size, align_corners, scale_h=None, scale_w=None):
    dy = c.own(dy)
    for d, scale in zip((2, 3), (scale_h, scale_w)):
        dy = c.apply_along(dy, d, _antialiased_matrix(c, input_size[d], size[d - 2], align_corners, scale).T)
    return dy


@row("einsum")
def einsum(c, equation, operands, path=None):
    equation = equation.replace(" ", "")
    operands = [c.t(x) for x in operands]
    terms, arrow, result = equation.partition("->")
    if "." in equation:
        c.decompose()
    if not arrow:
        letters = sorted(set(terms) - {","})
        result = "".join(letter for letter in letters if terms.count(letter) == 1)
    sizes = {}
    for term, x in zip(terms.split(","), operands):
        for letter, n in zip(term, x.shape):
            if sizes.setdefault(letter, n) != n:
                c.decompose()  # a size of 1 that stretches
    return c.g.einsum(operands, f"{terms}->{result}")
