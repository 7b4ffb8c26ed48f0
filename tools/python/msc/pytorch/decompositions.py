"""Decompositions that PyTorch lacks: calls in terms of others, which have rows or decompositions of their own."""

import math

import torch
from torch._decomp import decomposition_table

DECOMPOSITIONS = {}  # ATen overload -> function that computes what it does with other calls


OF_OTHERS = {}  # the same by name, "torchvision.roi_align.default", of packages that need not be there


def decomposition(*names):
    """Registers a function for overloads: "put"; a name without a dot is its overload "default".  Those that this
    PyTorch lacks are passed over.  Of another package than PyTorch: "torchvision.roi_align.default"."""

    def register(function):
        for name in names:
            if name.count(".") == 2:
                OF_OTHERS[name] = function
                continue
            packet, _, overload = name.partition(".")
            target = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if target is not None:
                DECOMPOSITIONS[target] = function
        return function

    return register


def _gradients(function, inputs, dy, wanted):
    """The gradients of a function of tensors for those of its inputs that are wanted; None for the others."""
    kept = [x for x, w in zip(inputs, wanted) if w]

    def of(*given):
        given = iter(given)
        return function(*(next(given) if w else x for x, w in zip(inputs, wanted)))

    found = iter(torch.func.vjp(of, *kept)[1](dy) if kept else ())
    return tuple(next(found) if w else None for w in wanted)


# ---- sampling of images and volumes ----


@decomposition("grid_sampler_2d_backward")
def grid_sampler_2d_backward(dy, x, grid, mode, padding_mode, align_corners, output_mask):
    sample = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    return _gradients(lambda *v: sample(*v, mode, padding_mode, align_corners), (x, grid), dy, output_mask)


def _taps(low, high, bins, size, ratio):
    """What each pixel along one dimension counts in each bin of each region, [regions, bins, size]: a bin is the mean
    of `ratio` samples, if that is 0 of as many as its size in pixels, each between its two pixels.  Samples that lie
    more than a pixel outside are 0."""
    step = (high - low) / bins
    num = torch.full_like(step, ratio) if ratio > 0 else step.ceil().clamp(min=0)
    each = (step / num.clamp(min=1))[:, None, None]
    begin = low[:, None, None] + step[:, None, None] * torch.arange(bins, dtype=step.dtype)[:, None]
    number = torch.arange(ratio if ratio > 0 else size + 4, dtype=step.dtype)
    if ratio <= 0:  # more samples than these are far apart, so that others lie outside
        number = number + ((-1 - begin) / each.clamp(min=0.5) - 1).floor().clamp(min=0)
    place = begin + each * (number + 0.5)
    counts = (place >= -1) & (place <= size) & (number < num[:, None, None])
    off = place.clamp(0, size - 1)[..., None] - torch.arange(size, dtype=step.dtype)
    taps = (1 - off.abs()).clamp(min=0) * counts[..., None]
    return taps.sum(2) / num.clamp(min=1)[:, None, None]


@decomposition("torchvision.roi_align.default")
def roi_align(x, regions, scale, height, width, ratio, aligned):
    """Means over the bins of regions (image, left, top, right, bottom), as two products along height and width; regions
    have no gradient."""
    image, box = regions[:, 0].to(torch.int64), regions[:, 1:].detach() * scale - (0.5 if aligned else 0.0)
    left, top, right, bottom = box.unbind(1)
    if not aligned:
        right, bottom = torch.maximum(right, left + 1), torch.maximum(bottom, top + 1)
    down = _taps(top, bottom, height, x.shape[2], ratio)[:, None]
    across = _taps(left, right, width, x.shape[3], ratio)[:, None]
    return down @ x.index_select(0, image) @ across.mT


