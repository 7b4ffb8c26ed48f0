"""Networks that see a batch part by part, in small: name -> what makes (module, inputs).  The batch is the first
dimension of every input; inside it is beside, behind or within other dimensions."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8


class Run(nn.Module):
    """Parts by name, and a function of the module and its inputs x, y that gives the loss."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, y):
        return self.run(self, x, y)


def _classes(n, *shape):
    return torch.randint(0, n, (BATCH, *shape))


def _classifies(features, width):
    """Inputs [batch, 6, 16] and 5 classes; `features` of a module m and x are [batch, width]."""

    def make(**parts):
        def run(m, x, y):
            return F.cross_entropy(m.out(features(m, x)), y)

        return Run(run, out=nn.Linear(width, 5), **parts), (torch.randn(BATCH, 6, 16), _classes(5))

    return make


def _summed_by_index(m, x):
    index = torch.tensor([0, 1, 2, 3, 1, 0])
    return torch.zeros(x.shape[0], 4, 16, dtype=x.dtype).index_add(1, index, m.a(x)).tanh().mean(1)


def _decoder():
    layer = nn.TransformerDecoderLayer(16, 4, 32, 0.0, batch_first=True)
    return Run(lambda m, x, y: m.a(x, y).pow(2).mean(), a=layer), (
        torch.randn(BATCH, 6, 16),
        torch.randn(BATCH, 5, 16),
    )


def _instances():
    norm, conv = nn.InstanceNorm2d(6, affine=True), nn.Conv2d(3, 6, 3, padding=1)
    net = Run(
        lambda m, x, y: F.cross_entropy(m.out(m.norm(m.conv(x)).relu().mean((2, 3))), y),
        conv=conv,
        norm=norm,
        out=nn.Linear(6, 5),
    )
    return net, (torch.randn(BATCH, 3, 6, 6), _classes(5))


def _bags(mode, **words):
    """Bags of one length, of which one has nothing but what is left out."""
    net = Run(
        lambda m, x, y: F.cross_entropy(m.out(m.bag(x, per_sample_weights=m.weights[x] if mode == "sum" else None)), y),
        bag=nn.EmbeddingBag(40, 12, mode=mode, **words),
        out=nn.Linear(12, 5),
    )
    net.weights = nn.Parameter(torch.rand(40))
    x = _classes(40, 6)
    x[2], x[4, 4:] = 3, 3
    return net, (x, _classes(5))


def _smoothed(weighted):
    """Cross entropy where two labels of the first half of the batch are ignored."""

    def run(m, x, y):
        weight = torch.arange(1, 6).to(x.dtype) if weighted else None
        return F.cross_entropy(m.out(x), y, weight=weight, label_smoothing=0.1)

    y = _classes(5)
    y[1] = y[2] = -100
    return Run(run, out=nn.Linear(16, 5)), (torch.randn(BATCH, 16), y)


def _beside(term, ignored=False):
    """Cross entropy with PyTorch's ignore_index, -100, and another term of the module, its features and labels."""

    def run(m, x, y):
        features = m.a(x).tanh()
        return F.cross_entropy(m.out(features), y) + 0.5 * term(m, features, y)

    y = _classes(5)
    if ignored:
        y[1] = y[2] = -100
    return Run(run, a=nn.Linear(16, 12), out=nn.Linear(12, 5), other=nn.Linear(12, 5)), (torch.randn(BATCH, 16), y)


def _last_of_each(m, x):
    """The output at a place of each sequence that depends on the sequence, and the same of each feature."""
    h, samples = m.a(x), torch.arange(x.shape[0])
    last, largest = (x[:, :, 0] > 0).sum(1).clamp(max=5), h.argmax(1)
    return h[samples, last] + h.transpose(1, 2)[samples[:, None], torch.arange(16), largest]


def _masked_by_numbers(m, x):
    """A mask of places that is looked up by numbers of the samples, as one made by vmap is, and positions that a
    convolution makes for every sample anew."""
    b, t = x.shape[:2]
    near = (x[:, :, 0] > -1)[torch.arange(b)[:, None, None], torch.arange(t)]
    places = torch.ones(b, 1, t, dtype=x.dtype).cumsum(2) * 0.3
    return m.a(x + m.places(places.sin()).transpose(1, 2)).mul(near.transpose(1, 2)).tanh().mean(1)


def _strided(m, x):
    """Windows of two rows of each sample, cut from memory by strides."""
    h = m.a(x).tanh().contiguous()
    return h.as_strided((h.shape[0], 5, 2, 16), (6 * 16, 16, 16, 1)).prod(2).sum(1)


def _gated(m, x):
    """The two experts of four with the largest gates."""
    x = x.mean(1)
    gates, numbers = m.gate(x).softmax(-1).topk(2, -1)
    gates = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, numbers, gates)
    return torch.einsum("be,beh->bh", gates, m.a(x).unflatten(-1, (4, 16)))


