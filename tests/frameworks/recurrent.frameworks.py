#!/usr/bin/env python3
"""Recurrent layers of every kind: losses of two steps, and the parameters after them, beside PyTorch; long ones are
traced as one op, what drops numbers between layers does, and two ranks share a batch of many steps."""

import copy
import os
import sys
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch")
import torch  # noqa: E402
from torch import nn  # noqa: E402

import msc  # noqa: E402
from msc.pytorch.capture import capture  # noqa: E402

STEPS, BATCH, WIDTH, SIZE = 5, 3, 4, 6
KINDS = {
    "lstm": lambda: nn.LSTM(WIDTH, SIZE),
    "lstm, two layers both ways": lambda: nn.LSTM(WIDTH, SIZE, num_layers=2, bidirectional=True, batch_first=True),
    "lstm, projected": lambda: nn.LSTM(WIDTH, SIZE, proj_size=2, bidirectional=True),
    "lstm without biases": lambda: nn.LSTM(WIDTH, SIZE, bias=False),
    "gru": lambda: nn.GRU(WIDTH, SIZE),
    "gru, two layers both ways": lambda: nn.GRU(WIDTH, SIZE, num_layers=2, bidirectional=True, batch_first=True),
    "gru without biases": lambda: nn.GRU(WIDTH, SIZE, bias=False),
    "tanh": lambda: nn.RNN(WIDTH, SIZE, num_layers=2),
    "relu, both ways": lambda: nn.RNN(WIDTH, SIZE, nonlinearity="relu", bidirectional=True, batch_first=True),
}


class Net(nn.Module):
    """A layer whose results and last states all count, from given states or from zeros."""

    def __init__(self, layer, has_states):
        super().__init__()
        self.layer = layer
        dirs, out = 1 + layer.bidirectional, getattr(layer, "proj_size", 0) or SIZE
        sizes = (out, SIZE) if isinstance(layer, nn.LSTM) else (out,)
        states = [torch.randn(dirs * layer.num_layers, BATCH, s) for s in sizes] if has_states else []
        self.states = nn.ParameterList(states)

    def forward(self, x):
        start = (tuple(self.states) if len(self.states) > 1 else self.states[0]) if len(self.states) else None
        y, last = self.layer(x, start)
        last = last if isinstance(last, tuple) else (last,)
        return torch.cat([y.flatten(), *(2 * s.flatten() for s in last)])


def loss_of(y, target):
    return ((y - target) ** 2).mean()


def check(name, layer, has_states):
    own = Net(layer, has_states)
    plain, x = copy.deepcopy(own), torch.randn(BATCH, STEPS, WIDTH)
    x = x if layer.batch_first else x.transpose(0, 1).contiguous()
    target = torch.randn_like(own(x)).detach()
    optimizer = torch.optim.SGD(plain.parameters(), 0.5)
    step = msc.train_step(own, loss_of, torch.optim.SGD(own.parameters(), 0.5), batch_dims={"x": -1, "y": -1})
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(plain(x), target)
        loss.backward()
        optimizer.step()
        told = step(x, target)
        assert abs(told - loss.item()) < 1e-5 * (1 + abs(loss.item())), f"{name}: a loss of {told} for {loss.item()}"
    step.close()
    for (n, p), q in zip(own.named_parameters(), plain.parameters()):
        off = (p - q).abs().max().item()
        assert off < 1e-5, f"{name}: {n} is off by {off}"


def check_long():
    """1,000 steps are one op of the program, and PyTorch's own ways are back behind it."""
    net = nn.LSTM(8, 8, batch_first=True)
    step = torch.ops.aten.lstm.input.py_kernels.copy()
    begin = time.process_time()
    program, _ = capture(net, (torch.randn(2, 1000, 8),), {}, lambda y, t: loss_of(y[0], t),
                         {"y": torch.randn(2, 1000, 8)}, None, trains=True)
    took = time.process_time() - begin
    calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert calls.count("aten.lstm.input") == 1 and len(calls) < 20, calls
    assert torch.ops.aten.lstm.input.py_kernels == step, "another LSTM stays behind"
    assert took < 5, f"an LSTM of 1,000 steps was traced in {took:.1f} s of one core"


def check_drops():
    """Between layers numbers are dropped in training, behind the last none are."""
    def losses(layers):
        torch.manual_seed(0)
        net = nn.LSTM(WIDTH, 32, num_layers=layers, dropout=0.5)
        x, y = torch.randn(STEPS, BATCH, WIDTH), torch.randn(STEPS, BATCH, 32)
        step = msc.train_step(net, lambda out, y: loss_of(out[0], y), torch.optim.SGD(net.parameters(), 0.0))
        told = [float(step(x, y)) for _ in range(4)]
        step.close()
        return told

    two, one = losses(2), losses(1)
    assert len(set(two)) == len(two), f"nothing is dropped between two layers: {two}"
    assert len(set(one)) == 1, f"behind the last layer numbers are dropped: {one}"


def check_ranks():
    """Each of two ranks has a part of the samples in all of many steps, and the sums of one rank."""
    def trained(ranks):
        torch.manual_seed(0)
        net = nn.Sequential()
        net.layer, net.head = nn.LSTM(8, 16, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(32, 4)
        net.forward = lambda x: net.head(net.layer(x)[0])
        x, y = torch.randn(8, 24, 8), torch.randn(8, 24, 4)
        keys = {"parallel_mode": "data_parallel", "gradients_mean": True} if ranks > 1 else {}
        step = msc.train_step(net, loss_of, torch.optim.SGD(net.parameters(), 0.5), ranks=ranks, **keys)
        told = [float(step(x, y)) for _ in range(3)]
        step.close()
        return told, [p.detach().clone() for p in net.parameters()]

    (one, alone), (two, shared) = trained(1), trained(2)
    assert one == two and all(map(torch.equal, alone, shared)), f"other bits on two ranks: {two}, not {one}"


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for i, (name, make) in enumerate(KINDS.items()):
        check(name, make(), i % 2 == 0)
    check_long()
    check_drops()
    check_ranks()
    print(f"{len(KINDS)} recurrent layers are right")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