def _reflected(x, low, high):
    """x mirrored at both ends until it lies between them; both are twice the place, so that they are whole numbers."""
    if low == high:
        return torch.zeros_like(x)
    low, span = low / 2, (high - low) / 2
    off = (x - low).abs()
    turns = torch.floor(off / span)
    rest = off - turns * span
    return torch.where(turns.remainder(2) == 0, rest, span - rest) + low


def _place(x, size, padding_mode, align_corners):
    """From -1 .. 1 to a place among so many elements."""
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding_mode == 2:
        x = _reflected(x, 0, 2 * (size - 1)) if align_corners else _reflected(x, -1, 2 * size - 1)
    return x.clamp(0, size - 1) if padding_mode else x


@decomposition("grid_sampler_3d")
def grid_sampler_3d(x, grid, mode, padding_mode, align_corners):
    n, channels, *size = x.shape
    places = [_place(grid[..., 2 - i], size[i], padding_mode, align_corners) for i in range(3)]
    flat = x.reshape(n, channels, -1)

    def read(corner):
        """The elements at whole places, [n, channels, deep, h, w]; zeros outside."""
        inside, index = None, 0
        for p, s in zip(corner, size):
            here = (p >= 0) & (p <= s - 1)
            inside = here if inside is None else inside & here
            index = index * s + p.clamp(0, s - 1).to(torch.int64)
        index = index.reshape(n, 1, -1).expand(n, channels, -1)
        values = flat.gather(2, index).reshape((n, channels) + tuple(grid.shape[1:4]))
        return values * inside.unsqueeze(1).to(x.dtype)

    if mode == 1:
        return read([p.round() for p in places])
    low, total = [p.floor().detach() for p in places], 0
    for corner in range(8):
        at, weight = [], 1
        for i, (p, first) in enumerate(zip(places, low)):
            behind = corner >> i & 1
            at.append(first + behind)
            weight = weight * ((p - first) if behind else (first + 1 - p))
        total = total + read(at) * weight.unsqueeze(1)
    return total


@decomposition("grid_sampler_3d_backward")
def grid_sampler_3d_backward(dy, x, grid, mode, padding_mode, align_corners, output_mask):
    return _gradients(lambda *v: grid_sampler_3d(*v, mode, padding_mode, align_corners), (x, grid), dy, output_mask)


# ---- distances ----


def _slope_of_distance(off, distance, p):
    """d distance / d off of p-norms; 0 where they have none."""
    if p == 0:
        return torch.zeros_like(off)
    if p == 1:
        return off.sign()
    if p == 2:
        return torch.where(distance == 0, 0.0, off / torch.where(distance == 0, 1.0, distance))
    if p == math.inf:
        return off.sign() * (off.abs() == distance)
    none = (distance == 0) | (off == 0)
    ratio = torch.where(none, 1.0, off.abs() / torch.where(distance == 0, 1.0, distance))
    return torch.where(none, 0.0, off.sign() * ratio ** (p - 1))


@decomposition("_cdist_backward")
def cdist_backward(dy, a, b, p, distance):
    off = a.unsqueeze(-2) - b.unsqueeze(-3)
    return (dy.unsqueeze(-1) * _slope_of_distance(off, distance.unsqueeze(-1), p)).sum(-2)


@decomposition("_pdist_backward")
def pdist_backward(dy, x, p, distance):
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    off = x.index_select(0, first) - x.index_select(0, second)
    pairs = dy.unsqueeze(-1) * _slope_of_distance(off, distance.unsqueeze(-1), p)
    return torch.zeros_like(x).index_add(0, first, pairs).index_add(0, second, -pairs)


# ---- elements named by one number ----


@decomposition("put")
def put(x, index, source, accumulate=False):
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


@decomposition("masked_scatter_backward")
def masked_scatter_backward(dy, mask, sizes):
    """The source's element of each place of the mask: its number among those that are true."""
    num, flat = math.prod(sizes), mask.expand_as(dy).reshape(-1)
    number = torch.where(flat, flat.to(torch.int64).cumsum(0) - 1, num)  # others fall behind the last
    return torch.zeros(num + 1, dtype=dy.dtype).index_add(0, number, dy.reshape(-1))[:num].reshape(sizes)


