"""ATen calls that are whole layers to msc: norms, attention, losses."""

import math

import torch

from msc.pytorch.aten import TORCH, dtype_of, is_known, row, shape_of
from msc.pytorch.elementwise import truth
from msc.pytorch.reductions import moments


def _scale_and_shift(c, gamma, beta):
    if gamma is None and beta is not None:
        gamma = torch.ones(shape_of(beta))
    return {k: c.t(v) for k, v in (("gamma", gamma), ("beta", beta)) if v is not None}


@row("layer_norm")
def layer_norm(c, x, shape, gamma=None, beta=None, eps=1e-5, *_):
    if eps < 0:
        c.decompose()
    return c.g.layer_norm(c.t(x), axis=-len(shape), eps=float(eps), **_scale_and_shift(c, gamma, beta))


@row("native_layer_norm")
def native_layer_norm(c, x, shape, gamma, beta, eps):
    dims = list(range(len(shape_of(x)) - len(shape), len(shape_of(x))))
    y = layer_norm(c, x, shape, gamma, beta, eps)
    return [
        y,
        lambda: moments(c, c.own(x), dims, 0)[0],
        lambda: c.g.rsqrt(c.add(moments(c, c.own(x), dims, 0)[1], eps)),
    ]


# ---- gradients as PyTorch's autograd calls them, in graphs of torch.compile ----


def _wide(c, *tensors):
    """The tensors in f32, or in f64 if the first one has it: gradients are computed so."""
    wide = "f64" if dtype_of(tensors[0]) == "f64" else "f32"
    return [c.t(t, wide) for t in tensors]


@row("native_layer_norm_backward")
def native_layer_norm_backward(c, dy, x, shape, mean, rstd, gamma, beta, wanted):
    dy, x, mean, rstd = _wide(c, dy, x, mean, rstd)
    rank = len(x.shape)
    inner, outer = list(range(rank - len(shape), rank)), list(range(rank - len(shape)))
    normal = c.g.mul(c.g.sub(x, mean), rstd)
    scaled = dy if gamma is None else c.g.mul(dy, *_wide(c, gamma))

    def dx():
        flat = c.g.reduce_mean(scaled, inner, keep_dims=True)
        slope = c.g.reduce_mean(c.g.mul(scaled, normal), inner, keep_dims=True)
        return c.t(c.g.mul(c.g.sub(c.g.sub(scaled, flat), c.g.mul(normal, slope)), rstd), c.types[0][0])

    return [
        dx() if wanted[0] else None,
        c.t(c.sum(c.g.mul(dy, normal), outer), dtype_of(gamma)) if wanted[1] and gamma is not None else None,
        c.t(c.sum(dy, outer), dtype_of(beta)) if wanted[2] and beta is not None else None,
    ]


@row("_softmax_backward_data")
def softmax_backward(c, dy, y, dim, _):
    dy, y = _wide(c, dy, y)
    if not y.shape:
        c.decompose()
    total = c.g.reduce_sum(c.g.mul(dy, y), [dim % len(y.shape)], keep_dims=True)
    return c.t(c.g.mul(y, c.g.sub(dy, total)))


@row("_log_softmax_backward_data")
def log_softmax_backward(c, dy, y, dim, _):
    dy, y = _wide(c, dy, y)
    if not y.shape:
        c.decompose()
    total = c.g.reduce_sum(dy, [dim % len(y.shape)], keep_dims=True)
    return c.t(c.g.sub(dy, c.g.mul(c.g.exp(y), total)))


@row("tanh_backward")
def tanh_backward(c, dy, y):
    dy, y = _wide(c, dy, y)
    return c.t(c.g.mul(dy, c.g.sub(c.t(1.0, y.dtype), c.g.mul(y, y))))


