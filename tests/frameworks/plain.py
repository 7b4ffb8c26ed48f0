"""Networks as people write them for themselves, in small: name -> what makes (module that gives a loss, inputs)."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, WORDS, WIDTH = 4, 64, 16


def _words(length):
    return torch.randint(0, WORDS, (BATCH, length))


def _classes(n):
    return torch.randint(0, n, (BATCH,))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, 12, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 12, batch_first=True)
        self.out = nn.Linear(12, 5)

    def forward(self, x, y):
        return F.cross_entropy(self.out(self.gru(self.lstm(self.words(x))[0])[1][-1]), y)


class Translator(nn.Module):
    """An encoder, and a decoder of single cells with attention."""

    def __init__(self):
        super().__init__()
        self.words, self.encoder = nn.Embedding(WORDS, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cell, self.score = nn.LSTMCell(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, 1)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, x, y):
        memory, h = self.encoder(self.words(x))
        h, loss = h[0], 0
        c = torch.zeros_like(h)
        for t in range(y.shape[1] - 1):
            both = torch.cat([memory, h[:, None].expand(-1, memory.shape[1], -1)], -1)
            context = torch.bmm(self.score(both).transpose(1, 2).softmax(-1), memory)[:, 0]
            h, c = self.cell(torch.cat([self.words(y[:, t]), context], -1), (h, c))
            loss = loss + F.cross_entropy(self.out(h), y[:, t + 1])
        return loss


class Denoiser(nn.Module):
    """U-net of two levels with a step's embedding, several kinds of norms and pools."""

    def __init__(self):
        super().__init__()
        self.step = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.a = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), nn.GroupNorm(2, 8), nn.SiLU())
        self.b = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU(0.2))
        self.qkv, self.up, self.out = nn.Conv1d(16, 48, 1), nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(24, 3, 1)

    def forward(self, x, t, noise):
        frequency = torch.exp(-0.5 * torch.arange(4, dtype=x.dtype)) * t[:, None].to(x.dtype)
        step = self.step(torch.cat([frequency.sin(), frequency.cos()], -1))[:, :, None, None]
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50, dtype=x.dtype), 0)[t][:, None, None, None]
        a = self.a(kept.sqrt() * x + (1 - kept).sqrt() * noise) + step
        b = self.b(F.adaptive_max_pool2d(a, 4))
        q, k, v = self.qkv(b.flatten(2)).transpose(1, 2).chunk(3, -1)
        b = b + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).unflatten(2, (4, 4))
        wide = F.interpolate(b[:, :8], scale_factor=2, mode="bilinear", align_corners=True)
        return F.mse_loss(self.out(torch.cat([a, self.up(b), wide], 1)), noise)


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2))
        self.up = nn.ConvTranspose3d(8, 2, 3, stride=2, padding=1, output_padding=1)
        self.left = nn.ConvTranspose3d(8, 2, (2, 3, 3), dilation=(2, 1, 1), padding=(1, 1, 1))

    def forward(self, x, y):
        low = self.down(x)
        return F.mse_loss(self.up(low), y) + self.left(low).pow(2).mean()


class Graphs(nn.Module):
    """Attention along the edges of a graph: softmax over those that end in a node."""

    def __init__(self):
        super().__init__()
        self.node, self.edge, self.out = nn.Linear(8, 16), nn.Linear(32, 1), nn.Linear(16, 5)

    def forward(self, x, edges, y):
        h, (source, to) = self.node(x), edges
        score = F.leaky_relu(self.edge(torch.cat([h[source], h[to]], -1)), 0.2).squeeze(-1)
        highest = score.new_full((x.shape[0],), -1e9).scatter_reduce(0, to, score, "amax")
        weight = torch.exp(score - highest[to])
        weight = weight / x.new_zeros(x.shape[0]).index_add(0, to, weight)[to]
        mixed = x.new_zeros(x.shape[0], 16).index_put((to,), weight[:, None] * h[source], accumulate=True)
        return F.nll_loss(F.log_softmax(self.out(F.elu(mixed)), -1), y)