@decomposition("searchsorted.Tensor")
def searchsorted(ordered, x, *, out_int32=False, right=False, side=None, sorter=None):
    ordered = ordered if sorter is None else ordered.gather(-1, sorter)
    right = right or side == "right"
    line = ordered if ordered.dim() == 1 else ordered.unsqueeze(-2)
    below = line <= x.unsqueeze(-1) if right else line < x.unsqueeze(-1)
    return below.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


@decomposition("nanmedian.dim")
def nanmedian(x, dim, keepdim=False):
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = x.sort(dim)  # what is no number comes last
    middle = ((~x.isnan()).sum(dim, keepdim=True) - 1).clamp(min=0).div(2, rounding_mode="floor")
    values, places = values.gather(dim, middle), places.gather(dim, middle)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


# ---- norms ----


@decomposition("native_batch_norm_backward")
def batch_norm_backward(dy, x, gamma, mean, variance, batch_mean, batch_scale, training, eps, wanted):
    """PyTorch's, with the statistics of a batch of f16 or bf16 computed again in f32: the forward hands them on in x's
    element type, rounded."""
    if training and x.dtype in (torch.float16, torch.bfloat16):
        dims = [d for d in range(x.dim()) if d != 1]
        spread, batch_mean = torch.var_mean(x.float(), dims, correction=0)
        batch_scale = torch.rsqrt(spread + eps)
    own = decomposition_table[torch.ops.aten.native_batch_norm_backward.default]
    return own(dy, x, gamma, mean, variance, batch_mean, batch_scale, training, eps, wanted)


@decomposition("_weight_norm_interface_backward")
def weight_norm_backward(dw, v, g, norms, dim):
    """Of v / |v| * g, where |v| is taken over all dimensions but one."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (dw * v).sum(others, keepdim=True) / norms
    dv = g / norms * (dw - v * (along / norms))
    return dv.to(v.dtype), along.to(g.dtype)


# ---- bags of embeddings ----


def _bag_of_each(indices, offsets, num_bags, padding_idx):
    """The number of the bag of each index, and whether it counts there: those that are padding do not, nor those behind
    the offset at which the last bag ends, for which the last bag stands."""
    places = torch.arange(indices.shape[0], device=indices.device)
    bags = (offsets <= places.unsqueeze(1)).sum(1) - 1
    return bags.clamp(max=num_bags - 1), (indices != padding_idx) & (bags < num_bags)


@decomposition("_embedding_bag_backward")
def embedding_bag_backward(
    dy, indices, offsets, _, bag_size, largest, rows, by_frequency, mode, sparse, weights, padding_idx=-1
):
    if by_frequency or sparse:
        raise NotImplementedError("scale_grad_by_freq, or sparse gradients")
    table = torch.zeros(rows, dy.shape[1], dtype=dy.dtype)
    bags, counts = _bag_of_each(indices, offsets, dy.shape[0], padding_idx)
    kept = counts.to(dy.dtype).unsqueeze(1)
    if mode == 0:
        each = dy.index_select(0, bags) * kept
        each = each if weights is None else each * weights.unsqueeze(1)
        return table.index_add(0, indices, each)
    filled = torch.zeros(dy.shape[0], 1, dtype=dy.dtype).index_add(0, bags, kept)  # how many rows a bag has
    if mode == 1:
        return table.index_add(0, indices, (dy / filled.clamp(min=1)).index_select(0, bags) * kept)
    return table.scatter_add(0, largest, dy * (filled > 0))


@decomposition("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(dy, table, indices, offsets, _, mode, padding_idx=-1):
    bags, counts = _bag_of_each(indices, offsets, dy.shape[0], padding_idx)
    own = dy.index_select(0, bags) * table.index_select(0, indices)
    return own.sum(1) * counts


# ---- products ----


@decomposition("_trilinear")
def trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The product of three tensors that are stretched over some dimensions, summed over others."""
    rank = a.dim() + len(expand1)
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    own = ["".join(v for d, v in enumerate(letters) if d not in gone) for gone in (expand1, expand2, expand3, sumdim)]
    return torch.einsum(f"{own[0]},{own[1]},{own[2]}->{own[3]}", a, b, c)