@row("gelu_backward")
def gelu_backward(c, dy, x, approximate="none"):
    dy, x = _wide(c, dy, x)
    g = c.g

    def number(v):
        return c.t(v, x.dtype)

    half, squares = number(0.5), g.mul(x, x)
    if approximate == "none":
        below = g.mul(half, g.add(g.erf(g.mul(x, number(math.sqrt(0.5)))), number(1.0)))
        density = g.mul(g.exp(g.mul(squares, number(-0.5))), number(1 / math.sqrt(2 * math.pi)))
        return c.t(g.mul(dy, g.add(below, g.mul(x, density))))
    factor, cubic = math.sqrt(2 / math.pi), 0.044715
    inner = g.mul(x, g.add(number(factor), g.mul(squares, number(factor * cubic))))
    t = g.tanh(inner)
    slope = g.add(number(factor), g.mul(squares, number(3 * factor * cubic)))
    steep = g.mul(g.mul(x, slope), g.sub(number(1.0), g.mul(t, t)))
    return c.t(g.mul(dy, g.mul(half, g.add(g.add(number(1.0), t), steep))))


@row("sigmoid_backward")
def sigmoid_backward(c, dy, y):
    dy, y = _wide(c, dy, y)
    return c.t(c.g.mul(c.g.mul(dy, y), c.g.sub(c.t(1.0, y.dtype), y)))


# ---- norms ----


@row("rms_norm", "_fused_rms_norm")
def rms_norm(c, x, shape, gamma=None, eps=None):
    x = c.t(x)
    eps = torch.finfo(torch.float32 if x.dtype != "f64" else torch.float64).eps if eps is None else eps
    words = {"gamma": c.t(gamma)} if gamma is not None else {}
    y = c.g.rms_norm(x, axis=-len(shape), eps=float(eps), **words)
    dims = list(range(len(x.shape) - len(shape), len(x.shape)))
    if not c.name.startswith("_fused"):
        return y
    return [y, lambda: c.g.rsqrt(c.add(c.g.reduce_mean(c.g.mul(x, x), dims, keep_dims=True), eps))]


@row("group_norm")
def group_norm(c, x, groups, gamma=None, beta=None, eps=1e-5, *_):
    if eps < 0:
        c.decompose()
    return c.g.group_norm(c.t(x), groups=groups, eps=float(eps), **_scale_and_shift(c, gamma, beta))


