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
    "index_add": lambda: _classifies(_summed_by_index, 16)(a=nn.Linear(16, 16)),
}