# ---- attention ----


@decomposition("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    x, width, heads, qkv, qkv_bias, out, out_bias, is_gelu, norm_first, eps,
    gamma1, beta1, gamma2, beta2, up, up_bias, down, down_bias, mask=None, mask_type=None,
):  # fmt: skip
    """What torch.nn.TransformerEncoderLayer is in evaluation.  Of a mask, in whatever element type, all that is not 0
    is left out: places that see each other, or, where its type is 1, places of each sample that are padding.  Where all
    is left out attention is 0; PyTorch's own is no number there."""
    linear, act = torch.nn.functional.linear, torch.nn.functional.gelu if is_gelu else torch.nn.functional.relu
    seen = None if mask is None else mask == 0
    seen = seen[:, None, None, :] if mask is not None and mask_type == 1 else seen

    def attention(y):
        parts = linear(y, qkv, qkv_bias).chunk(3, -1)
        q, k, v = (p.reshape(*y.shape[:2], heads, width // heads).transpose(1, 2) for p in parts)
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen)
        return linear(found.transpose(1, 2).reshape(y.shape), out, out_bias)

    def layers(y):
        return linear(act(linear(y, up, up_bias)), down, down_bias)

    def first(y):
        return torch.nn.functional.layer_norm(y, (width,), gamma1, beta1, eps)

    def second(y):
        return torch.nn.functional.layer_norm(y, (width,), gamma2, beta2, eps)

    if norm_first:
        x = x + attention(first(x))
        return x + layers(second(x))
    x = first(x + attention(x))
    return second(x + layers(x))


# ---- two operands ----


def _other_if_no_number(choose):
    def choice(a, b):
        return torch.where(a.isnan(), b, torch.where(b.isnan(), a, choose(a, b)))

    return choice


decomposition("fmax")(_other_if_no_number(torch.maximum))
decomposition("fmin")(_other_if_no_number(torch.minimum))


@decomposition("copysign.Tensor")
def copysign(a, b):
    """The sign of a zero is that of one divided by it."""
    dtype = torch.result_type(a, b)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    a, b = a.to(dtype).abs(), b.to(dtype)
    return torch.where((b < 0) | ((b == 0) & (1 / b < 0)), -a, a)


# ---- lists of tensors ----


def of_each(target):
    """For a call that does the same with each tensor of a list, as _foreach_add.Scalar: the calls for one tensor after
    another; None for others."""
    name = target._schema.name.removeprefix("aten::")
    one = {"_foreach_norm": torch.linalg.vector_norm}.get(name)
    one = one or getattr(torch, name.removeprefix("_foreach_"), None)
    if not name.startswith("_foreach_") or one is None or target._schema.is_mutable:
        return None
    parameters = target._schema.arguments
    words = {"alpha": "alpha", "value": "value", "dtype": "dtype"}
    if name in ("_foreach_addcmul", "_foreach_addcdiv"):
        words["scalars"] = "value"

    def function(*arguments, **given):
        given = {**dict(zip((p.name for p in parameters), arguments)), **given}
        num = next(len(v) for v in given.values() if isinstance(v, (list, tuple)))

        def call(i):
            own = {n: v[i] if isinstance(v, (list, tuple)) else v for n, v in given.items()}
            return one(
                *(v for n, v in own.items() if n not in words), **{words[n]: v for n, v in own.items() if n in words}
            )

        return [call(i) for i in range(num)]

    return function
