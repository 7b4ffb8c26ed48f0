#!/usr/bin/env python3
"""torch.compile(module, backend="msc") and msc.train_step: the losses and parameters of eager PyTorch, for inputs of
several sizes and on several ranks; what msc cannot translate PyTorch does, after a warning that names it."""

import copy
import logging
import os
import subprocess
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import msc, need  # noqa: E402

need("torch", "numpy")
import torch  # noqa: E402
from torch import nn  # noqa: E402

import msc as package  # noqa: E402
from msc.pytorch.backend import Fallback  # noqa: E402

CLASSES = 5


def cross_entropy(output, label):
    return nn.functional.cross_entropy(output.reshape(-1, CLASSES), label.reshape(-1))


class Encoder(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(self.layer(self.table(x)))


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(torch.fft.fft(x).real)


def perceptron():
    return nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, CLASSES))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


def labels(*shape):
    return torch.randint(0, CLASSES, shape)


def batches(kind, sizes):
    for b in sizes:
        if kind == "tokens":
            yield torch.randint(0, 50, (b, 7)), labels(b, 7)
        else:
            yield torch.randn(b, *kind), labels(b)


def eager_steps(module, call, optimizer, data):
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def adamw(module):
    return torch.optim.AdamW(module.parameters(), 1e-2)


def sgd(module):
    return torch.optim.SGD(module.parameters(), 1e-2, momentum=0.9)


def near(what, got, wanted, tolerance=1e-5):
    worst = max(abs(a - b) for a, b in zip(got, wanted))
    assert len(got) == len(wanted) and worst <= tolerance, f"{what}: {got}, not {wanted}"


def same_state(what, module, other):
    for (name, a), b in zip(module.state_dict().items(), other.state_dict().values()):
        off = (a.double() - b.double()).abs().max().item()
        assert off <= 1e-5 or name.endswith("num_batches_tracked"), f"{what}: {name} is off by {off}"


def check(name, make, kind, sizes, optimizer_of, ranks=(1,)):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, data = make(), list(batches(kind, sizes))
    eager, compiled = copy.deepcopy(module), copy.deepcopy(module)
    torch.manual_seed(1)  # of dropout
    wanted = eager_steps(eager, eager, optimizer_of(eager), data)
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        got = eager_steps(compiled, torch.compile(compiled, backend="msc"), optimizer_of(compiled), data)
    near(f"{name}, torch.compile", got, wanted)
    same_state(f"{name}, torch.compile", compiled, eager)
    for n in ranks:
        stepped = copy.deepcopy(module)
        with package.train_step(stepped, cross_entropy, optimizer_of(stepped), ranks=n, seed=1) as step:
            near(f"{name}, train_step on {n}", [step(x, y) for x, y in data], wanted)
            assert step.plan.ranks == n
        same_state(f"{name}, train_step on {n}", stepped, eager)


def inference():
    torch.manual_seed(0)
    module = convolutions().eval()
    compiled = torch.compile(module, backend="msc", options={"deterministic": True})
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        for b in (4, 4, 3, 1):
            x = torch.randn(b, 3, 12, 12)
            off = (compiled(x) - module(x)).abs().max().item()
            assert off <= 1e-6, f"inference of {b}: off by {off}"