@row("native_group_norm")
def native_group_norm(c, x, gamma, beta, n, channels, size, groups, eps):
    y = group_norm(c, x, groups, gamma, beta, eps)

    def each(which):
        parts = c.reshape(x, (n, groups, channels * size // groups))
        return c.reshape(moments(c, parts, [2], 0)[which], (n, groups))

    return [y, lambda: each(0), lambda: c.g.rsqrt(c.add(each(1), eps))]


def _batch_norm(c, x, gamma, beta, mean, variance, training, momentum, eps):
    """y, the batch's mean and 1 / deviation, the new running mean and variance."""
    momentum = float(momentum or 0.0) if training else 0.0
    if eps < 0 or not 0 <= momentum <= 1:
        c.decompose()
    x = c.own(x)
    channels = (x.shape[1],)
    given = [dtype_of(v) for v in (gamma, beta, mean, variance) if v is not None]
    if x.dtype in ("f16", "bf16") and any(t != x.dtype for t in given):
        x = c.t(x, "f32")  # beside wider statistics or factors
    gamma, beta, *old = (
        c.stretch(c.t(otherwise if v is None else v, x.dtype), channels)
        for v, otherwise in ((gamma, 1.0), (beta, 0.0), (mean, 0.0), (variance, 1.0))
    )
    words = dict(momentum=momentum, eps=float(eps), training=bool(training))
    y, new_mean, new_variance = c.g.batch_norm(x, gamma, beta, *old, **words)
    dims = [0] + list(range(2, len(x.shape)))

    def batch(which):
        if not training:
            return [old[0], c.g.rsqrt(c.add(old[1], eps))][which]
        of_batch = c.reshape(moments(c, x, dims, 0)[which], channels)
        return of_batch if which == 0 else c.g.rsqrt(c.add(of_batch, eps))

    def of_type(i, value):
        return c.t(value, c.types[i][0]) if i < len(c.types) and c.types[i] else value

    return [
        of_type(0, y),
        lambda: of_type(1, batch(0)),
        lambda: of_type(2, batch(1)),
        of_type(3, new_mean),
        of_type(4, new_variance),
    ]


@row("_native_batch_norm_legit_functional", "native_batch_norm", "_native_batch_norm_legit")
def batch_norm_functional(c, x, gamma, beta, mean, variance, training, momentum, eps):
    return _batch_norm(c, x, gamma, beta, mean, variance, training, momentum, eps)


@row("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(c, x, gamma, beta, training, momentum, eps):
    return _batch_norm(c, x, gamma, beta, None, None, training, momentum, eps)[:3]


@row("_native_batch_norm_legit_no_training")
def batch_norm_no_training(c, x, gamma, beta, mean, variance, momentum, eps):
    y = _batch_norm(c, x, gamma, beta, mean, variance, False, momentum, eps)[0]
    return [y, None, None]


@row("batch_norm")
def batch_norm(c, x, gamma, beta, mean, variance, training, momentum, eps, *_):
    return _batch_norm(c, x, gamma, beta, mean, variance, training or mean is None, momentum, eps)[0]


# ---- attention ----


def _is_causal(mask):
    """True if a known mask shows each position what stands up to it, and no more."""
    if mask.shape[-1] != mask.shape[-2]:
        return False
    seen = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).tril()
    if mask.dtype == torch.bool:
        return bool((mask == seen).all())
    hidden = mask <= torch.finfo(mask.dtype).min / 2
    return bool(((mask == 0) == seen).all()) and bool((hidden == ~seen).all())


def _plain_mask(c, mask, full):
    """None if a mask hides nothing, else a tensor of the whole shape."""
    if mask is None or (is_known(mask) and bool((mask if mask.dtype == torch.bool else mask == 0).all())):
        return None
    return c.stretch(mask, full)


def _hides_all(c, mask):
    """True for each position to which a mask shows nothing; None where that is known to be none."""
    if is_known(mask):
        hidden = ~mask.any(-1, True) if mask.dtype == torch.bool else (mask == -math.inf).all(-1, True)
        return hidden if bool(hidden.any()) else None
    last = [len(mask.shape) - 1]
    if mask.dtype == "i1":
        return c.g.logical_not(c.g.reduce_any(mask, last, keep_dims=True))
    return c.compare(c.g.reduce_max(mask, last, keep_dims=True), -math.inf, "eq")


def _shared_heads(c, x, heads):
    """Keys or values that were repeated for groups of heads, as they were before; x itself otherwise."""
    whole = c.made_by(x, "reshape")
    wide = whole and c.made_by(whole[0], "broadcast_to")
    if not wide or len(whole[0].shape) != 5:
        return x
    b, groups, times, t, e = whole[0].shape
    if wide[0].shape == (b, groups, 1, t, e) and groups * times == heads and x.shape == (b, heads, t, e):
        return c.reshape(wide[0], (b, groups, t, e))
    return x


@row("scaled_dot_product_attention")
def attention(c, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    q, k, v, shape = c.t(q), c.t(k), c.t(v), c.shape
    if len(q.shape) < 2 or q.shape[-1] == 0:
        c.decompose()
    lead = torch.broadcast_shapes(*[x.shape[:-2] for x in (q, k, v)]) if not enable_gqa else None
    if enable_gqa and len(q.shape) != 4:
        c.decompose()
    if not enable_gqa:  # [batch, heads, positions, size]
        two = ((1, 1) + tuple(lead))[-2:] if len(lead) <= 2 else (math.prod(lead[:-1]), lead[-1])
        q, k, v = (c.reshape(c.stretch(x, tuple(lead) + x.shape[-2:]), two + x.shape[-2:]) for x in (q, k, v))
        k, v = _shared_heads(c, k, two[1]), _shared_heads(c, v, two[1])
        if k.shape[1] != v.shape[1]:
            c.decompose()
    if mask is not None and is_known(mask) and not is_causal and _is_causal(mask):
        mask, is_causal = None, True
    words = dict(causal=bool(is_causal), scale=float(scale or 0.0))
    if scale is not None and scale == 0:
        c.decompose()
    full, hidden = q.shape[:3] + (k.shape[2],), None
    if mask is not None:
        mask = c.t(mask, dtype_of(mask) if dtype_of(mask) == "i1" else q.dtype)
        if len(lead or shape) != 2 and lead is not None:
            mask = c.reshape(c.stretch(mask, tuple(lead) + full[2:]), full) if len(shape_of(mask)) > 2 else mask
        hidden = _hides_all(c, c.known(mask))
        if hidden is not None:  # gives zeros: it sees everything, and what comes of that is dropped
            mask = c.where(hidden, True if mask.dtype == "i1" else 0.0, mask, mask.dtype)
        mask = _plain_mask(c, mask, full)
    y = _attended(c, q, k, v, mask, dropout_p, words)
    return c.reshape(y if hidden is None else c.where(hidden, 0.0, y, y.dtype), shape)


def _attended(c, q, k, v, mask, dropout_p, words):
    if not dropout_p:
        return c.g.attention(q, k, v, **words, **({"mask": mask} if mask is not None else {}))
    keep = c.g.dropout(c.stretch(c.t(1, q.dtype), q.shape[:3] + (k.shape[2],)), rate=float(dropout_p))
    if mask is None:
        return c.g.dropped_attention(q, k, v, keep, **words)
    return _masked_dropped(c, q, k, v, mask, keep, words)


def _masked_dropped(c, q, k, v, mask, keep, words):
    """Attention written out, with a mask and dropout together, which no op of msc takes."""
    times = q.shape[1] // k.shape[1]
    if times > 1:
        k, v = (
            c.reshape(
                c.stretch(c.reshape(x, x.shape[:2] + (1,) + x.shape[2:]), x.shape[:2] + (times,) + x.shape[2:]),
                (x.shape[0], x.shape[1] * times) + x.shape[2:],
            )
            for x in (k, v)
        )
    scores = c.mul(c.matmul(q, k, transpose_b=True), words["scale"] or 1 / math.sqrt(q.shape[-1]))
    if words["causal"]:
        scores = c.where(torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), scores, -math.inf, scores.dtype)
    scores = c.where(mask, scores, -math.inf, scores.dtype) if mask.dtype == "i1" else c.g.add(scores, mask)
    return c.matmul(c.g.mul(c.g.softmax(scores, axis=-1), keep), v)


def _flash_words(c, q, mask, causal, scale):
    """Attributes of flash_attention and its gradient, and its mask, where there is one."""
    words = dict(causal=bool(causal), scale=float(scale or 0.0))
    if scale is not None and scale == 0:
        c.refuse("scale=0")
    if mask is None:
        return words, {}
    mask = c.t(mask, "i1" if dtype_of(mask) == "i1" else q.dtype)
    return dict(words, masked=True), {"extra": c.reshape(mask, (1,) * (4 - len(mask.shape)) + tuple(mask.shape))}


@row("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(c, q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    q, k, v = c.t(q), c.t(k), c.t(v)
    words, mask = _flash_words(c, q, attn_mask, is_causal, scale)
    y, stats = c.g.flash_attention(q, k, v, **mask, **words)
    if mask:  # a position from which all are hidden gives zeros
        hidden = c.compare(stats, -math.inf, "eq")
        y = c.where(c.reshape(hidden, stats.shape + (1,)), 0.0, y)
        stats = c.where(hidden, 0.0, stats, "f32")
    return [y, c.t(stats, c.types[1][0])]


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(c, dy, q, k, v, y, stats, dropout_p, is_causal, attn_mask=None, scale=None):
    q, k, v, y, dy = (c.t(x) for x in (q, k, v, y, dy))
    words, mask = _flash_words(c, q, attn_mask, is_causal, scale)
    return list(c.g.flash_attention_grad(q, k, v, y, c.t(stats, "f32"), dy, **mask, **words))


# ---- losses ----

_REDUCTIONS = ("none", "mean", "sum")


def _reduced(c, losses, reduction):
    dims = list(range(len(losses.shape)))
    if reduction == 0 or not dims:
        return losses
    return c.g.reduce_mean(losses, dims) if reduction == 1 else c.g.reduce_sum(losses, dims)


def _classes_last(c, x, has_batch):
    rank = len(shape_of(x))
    return c.transpose(x, [0] + list(range(2, rank)) + [1]) if has_batch and rank > 2 else c.own(x)


def _weighted_rows(c, rows, labels, weight, ignore_index, reduction, classes):
    """Reduces losses of rows; those whose label is ignored count nowhere."""
    kept = c.t(c.compare(labels, ignore_index, "ne"), rows.dtype)
    if weight is not None:
        safe = _safe_labels(c, labels, ignore_index)
        kept = c.g.mul(kept, c.g.gather(c.t(weight, rows.dtype), safe))
    rows = c.g.mul(rows, kept)
    dims = list(range(len(rows.shape)))
    if reduction == 0:
        return rows
    total = c.sum(rows, dims)
    return total if reduction == 2 else c.g.div(total, c.sum(kept, dims))


def _safe_labels(c, labels, ignore_index):
    return c.where(c.compare(labels, ignore_index, "ne"), labels, 0, dtype_of(labels))


@row("cross_entropy_loss")
def cross_entropy(c, x, y, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    x = c.t(x)
    has_batch, dtype = len(x.shape) > 1, x.dtype
    classes = x.shape[1 if has_batch else 0]
    x = _classes_last(c, x, has_batch)
    if dtype_of(y) in ("f32", "f64", "f16", "bf16"):
        return _soft_cross_entropy(c, x, _classes_last(c, y, has_batch), weight, reduction, label_smoothing)
    y = c.own(y) if dtype_of(y) in ("i32", "i64") else c.t(y, "i64")
    if weight is None and _takes_ignored(c, "softmax_cross_entropy"):
        return c.g.softmax_cross_entropy(
            x, y, reduction=_REDUCTIONS[reduction], ignore_index=int(ignore_index), label_smoothing=label_smoothing
        )
    rows = c.g.softmax_cross_entropy(x, _safe_labels(c, y, ignore_index), reduction="none")
    if not label_smoothing:
        return _weighted_rows(c, rows, y, weight, ignore_index, reduction, classes)
    kept = c.t(c.compare(y, ignore_index, "ne"), dtype)
    logs, divisor = c.g.log_softmax(x, axis=-1), kept
    if weight is not None:
        logs = c.g.mul(logs, c.t(weight, dtype))
        divisor = c.g.mul(kept, c.g.gather(c.t(weight, dtype), _safe_labels(c, y, ignore_index)))
    smooth = c.g.mul(c.g.neg(c.g.reduce_sum(logs, [len(logs.shape) - 1])), kept)
    both = c.g.add(c.mul(c.g.mul(rows, divisor), 1 - label_smoothing), c.mul(smooth, label_smoothing / classes))
    if reduction == 0:
        return both
    dims = list(range(len(both.shape)))
    total = c.sum(both, dims)
    return total if reduction == 2 else c.g.div(total, c.sum(divisor, dims))


def _takes_ignored(c, op):
    from msc.ops import ROWS

    return any(a.name == "ignore_index" for a in ROWS[op].attrs)


def _soft_cross_entropy(c, x, y, weight, reduction, label_smoothing):
    logs, y = c.g.log_softmax(x, axis=-1), c.t(y, x.dtype)
    if label_smoothing:
        y = c.add(c.mul(y, 1 - label_smoothing), label_smoothing / x.shape[-1])
    products = c.g.mul(logs, y)
    if weight is not None:
        products = c.g.mul(products, c.t(weight, x.dtype))
    rows = c.g.neg(c.g.reduce_sum(products, [len(x.shape) - 1]))
    return _reduced(c, rows, reduction)


def _nll(c, x, y, weight, reduction, ignore_index):
    x = c.own(x)
    has_batch = len(x.shape) > 1
    classes = x.shape[1 if has_batch else 0]
    x = _classes_last(c, x, has_batch)
    y = c.own(y) if dtype_of(y) in ("i32", "i64") else c.t(y, "i64")
    if weight is None and _takes_ignored(c, "nll_loss"):
        return c.g.nll_loss(x, y, reduction=_REDUCTIONS[reduction], ignore_index=int(ignore_index))
    safe = c.reshape(_safe_labels(c, y, ignore_index), x.shape[:-1] + (1,))
    rows = c.g.neg(c.reshape(c.g.take_along(x, safe, axis=-1), x.shape[:-1]))
    return _weighted_rows(c, rows, y, weight, ignore_index, reduction, classes)


@row("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(c, x, y, weight=None, reduction=1, ignore_index=-100):
    return _nll(c, x, y, weight, reduction, ignore_index)


@row("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(c, x, y, weight, reduction, ignore_index):
    def total():
        kept = c.t(c.compare(y, ignore_index, "ne"), dtype_of(x))
        if weight is not None:
            kept = c.g.mul(kept, c.g.gather(c.t(weight, dtype_of(x)), _safe_labels(c, y, ignore_index)))
        return c.sum(kept, list(range(len(kept.shape)))) if reduction else c.t(0.0, dtype_of(x))

    return [_nll(c, x, y, weight, reduction, ignore_index), total]


def _elements_loss(name, op):
    def loss(c, x, y, reduction=1):
        if shape_of(x) != shape_of(y) or not shape_of(x):
            c.decompose()
        return getattr(c.g, op)(c.t(x), c.t(y), reduction=_REDUCTIONS[reduction])

    row(name)(loss)


_elements_loss("mse_loss", "mean_squared_error")
_elements_loss("l1_loss", "mean_absolute_error")


@row("binary_cross_entropy_with_logits")
def binary_cross_entropy(c, x, y, weight=None, pos_weight=None, reduction=1):
    if weight is not None or pos_weight is not None or shape_of(x) != shape_of(y) or not shape_of(x):
        c.decompose()
    return c.g.sigmoid_cross_entropy(c.t(x), c.t(y), reduction=_REDUCTIONS[reduction])


# ---- bags of embeddings ----


def _length_of_bags(c, indices, offsets, bags, include_last_offset):
    """How many rows each bag has, if that is known and the same for all; 0 otherwise."""
    count, offsets = shape_of(indices)[0], c.known(offsets)
    if not is_known(offsets) or not bags or not count or count % bags:
        return 0
    starts = torch.arange(0, count + include_last_offset, count // bags)
    return count // bags if torch.equal(offsets.cpu().long(), starts) else 0


def _equal_bags(c, table, indices, length, mode, weights, padding_idx):
    """Sums, averages or takes the largest of the rows of bags of one length, [bags, length, n] -> [bags, n]."""
    bags = shape_of(indices)[0] // length
    indices = c.reshape(indices, (bags, length))
    rows = c.g.gather(c.own(table), indices)
    kept = c.reshape(c.compare(indices, padding_idx, "ne"), (bags, length, 1)) if padding_idx >= 0 else None
    counts = c.g.reduce_sum(c.t(kept, "i64"), [1, 2]) if kept is not None else torch.full((bags,), length)

    def bag_of_each():
        return c.t(torch.arange(bags).repeat_interleave(length), "i64")

    def lowest():
        return rows if kept is None else c.where(c.stretch(kept, rows.shape), rows, -math.inf, rows.dtype)

    def largest():
        places = c.reshape(c.g.argmax(lowest(), axis=1, dtype="i64"), (bags, 1, rows.shape[2]))
        wide = c.stretch(c.reshape(indices, (bags, length, 1)), rows.shape)
        return c.reshape(c.g.take_along(wide, places, axis=1), (bags, rows.shape[2]))

    if mode == 2:
        y = c.g.reduce_max(lowest(), [1])
        if kept is not None:
            y = c.where(c.stretch(c.g.reduce_any(kept, [1]), y.shape), y, 0.0, rows.dtype)
    else:
        for factor in (weights, kept):
            if factor is not None:
                rows = c.g.mul(rows, c.t(c.reshape(factor, (bags, length, 1)), rows.dtype))
        y = c.g.reduce_mean(rows, [1]) if mode == 1 and kept is None else c.g.reduce_sum(rows, [1])
        if mode == 1 and kept is not None:
            y = c.g.div(y, c.reshape(c.t(c.g.max(counts, c.t(1, "i64")), rows.dtype), (bags, 1)))
    further = [bag_of_each, lambda: c.own(counts), largest if mode == 2 else lambda: c.t(torch.zeros(1), "i64")]
    return [y] + [_shaped(c, make, kind) for make, kind in zip(further, c.types[1:])]


@row("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    c,
    table,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """Sums, averages or the largest of the looked-up rows of each bag.  Sums add every row to that of its bag, so that
    rows can be cut as well as columns."""
    if scale_grad_by_freq:
        c.refuse("scale_grad_by_freq")
    bags, count = c.shape[0], shape_of(indices)[0]
    length = _length_of_bags(c, indices, offsets, bags, include_last_offset)
    if length:
        return _equal_bags(c, table, indices, length, mode, weights, padding_idx)
    rows = c.g.gather(c.own(table), c.own(indices))
    kept = None if padding_idx < 0 else truth(c, c.compare(indices, padding_idx, "ne"))
    of_each = _bag_of_each(c, offsets, count)

    def in_bags(values):
        """The sum of the values of each bag; those behind a last offset are in none."""
        total = c.g.scatter_add(of_each, values, rows=bags + include_last_offset)
        return c.cut(total, 0, 0, bags)

    ones = c.t(torch.ones(count), "i32") if kept is None else c.t(kept, "i32")
    counts = in_bags(ones)

    def of_bags():
        """The rows in each bag, and behind them -inf: [bags, count, n]."""
        inside = c.compare(c.reshape(of_each, (1, count)), torch.arange(bags).reshape(bags, 1), "eq")
        inside = inside if kept is None else c.g.logical_and(inside, c.stretch(kept, (bags, count)))
        wide_shape = (bags, count) + rows.shape[1:]
        wide = c.stretch(c.reshape(rows, (1,) + rows.shape), wide_shape)
        return c.where(c.stretch(c.reshape(inside, (bags, count, 1)), wide_shape), wide, -math.inf, rows.dtype)

    def largest():
        place = c.g.argmax(of_bags(), axis=1, dtype="i64")
        return c.g.gather(c.own(indices), place)

    has_any = c.reshape(c.compare(counts, 0, "gt"), (bags, 1))
    if mode == 2:
        best = c.g.reduce_max(of_bags(), [1])
        y = c.where(c.stretch(has_any, best.shape), best, 0.0, rows.dtype)
    else:
        for factor in (weights, kept):
            if factor is not None:
                rows = c.g.mul(rows, c.t(c.reshape(factor, (count, 1)), rows.dtype))
        y = in_bags(rows)
        y = c.g.div(y, c.reshape(c.t(c.g.max(counts, c.t(1, "i32")), rows.dtype), (bags, 1))) if mode == 1 else y
    further = [lambda: of_each, lambda: counts, largest if mode == 2 else lambda: c.t(torch.zeros(1), "i64")]
    return [y] + [_shaped(c, make, kind) for make, kind in zip(further, c.types[1:])]


def _bag_of_each(c, offsets, count):
    """The number of the bag that each place is in: how many bags begin at or before it, less one."""
    begins = c.g.scatter_add(c.own(offsets), c.t(torch.ones(shape_of(offsets)), "i32"), rows=count + 1)
    return c.add(c.g.cumsum(c.cut(begins, 0, 0, count)), -1)


def _shaped(c, make, kind):
    """A function that gives a further result as the kind that PyTorch has it in, which may have no or one element."""

    def result():
        dtype, shape = kind
        if 0 in shape:
            return torch.empty(shape, dtype=TORCH[dtype])
        value = c.t(make(), dtype)
        return value if value.shape == shape else c.t(torch.zeros(shape), dtype)

    return result


@row("embedding_dense_backward")
def embedding_dense_backward(c, dy, indices, rows, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        c.refuse("scale_grad_by_freq")
    dy = c.own(dy)
    if padding_idx >= 0:
        kept = c.reshape(c.compare(indices, padding_idx, "ne"), shape_of(indices) + (1,))
        dy = c.g.mul(dy, c.t(kept, dy.dtype))
    return c.g.scatter_add(c.own(indices), dy, rows=rows)