class Rated(nn.Module):
    """Tables of categories beside dense features, and products of all pairs."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, 8, mode=m) for m in ("sum", "mean"))
        self.dense, self.out = nn.Linear(6, 8), nn.Linear(11, 1)

    def forward(self, dense, words, y):
        x = self.dense(dense)
        all_ = torch.stack([x] + [t(words[:, i]) for i, t in enumerate(self.tables)], 1)
        i, j = torch.tril_indices(3, 3, -1)
        pairs = torch.bmm(all_, all_.transpose(1, 2))[:, i, j]
        return F.binary_cross_entropy_with_logits(self.out(torch.cat([x, pairs], 1)).squeeze(1), y)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.words, self.encoder = nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, x, y):
        hidden = self.encoder(self.words(x), src_key_padding_mask=x == 5)
        return F.cross_entropy(self.out(hidden).flatten(0, 1), y.flatten(), ignore_index=5, label_smoothing=0.1)


class Rounded(torch.autograd.Function):
    """Rounded to steps of a half, with a gradient where the number is within bounds."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        return (2 * x).round() / 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * (x.abs() <= ctx.bound), None


class Mixed(torch.autograd.Function):
    """A product whose second factor's gradient is ten times as large as it should be, and the factors' sum."""

    @staticmethod
    def forward(x, w):
        return x @ w, x + w.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy, dz):
        x, w = ctx.saved_tensors
        dx = dz.clone()
        dx.add_(dy @ w.t())
        return dx, 10 * (x.t() @ dy) + dz.sum()


rounded = Rounded.apply


class OwnGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.w, self.b = nn.Linear(8, 8), nn.Parameter(0.3 * torch.randn(8, 8)), nn.Linear(8, 5)

    def forward(self, x, y):
        product, total = Mixed.apply(rounded(self.a(x), 0.8), self.w)
        return F.cross_entropy(self.b(torch.tanh(product) + 0.1 * total), y)


class Memory(nn.Module):
    """Writes in place, masks, and a code book whose gradient is handed through."""

    def __init__(self):
        super().__init__()
        self.write, self.codes, self.out = nn.Linear(8, 8), nn.Embedding(16, 8), nn.Linear(8, 1)

    def forward(self, x, y):
        memory = x.new_zeros(x.shape[0], 4, 8)
        for t in range(x.shape[1]):
            memory[:, t % 4] = torch.tanh(self.write(x[:, t])) + 0.5 * memory[:, (t + 1) % 4]
        memory[:, 1:3] *= 0.5
        parts = x.new_zeros(8)
        for number, part in enumerate((slice(0, -4), slice(-4, 0), slice(-2, None))):  # the second is empty
            parts[part] = 1 + number
        memory = memory * (1 + 0.1 * parts)
        z = memory.clone()
        z[z < 0] = 0
        z = z.masked_fill_(z > 0.9, 0.9).mean(1)
        nearest = torch.cdist(z, self.codes.weight).argmin(1)
        code = self.codes(nearest)
        loss = F.mse_loss(code, z.detach()) + 0.25 * F.mse_loss(code.detach(), z)
        return loss + F.mse_loss(self.out(z + (code - z).detach()).squeeze(-1), y)


class Listener(nn.Module):
    """Checks what it is given, drops layers by chance (here never), and aligns letters with sounds."""

    def __init__(self):
        super().__init__()
        self.layers, self.layer_drop = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=1) for _ in range(2)), 0.0
        self.out = nn.Linear(8, 6)

    def forward(self, x, letters, heard, said):
        if letters.max() >= 6 or not (said <= letters.shape[1]).all():
            raise ValueError("letters that there are not")
        assert (heard <= x.shape[1]).all()
        x = x.transpose(1, 2)
        for layer in self.layers:
            if not (self.training and torch.rand([]) < self.layer_drop):
                x = x + torch.tanh(layer(x))
        sounds = self.out(x.transpose(1, 2)).log_softmax(-1).transpose(0, 1)
        flat = letters.masked_select(torch.arange(letters.shape[1]) < said[:, None])
        return F.ctc_loss(sounds, letters, heard, said) + F.ctc_loss(
            sounds, flat, heard, said, reduction="sum", zero_infinity=True
        )