def kept_for_backward():
    """What the backward can compute again from the rest is not kept for it: x + 1; of gelu, which a product reads, what
    it was made of."""
    torch._dynamo.reset()

    def gated(x):
        return (x * torch.sigmoid(x * 1.7) * (x + 1).tanh()).sum(0)

    x = torch.randn(1000, requires_grad=True)
    y = torch.compile(gated, backend="msc")(x)
    kept = {t.untyped_storage().data_ptr(): t.nbytes for t in y.grad_fn.saved_tensors}
    assert sum(kept.values()) <= 3 * x.nbytes, kept
    (gradient,), (wanted,) = torch.autograd.grad(y, x), torch.autograd.grad(gated(x), x)
    near("gradient of what is computed again", gradient.tolist(), wanted.tolist())

    def widened(x, a, b):
        return nn.functional.gelu(x @ a) @ b

    def normed(x, a, gamma, beta):
        return nn.functional.layer_norm(x, (16,), gamma, beta) @ a

    for function, shapes, num in (
        (widened, ((8, 16), (16, 64), (64, 4)), 8 * 64),
        (normed, ((8, 16), (16, 64), (16,), (16,)), 0),
    ):
        given = [torch.randn(s, requires_grad=True) for s in shapes]
        y = torch.compile(function, backend="msc")(*given)
        kept = {t.untyped_storage().data_ptr(): t.nbytes for t in y.grad_fn.saved_tensors}
        own = {t.untyped_storage().data_ptr() for t in given}
        values = [n for place, n in kept.items() if place not in own]
        assert sum(values) == num * 4, f"kept of a product and what it reads or gives: {values}"
        wanted = torch.autograd.grad(function(*given).sin().mean(), given)
        for found, right in zip(torch.autograd.grad(y.sin().mean(), given), wanted):
            near(f"gradients of {function.__name__}", found.flatten().tolist(), right.flatten().tolist())


def without_inductor():
    """A step compiled by msc does not import PyTorch's own compiler, which takes longer than msc's part, and keeps none
    of the graphs that it was made of."""
    code = """
import gc, sys, torch
x = torch.randn(4, 4, requires_grad=True)
torch.compile(lambda x: (x * 2).tanh().sum(), backend="msc")(x).backward()
of_inductor = "torch._inductor.lowering", "torch._inductor.pattern_matcher", "torch._inductor.scheduler"
print([m for m in of_inductor if m in sys.modules])
gc.collect()
graphs = [o for o in gc.get_objects() if type(o) is torch.fx.Graph]
print([g for g in graphs if any(n.target is torch.ops.aten.tanh.default for n in g.nodes)])
"""
    done = subprocess.run([sys.executable, "-c", "import msc.pytorch\n" + code], capture_output=True, text=True)
    assert done.stdout.split() == ["[]", "[]"], done.stdout + done.stderr[-2000:]


def texts_for_logs():
    """PyTorch writes texts of its graphs for its logs, and only then."""
    log = logging.getLogger("torch._functorch._aot_autograd.graph_compile.__aot_joint_graph")
    written, own = [], torch.fx.GraphModule.print_readable

    def print_readable(module, *words, **named):
        written.append(module)
        return own(module, *words, **named)

    torch.fx.GraphModule.print_readable = print_readable
    try:
        for level in (logging.WARNING, logging.INFO, logging.WARNING):
            log.setLevel(level)
            written.clear()
            torch._dynamo.reset()
            torch.compile(nn.Linear(4, 4), backend="msc")(torch.randn(2, 4)).sum().backward()
            assert bool(written) == (level == logging.INFO), f"{len(written)} texts at level {level}"
    finally:
        torch.fx.GraphModule.print_readable = own


def several_ranks():
    """Graphs that ranks share, in the forward and the backward; keys of whole steps are refused."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, data = convolutions(), list(batches((3, 12, 12), (4, 4)))
    compiled = copy.deepcopy(module)
    shared = torch.compile(compiled, backend="msc", options={"device_num": 2, "parallel_mode": "auto_parallel"})
    wanted = eager_steps(module, module, sgd(module), data)
    near("graphs on two ranks", eager_steps(compiled, shared, sgd(compiled), data), wanted)
    same_state("graphs on two ranks", compiled, module)
    for words, said in (
        ({"options": {"micro_size": 2}}, "micro_size: of whole training steps"),
        ({"options": {"device_num": 2, "parallel_mode": "data_parallel"}}, "of whole training steps"),
        ({"options": {"device_nmu": 2}}, "unknown key 'device_nmu'"),
        ({"mode": "max-autotune"}, "mode='max-autotune' is of PyTorch's own compiler"),
    ):
        torch._dynamo.reset()
        try:
            torch.compile(convolutions(), backend="msc", **words)(data[0][0])
        except torch._dynamo.exc.BackendCompilerFailed as e:
            assert said in str(e), e
        else:
            raise AssertionError(f"nothing says that torch.compile has no {words}")


def fallbacks():
    """PyTorch's numbers, and one warning that says what and where."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, data = Spectrum(), list(batches((16,), (4, 4)))
    compiled = copy.deepcopy(module)
    wanted = eager_steps(module, module, sgd(module), data)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        got = eager_steps(compiled, torch.compile(compiled, backend="msc"), sgd(compiled), data)
    near("fallback of fft", got, wanted)
    texts = [str(w.message) for w in found if issubclass(w.category, Fallback)]
    assert texts and "fft" in texts[0] and os.path.basename(__file__) in texts[0], f"warned {texts}"