def _experts(m, x):
    """Each sample goes through the two experts of four with the largest gates: the first adds in the rows of its
    samples, the second writes them."""
    x = m.a(x.mean(1)).tanh()
    gates = m.gate(x).softmax(-1)
    chosen, y, z = gates.topk(2, -1)[1], torch.zeros_like(x), torch.zeros_like(x)
    for e in range(4):
        samples, _ = torch.where(chosen == e)
        y.index_add_(0, samples, m.experts[e](x[samples]) * gates[samples, e, None])
        best = (chosen[:, 0] == e).nonzero().squeeze(1)
        z[best] = m.experts[e](x[best]).tanh()
    return y + z


def _sorted_experts(m, x):
    """Each step of each sample goes through the two experts of four with the largest gates: rows are sorted by expert,
    multiplied group by group and put back.  f64, which grouped products do not have, sees experts one by one."""
    batch, steps = x.shape[:2]
    rows = m.a(x).tanh().flatten(0, 1)
    gates, chosen = m.gate(rows).softmax(-1).topk(2, -1)
    if x.dtype == torch.float64:
        each = torch.einsum("rk,ekn->ren", rows, m.w).tanh()
        return (each[torch.arange(len(rows))[:, None], chosen] * gates[..., None]).sum(1).unflatten(0, (batch, steps))
    numbers, order = torch.sort(chosen.reshape(-1))
    ends = torch.histc(numbers.float(), bins=4, min=0, max=3).cumsum(0, dtype=torch.int32)
    y = F.grouped_mm(rows[order // 2], m.w, offs=ends).tanh() * gates.reshape(-1)[order][:, None]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return y[back].view(batch, steps, 2, -1).sum(2)


def _of_experts():
    net = _classifies(lambda m, x: _sorted_experts(m, x).mean(1), 16)(a=nn.Linear(16, 16), gate=nn.Linear(16, 4))
    net[0].w = nn.Parameter(0.3 * torch.randn(4, 16, 16))
    return net


def _of_rows(loss):
    """A loss of the rows that a mask of the labels chooses, and the mask."""

    def run(m, x, y):
        mask = y > 1
        return loss(m.out(m.a(x).tanh()), y, mask)

    return Run(run, a=nn.Linear(16, 12), out=nn.Linear(12, 5)), (torch.randn(BATCH, 16), torch.arange(BATCH) % 5)


def _power_iterations():
    net = Run(
        lambda m, x, y: F.cross_entropy(m.out(m.a(x).relu()), y),
        a=nn.utils.parametrizations.spectral_norm(nn.Linear(16, 12)),
        out=nn.Linear(12, 5),
    )
    return net, (torch.randn(BATCH, 16), _classes(5))


def _norms(halves):
    """Statistics of the steps of all samples, which are behind or in front of the samples in what is normalized; with
    `halves` the mean of what the halves of the batch give, each with statistics of its own."""

    def whole(m, x, y):
        h = m.a(x).transpose(0, 1)
        h = m.first(h.flatten(0, 1)).unflatten(0, (6, -1)).relu()
        h = m.second(h.permute(1, 2, 0).flatten(1)).unflatten(1, (12, 6)).mean(2)
        h = m.third(m.b(h)[:, None].expand(-1, 4, -1).flatten(0, 1)).unflatten(0, (-1, 4)).mean(1)
        return F.cross_entropy(m.out(h), y)

    def by_halves(m, x, y):
        return (whole(m, x[: BATCH // 2], y[: BATCH // 2]) + whole(m, x[BATCH // 2 :], y[BATCH // 2 :])) / 2

    def norm(n):
        return nn.BatchNorm1d(n, track_running_stats=False)

    net = Run(
        by_halves if halves else whole,
        a=nn.Linear(16, 12),
        b=nn.Linear(12, 10),
        out=nn.Linear(10, 5),
        first=norm(12),
        second=norm(72),
        third=norm(10),
    )
    return net, (torch.randn(BATCH, 6, 16), _classes(5))


def _pairs():
    """Each sample's two views find each other among those of all samples."""

    def run(m, x, y):
        a, b = F.normalize(m.a(x), dim=-1), F.normalize(m.b(y), dim=-1)
        near, own = a @ b.t() * m.scale.exp(), torch.arange(x.shape[0])
        return (F.cross_entropy(near, own) + F.cross_entropy(near.t(), own)) / 2

    net = Run(run, a=nn.Linear(16, 8), b=nn.Linear(12, 8))
    net.scale = nn.Parameter(torch.tensor(1.0))
    return net, (torch.randn(BATCH, 16), torch.randn(BATCH, 12))


def _pairs_of_labels():
    """Samples of one label are to be near each other."""

    def run(m, x, y):
        h, others = F.normalize(m.a(x), dim=-1), ~torch.eye(x.shape[0], dtype=torch.bool)
        near = (h @ h.t() / 0.5).masked_fill(~others, -1e9)
        alike = (y[:, None] == y[None, :]) & others
        chance = near - near.logsumexp(1, keepdim=True)
        return -((chance * alike).sum(1) / alike.sum(1).clamp(min=1)).mean()

    return Run(run, a=nn.Linear(16, 8)), (torch.randn(BATCH, 16), _classes(3))


def _each_divided():
    """Losses of samples, each divided by how many count."""

    def loss(o, y, mask):
        return (F.cross_entropy(o, y, reduction="none") * mask / mask.sum().clamp(min=1)).sum()

    return _of_rows(loss)


def _of_numbers(loss):
    return Run(lambda m, x, y: loss(m.out(x), y), out=nn.Linear(16, 5)), (torch.randn(BATCH, 16), torch.randn(BATCH, 5))


def _divergence(o, y):
    return F.kl_div(F.log_softmax(o, -1), y.softmax(-1), reduction="batchmean")


NETS = {
    "encoder": lambda: _classifies(lambda m, x: m.a(x).mean(1), 16)(
        a=nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
    ),
    "decoder": _decoder,
    "attention": lambda: _classifies(lambda m, x: m.a(*[x.transpose(0, 1)] * 3)[0].mean(0), 16)(
        a=nn.MultiheadAttention(16, 4)
    ),
    "gru": lambda: _classifies(lambda m, x: m.a(x)[0][:, -1], 12)(a=nn.GRU(16, 12, batch_first=True)),
    "lstm": lambda: _classifies(lambda m, x: m.a(x.transpose(0, 1))[0].mean(0), 24)(
        a=nn.LSTM(16, 12, 2, bidirectional=True)
    ),
    "instances": _instances,
    "index of samples": lambda: _classifies(_last_of_each, 16)(a=nn.Linear(16, 16)),
    "masked by numbers": lambda: _classifies(_masked_by_numbers, 16)(a=nn.Linear(16, 16), places=nn.Conv1d(1, 16, 1)),
    "strided": lambda: _classifies(_strided, 16)(a=nn.Linear(16, 16)),
    "scatter": lambda: _classifies(_gated, 16)(a=nn.Linear(16, 64), gate=nn.Linear(16, 4)),
    "index_add": lambda: _classifies(_summed_by_index, 16)(a=nn.Linear(16, 16)),
    "bags": lambda: _bags("mean"),
    "bags with weights": lambda: _bags("sum", padding_idx=3),
    "largest of bags": lambda: _bags("max", padding_idx=3),
    "smoothed": lambda: _smoothed(False),
    "smoothed and weighted": lambda: _smoothed(True),
    "cross entropy and a mean": lambda: _beside(lambda m, h, y: h.pow(2).mean()),
    "cross entropy and squares of parameters": lambda: _beside(
        lambda m, h, y: m.a.weight.pow(2).sum() - m.out.weight.abs().sum(), ignored=True
    ),
    "two of cross entropy": lambda: _beside(lambda m, h, y: F.cross_entropy(m.other(h), y), ignored=True),
    "power iterations": _power_iterations,
    "experts by masks": lambda: _classifies(_experts, 16)(
        a=nn.Linear(16, 16), gate=nn.Linear(16, 4), experts=nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    ),
    "experts by sort": _of_experts,
    "labelled rows of a mask": lambda: _of_rows(lambda o, y, mask: F.cross_entropy(o[mask], y[mask] - 2)),
    "mean of rows of a mask": lambda: _of_rows(lambda o, y, mask: (o[mask].log_softmax(-1) - 1).pow(2).mean()),
    "sum divided by a count": lambda: _of_rows(lambda o, y, mask: o[mask].exp().sum() / mask.sum()),
    "sum divided by a count of at least one": lambda: _of_rows(
        lambda o, y, mask: o[mask].exp().sum() / mask.sum().clamp(min=1)
    ),
    "means divided": lambda: _of_rows(
        lambda o, y, mask: 0.5 * (F.cross_entropy(o, y, reduction="none") * mask).mean() / (mask.float().mean() + 1e-6)
    ),
    "divergence": lambda: _of_numbers(_divergence),
    "a sum divided, beside a mean": lambda: _of_numbers(
        lambda o, y: _divergence(o, y) + 0.5 * F.mse_loss(o, y, reduction="sum") / BATCH + F.l1_loss(o, y)
    ),
}

# What two replicas compute: name -> what makes (module, inputs); what makes them of a module that computes the same
# from the whole batch
OF_TWO_REPLICAS = {
    "norms": (lambda: _norms(False), lambda: _norms(True)),
    "pairs": (_pairs, _pairs),
    "pairs of labels": (_pairs_of_labels, _pairs_of_labels),
    "each divided": (_each_divided, _each_divided),
}