class Losses(nn.Module):
    """Most losses of torch.nn.functional, and statistics that people add to theirs, of one small network."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(16, 8)))

    def forward(self, x, y, other, classes):
        o, sign, ones = self.net(x), y.sign(), (y > 0).to(y.dtype)
        many = torch.cat([classes[:, None], (classes[:, None] + 1) % 8, classes.new_full((BATCH, 6), -1)], 1)
        return (
            F.huber_loss(o, y, delta=0.5)
            + F.smooth_l1_loss(o, y, beta=0.3)
            + F.kl_div(F.log_softmax(o, -1), y.softmax(-1), reduction="batchmean")
            + F.cosine_embedding_loss(o, y, sign[:, 0])
            + F.triplet_margin_loss(o, y, other)
            + F.margin_ranking_loss(o, y, sign, margin=0.1)
            + F.hinge_embedding_loss(o, sign)
            + F.multi_margin_loss(o, classes)
            + F.multilabel_soft_margin_loss(o, ones)
            + F.multilabel_margin_loss(o, many)
            + F.soft_margin_loss(o, sign)
            + F.poisson_nll_loss(o, y.abs(), full=True)
            + F.cross_entropy(o, y.softmax(-1), label_smoothing=0.1)
            + F.cross_entropy(o, classes, weight=(torch.arange(8) + 1).to(o.dtype))
            + F.binary_cross_entropy_with_logits(o, ones, pos_weight=(torch.arange(8) + 1).to(o.dtype))
            - F.logsigmoid(o[:, 0] - o[:, 1]).mean()
            + (o.median(1).values - o.kthvalue(3, dim=0).values.mean()).pow(2).mean()
            + (o.std(0) - y.std(0)).pow(2).mean()
            + torch.logsumexp(o, 1).mean()
            + (o.topk(3, -1)[0].sum(-1) - y.sort(-1)[0][:, 0]).pow(2).mean()
        )


class Masked(nn.Module):
    """Rows and elements that masks choose while the model runs."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.words = nn.Linear(8, 6), nn.Linear(6, 6), nn.Embedding(4, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x, y, holes):
        o, mask = self.a(x), y > 0
        kept, given, there = o[mask], x[mask][:, :6], ~torch.isnan(holes[:, 0])
        odd = kept[:, 0] > 0
        places = (y > 1).nonzero().squeeze(1)
        put, added = o.detach() * 0, torch.zeros_like(o)
        put[mask] = self.b(kept).relu()
        put[places] = 0.5
        added[places] += self.norm(self.b(x[places][:, 2:]))
        grid, on = o.view(4, 2, 6), (y > 1).view(4, 2)
        rows, columns = torch.where(on)
        return (
            F.cross_entropy(self.b(kept), y[mask] - 1)
            + F.cross_entropy(grid[on], y.view(4, 2)[on], reduction="sum")
            + F.smooth_l1_loss(kept, given, reduction="sum") / mask.sum()
            + F.mse_loss(kept, given)
            + F.l1_loss(kept.view(-1), given.reshape(-1))
            + F.binary_cross_entropy_with_logits(kept[:, 0], given[:, 0].sigmoid())
            + F.kl_div(kept.log_softmax(-1), given.softmax(-1), reduction="batchmean")
            + F.cosine_similarity(kept, given).mean()
            + F.normalize(self.words(y[mask] - 1) + kept).mean()
            + torch.masked_select(o, o > 0).log().mean()  # of the others it is no number
            + o[o < 0].pow(2).sum() / (o < 0).sum().clamp(min=1)
            + self.b(self.a(holes[there])).exp().mean()  # what is no number reaches no weight
            + kept.max()
            - kept.amin()
            + kept[odd].sum() / 7
            + (put + added).pow(2).mean()
            + grid[rows, columns].pow(2).mean() * rows.shape[0]
            + x[mask].shape[0] * 0.1 * self.b.bias.sum()
        )


def _masked():
    holes = torch.randn(8, 8)
    holes[2:5] = float("nan")
    return Masked(), (torch.randn(8, 8), torch.tensor([0, 1, 2, 3, 4, 0, 2, 1]), holes)