def dropout_is_drawn():
    """By train_step: other masks in every step, the same for any number of ranks."""
    torch.manual_seed(0)
    module, (batch,) = Encoder(0.5), batches("tokens", (4,))
    told = {}
    for n in (1, 2):
        own = copy.deepcopy(module)
        optimizer = torch.optim.SGD(own.parameters(), 0.0)
        with package.train_step(own, cross_entropy, optimizer, ranks=n, seed=3) as step:
            told[n] = [step(*batch) for _ in range(3)]
    assert len({round(x, 6) for x in told[1]}) == 3, f"dropout drew alike: {told[1]}"
    near("dropout on 2 ranks", told[2], told[1])


def schedules():
    """Two groups, whose rates a scheduler changes: as eager PyTorch."""
    torch.manual_seed(0)
    module, data = perceptron(), list(batches((20,), (8, 8, 6, 8)))
    told = []
    for own in (copy.deepcopy(module), copy.deepcopy(module)):
        own[1].requires_grad_(False)  # a group that trains nothing, between the others
        groups = [
            {"params": own[0].parameters(), "lr": 0.1},
            {"params": own[1].parameters(), "lr": 0.7},
            {"params": own[3].parameters()},
        ]
        optimizer = torch.optim.SGD(groups, lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        losses = []
        step = package.train_step(own, cross_entropy, optimizer) if told else None
        for x, y in data:
            losses += [step(x, y)] if step else eager_steps(own, own, optimizer, [(x, y)])
            scheduler.step()
        if step:
            step.close()
        told.append((losses, own))
    near("rates of a scheduler", told[1][0], told[0][0])
    same_state("rates of a scheduler", told[1][1], told[0][1])


def refusals():
    for act, said in (
        (lambda: package.train_step(perceptron(), cross_entropy), "needs an optimizer"),
        (lambda: closed(), "this step is closed"),
        (lambda: complex_step(), "parameter turn has elements of complex64"),
    ):
        try:
            act()
        except package.Error as e:
            assert said in str(e), f"'{said}' is not in: {e}"
        else:
            raise AssertionError(f"nothing says: {said}")


def closed():
    module = perceptron()
    step = package.train_step(module, cross_entropy, sgd(module))
    step.close()
    step(torch.randn(4, 20), labels(4))


def complex_step():
    module = Spectrum()
    module.turn = nn.Parameter(torch.randn(16, dtype=torch.complex64))
    module.forward = lambda x: module.head((torch.fft.fft(x) * module.turn).real)
    package.train_step(module, cross_entropy, sgd(module))(torch.randn(4, 16), labels(4))


def main():
    torch.set_num_threads(1)
    check("perceptron", perceptron, (20,), (8, 8, 6, 8), adamw, (1, 2))
    check("convolutions", convolutions, (3, 12, 12), (4, 4, 6), sgd)
    # no Adam: the gradient of the keys' bias is rounding alone, which it would make steps of
    check("encoder", Encoder, "tokens", (4, 4, 3, 4), sgd, (1, 2))
    check("dropout", lambda: Encoder(0.1), "tokens", (4, 4, 3), sgd, ())
    inference()
    kept_for_backward()
    without_inductor()
    texts_for_logs()
    several_ranks()
    fallbacks()
    dropout_is_drawn()
    schedules()
    refusals()


main()