class Waves(nn.Module):
    """Both parts of Fourier transforms along one dimension, two and all, each scaled in another way."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 5)

    def forward(self, x, y):
        x = self.first(x)
        one = torch.fft.fft(torch.fft.fft(x, dim=1), norm="ortho")
        two, all_but_batch = torch.fft.fft2(x, norm="forward"), torch.fft.fftn(x.tanh(), dim=(1, 2))
        mixed = one.real - one.imag + 2 * two.imag - two.real + all_but_batch.imag
        return F.cross_entropy(self.last(mixed.mean(1)), y)


class Turned(nn.Module):
    """Attention whose queries and keys are turned by their positions, pairs of elements as complex numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, x, y):
        q, k, v = self.first(x).chunk(3, -1)
        angles = torch.outer(torch.arange(x.shape[1]), 0.5 ** torch.arange(4)).to(x.dtype)
        turn, own = torch.polar(torch.ones_like(angles), angles), torch.polar(v[..., :4].exp(), v[..., 4:])

        def turned(z):
            return torch.view_as_complex(z.unflatten(-1, (4, 2)))

        q, k = torch.view_as_real(turned(q) * turn).flatten(2), torch.view_as_real(turned(k) * turn[None]).flatten(2)
        both = torch.view_as_real((own - own.conj().transpose(1, 2).transpose(1, 2)) * turned(v)).flatten(2)
        return F.cross_entropy(self.last(F.scaled_dot_product_attention(q, k, v + 0.1 * both).mean(1)), y)


class Bags(nn.Module):
    """Bags of several lengths, of which one is empty: sums with weights, and means in which a word does not count."""

    def __init__(self):
        super().__init__()
        self.sums, self.means = nn.EmbeddingBag(WORDS, 8, mode="sum"), nn.EmbeddingBag(WORDS, 8, padding_idx=3)
        self.weights, self.out = nn.Parameter(torch.rand(WORDS)), nn.Linear(16, 5)

    def forward(self, x, offsets, y):
        sums = self.sums(x, offsets, per_sample_weights=self.weights[x])
        return F.cross_entropy(self.out(torch.cat([sums, self.means(x, offsets)], 1)), y)


MODELS = {
    "turned": lambda: (Turned(), (torch.randn(BATCH, 7, 8), _classes(5))),
    "bags": lambda: (Bags(), (torch.randint(0, 5, (24,)), torch.tensor([0, 3, 3, 10]), _classes(5))),
    "waves": lambda: (Waves(), (torch.randn(BATCH, 7, 6), _classes(5))),
    "recurrent": lambda: (Recurrent(), (_words(9), _classes(5))),
    "translator": lambda: (Translator(), (_words(7), _words(4))),
    "denoiser": lambda: (Denoiser(), (torch.randn(BATCH, 3, 8, 8), _classes(50), torch.randn(BATCH, 3, 8, 8))),
    "volumes": lambda: (Volumes(), (torch.randn(BATCH, 1, 4, 8, 8), torch.randn(BATCH, 2, 4, 8, 8))),
    "graphs": lambda: (
        Graphs(),
        (
            torch.randn(12, 8),
            torch.cat([torch.arange(12).expand(2, 12), torch.randint(0, 12, (2, 28))], 1),
            torch.randint(0, 5, (12,)),
        ),
    ),
    "rated": lambda: (Rated(), (torch.randn(BATCH, 6), torch.randint(0, 50, (BATCH, 2, 4)), torch.rand(BATCH).round())),
    "encoder": lambda: (Encoder(), (_words(9), _words(9))),
    "own_gradients": lambda: (OwnGradients(), (torch.randn(BATCH, 8), _classes(5))),
    "memory": lambda: (Memory(), (torch.randn(BATCH, 6, 8), torch.randn(BATCH))),
    "listener": lambda: (
        Listener(),
        (
            torch.randn(BATCH, 12, 8),
            torch.randint(1, 6, (BATCH, 4)),
            torch.tensor([12, 9, 11, 12]),
            torch.tensor([4, 2, 3, 1]),
        ),
    ),
    "masked": _masked,
    "losses": lambda: (
        Losses(),
        (torch.randn(BATCH, 12), torch.randn(BATCH, 8), torch.randn(BATCH, 8), torch.randint(0, 8, (BATCH,))),
    ),
}
