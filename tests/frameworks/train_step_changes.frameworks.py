#!/usr/bin/env python3
"""msc.train_step between whose steps everything is changed that a loop of PyTorch may change: attributes, lists,
objects and tensors that the forward or the loss reads, hooks, groups, state, element types.  What follows is as by
eager PyTorch; gradients and hooks that a plan does not have are refused."""

import collections
import copy
import os
import sys
import types
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy")
import torch  # noqa: E402
from torch import nn  # noqa: E402

import msc  # noqa: E402
from eager_steps import Eager, cross_entropy, data, run, says, use  # noqa: E402


def layers():
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))


def sgd(module):
    return torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)


# ---- what the forward reads ----


class Settings(nn.Module):
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.layer, self.config = nn.Linear(8, 4), types.SimpleNamespace(factor=1.0)
        self.register_buffer("scale", torch.ones(4))
        self.constant, self.by_name, self.listed = torch.ones(4), {"factor": 1.0}, [1.0, [1.0]]
        self.seen, self.history, self.unread = None, [], 0

    def forward(self, x):
        y = self.layer(x) * self.scale * self.constant * self.by_name["factor"] * self.listed[1][0]
        return y * self.config.factor * self.factor


def set_scale(module):
    module.scale = torch.full((4,), 1.3)


def set_constant(module):
    module.constant = torch.full((4,), 1.3)


def set_factor(module):
    module.factor = 0.8


def set_forward(module):
    own = module.forward
    module.forward = lambda x: 0.9 * own(x)


CHANGES = (
    set_scale,
    set_constant,
    set_factor,
    set_forward,
    lambda m: m.scale.fill_(0.9),
    lambda m: m.constant.fill_(0.9),
    lambda m: m.by_name.update(factor=1.1),
    lambda m: m.listed[1].__setitem__(0, 0.9),
    lambda m: setattr(m.config, "factor", 1.2),
    lambda m: m.register_forward_hook(lambda _, x, y: 0.9 * y),
    lambda m: m.layer.register_forward_pre_hook(lambda _, x: (0.9 * x[0],)),
)


@use(Settings, sgd, ranks=(1,))
def settings(step, module, optimizer):
    told = [step(*data())]
    for change in CHANGES:
        change(module)
        told.append(step(*data()))
    return told


def unread_settings():
    """What the forward does not read may change: there is one plan."""
    module = Settings()
    with msc.train_step(module, cross_entropy, sgd(module)) as step:
        for i in range(4):
            module.history.append(step(*data()))
            module.unread, module.seen = i, torch.ones(i + 1)
            module.constant = torch.ones(4)  # anew, with what it held
        assert step._compiled == 1, f"{step._compiled} plans"


@use(lambda: nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4)), sgd, ranks=(1,))
def parts_of_equal_settings(step, module, optimizer):
    told = [step(*data())]
    module[1] = nn.Sigmoid()
    told.append(step(*data()))
    module[1] = nn.Tanh()
    return told + [step(*data())]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, factor):
        return self.layer(x) * factor


@use(Scaled, sgd, ranks=(1,))
def numbers_as_inputs(step, module, optimizer):
    (x, y), told = data(), []
    for factor in (1.0, 3.0, 1.0, torch.tensor(2.0), torch.tensor(0.5)):
        told.append(step(x, factor, y))
    return told


# ---- what the loss reads ----

criterion = nn.CrossEntropyLoss(weight=torch.ones(4))
ANNEALED = 1.0


@use(layers, sgd, ranks=(1,), loss=criterion)
def a_criterion(step, module, optimizer):
    criterion.label_smoothing, criterion.weight = 0.0, torch.ones(4)
    told = [step(*data())]
    criterion.label_smoothing = 0.3
    told.append(step(*data()))
    criterion.weight[1] = 5.0
    told.append(step(*data()))
    criterion.weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return told + [step(*data())]


def annealed():
    factor = 1.0

    def loss(output, label):
        return factor * ANNEALED * cross_entropy(output, label)

    def anneal(value):
        nonlocal factor
        factor = value

    return loss, anneal


annealed_loss, anneal = annealed()


@use(layers, sgd, ranks=(1,), loss=annealed_loss)
def variables_of_a_loss(step, module, optimizer):
    global ANNEALED
    ANNEALED = 1.0
    anneal(1.0)
    told = [step(*data())]
    ANNEALED = 0.5
    told.append(step(*data()))
    anneal(3.0)
    return told + [step(*data())]


# ---- groups, state, element types ----


def of_two_groups(module):
    first, second = module[0].parameters(), [module[2].weight]
    return torch.optim.SGD([{"params": list(first)}, {"params": second, "lr": 0.3}], 0.1, momentum=0.9)


@use(layers, of_two_groups, ranks=(1,))
def members_of_groups(step, module, optimizer):
    told = [step(*data())]
    a, b = optimizer.param_groups
    a["params"], b["params"] = b["params"], a["params"]
    told.append(step(*data()))
    a["params"].append(module[2].bias)
    return told + [step(*data()), step(*data())]


@use(layers, sgd)
@use(layers, lambda m: torch.optim.AdamW(m.parameters(), 1e-2))
def state_that_is_cleared(step, module, optimizer):
    told = [step(*data()), step(*data())]
    optimizer.state = collections.defaultdict(dict)
    told += [step(*data()), step(*data())]
    optimizer.state.clear()
    return told + [step(*data()), step(*data())]


@use(layers, sgd)
def state_that_is_written(step, module, optimizer):
    told = [step(*data()), step(*data())]
    step.sync()
    for p in module.parameters():
        optimizer.state[p]["momentum_buffer"].zero_()
    told += [step(*data()), step(*data())]
    step.sync()
    for p in module.parameters():
        optimizer.state[p]["momentum_buffer"] = torch.ones_like(p)
    return told + [step(*data()), step(*data())]


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(self.table(x).mean(1))


@use(Words, sgd)
def other_element_types(step, module, optimizer):
    x, y = torch.randint(0, 10, (6, 3)), data()[1]
    told = [step(x, y)]
    step.sync()
    module.double()
    optimizer.state.clear()
    told += [step(x, y), step(x, y)]
    assert module.layer.weight.dtype == torch.float64
    return told


def autocast():
    """A cast that surrounds a step is part of its plan."""
    torch.manual_seed(0)
    module = layers()
    other = copy.deepcopy(module)
    with msc.train_step(module, cross_entropy, torch.optim.SGD(module.parameters(), 0.0)) as step:
        x, y = data()
        exact = step(x, y)
        with torch.autocast("cpu", torch.bfloat16):
            ours, theirs = step(x, y), cross_entropy(other(x), y).item()
        assert ours != exact and abs(ours - theirs) < 4e-3, (ours, theirs, exact)
        assert step(x, y) == exact and step._compiled == 2


@use(layers, lambda m: torch.optim.AdamW(m.parameters(), 1e-2))
def momentum_in_cycles(step, module, optimizer):
    """A plan of its own for the first betas, and one that reads them for all others."""
    scheduler, told = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=8), []
    for _ in range(6):
        told.append(step(*data()))
        scheduler.step()
    assert isinstance(step, Eager) or step._compiled == 2, step._compiled
    return told


def two_groups(module):
    first, second = list(module[0].parameters()), list(module[2].parameters())
    return torch.optim.SGD([{"params": first}, {"params": second, "weight_decay": 0.1}], 0.01, momentum=0.9)


@use(layers, two_groups)
def numbers_of_groups(step, module, optimizer):
    told = [step(*data())]
    first, second = optimizer.param_groups
    for change in ({"momentum": 0.5}, {"weight_decay": 0.05}, {"momentum": 0.0}, {"momentum": 0.8, "nesterov": True}):
        second.update(change)
        told.append(step(*data()))
        first.update(weight_decay=first["weight_decay"] + 0.01)
        told.append(step(*data()))
    assert isinstance(step, Eager) or step._compiled == 4, step._compiled  # the kind changes twice
    return told


@use(layers, lambda m: torch.optim.RMSprop(m.parameters(), 1e-3, momentum=0.5), ranks=(1,))
def numbers_of_rmsprop(step, module, optimizer):
    told = []
    for alpha, eps in ((0.5, 1e-2), (0.4, 1e-2), (0.4, 1e-1), (0.3, 1e-2)):
        optimizer.param_groups[0].update(alpha=alpha, eps=eps)
        told.append(step(*data()))
    return told


class Bags(nn.Module):
    """Sums of rows of a table with sparse gradients."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 4, sparse=True)

    def forward(self, x):
        return self.table(x).sum(1)


@use(Bags, lambda m: torch.optim.SparseAdam(m.parameters(), 0.05))
def numbers_of_rows_looked_up(step, module, optimizer):
    torch.manual_seed(1)
    told = []
    for betas, eps in (((0.9, 0.999), 1e-8), ((0.8, 0.99), 1e-3), ((0.7, 0.95), 1e-3), ((0.7, 0.9), 1e-2)):
        optimizer.param_groups[0].update(betas=betas, eps=eps, lr=optimizer.param_groups[0]["lr"] * 0.9)
        told += [step(torch.randint(0, 40, (8, 3)), torch.randint(0, 4, (8,))) for _ in range(2)]
    assert isinstance(step, Eager) or step._compiled == 2, step._compiled
    return told


# ---- looked at on several ranks, between steps, without sync() ----


@use(layers, sgd)
def parameters_looked_at(step, module, optimizer):
    mean = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    own, told = copy.deepcopy(module), []
    for _ in range(3):
        told.append(step(*data()))
        mean.update_parameters(module)
        with torch.no_grad():
            for p, q in zip(own.parameters(), module.parameters()):
                p.lerp_(q, 0.5)
        told += [module[2].weight.norm(), list(copy.deepcopy(module).parameters())]
        module.apply(lambda m: nn.init.constant_(m.bias, 0.1) if isinstance(m, nn.Linear) else None)
    return told + [list(mean.parameters()), list(own.parameters())]


@use(layers, sgd, ranks=(2,))
def compiled_beside(step, module, optimizer):
    told = [step(*data())]
    with torch.no_grad():
        told.append(torch.compile(module, backend="aot_eager")(torch.ones(2, 8)))
        told.append(torch.export.export(module, (torch.ones(2, 8),)).module()(torch.ones(2, 8)))
    return told + [step(*data()), module(torch.ones(2, 8))]


# ---- what a plan does not have ----


def gradients():
    clip, value = nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_
    uses = {
        "given to linalg_vector_norm": lambda m, _: clip(m.parameters(), 1.0),
        "given to clamp_": lambda m, _: value(m.parameters(), 1.0),
        "given to mul_": lambda m, _: m[0].weight.grad.mul_(2),
        "given to data": lambda m, _: m[0].weight.grad.data,
        "backward() adds to .grad": lambda m, _: m(torch.ones(2, 8)).sum().backward(),
        "not optimizer.step()": lambda _, o: o.step(),
    }
    for ranks in (1, 2):
        module = layers()
        optimizer = sgd(module)
        with msc.train_step(module, cross_entropy, optimizer, ranks=ranks) as step:
            for to_none in (True, False):
                loss = 0.5 * step(*data()) + step(*data()) / 4
                says(loss.backward, msc.Error, "has made the backward and the update already")
                for text, act in uses.items():
                    says(lambda: act(module, optimizer), msc.Error, text)
                optimizer.zero_grad(to_none)
                module.zero_grad(to_none)
            step(*data())
            torch.compile(module, backend="aot_eager")(torch.ones(2, 8))
            optimizer.zero_grad()
            module(torch.ones(2, 8)).sum().backward()
            assert module[0].weight.grad.norm() > 0
            optimizer.zero_grad()
            step(*data())
        assert all(p.grad is None for p in module.parameters())


# ---- modes of parts ----


def norms_and_dropout():
    # no biases before norms: their gradients are rounding alone
    norms = nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 6, bias=False), nn.BatchNorm1d(6)
    return nn.Sequential(*norms, nn.Dropout(0.5), nn.Linear(6, 4))


@use(norms_and_dropout, sgd)
def modes_of_parts(step, module, optimizer):
    """A frozen norm, and dropout that is off, in a module that trains; then the other norm, then none."""
    module[5].eval()
    told = []
    for frozen in ((1,), (4,), (), (1, 4)):
        for i in (1, 4):
            module[i].train(i not in frozen)
            module[i].requires_grad_(i not in frozen)
        told += [step(*data()), step(*data())]
        assert [i for i in (1, 4) if not module[i].training] == list(frozen) and module.training
    assert not module[5].training
    return told


def hooks():
    hangers = {
        "hooks on gradients": (
            lambda m, _: m[0].weight.register_hook(lambda g: 2 * g),
            lambda m, _: m[0].weight.register_post_accumulate_grad_hook(lambda _: None),
            lambda m, _: m[0].register_full_backward_hook(lambda *_: None),
        ),
        "hooks of optimizer.step() are not called": (
            lambda _, o: o.register_step_pre_hook(lambda *_: None),
            lambda _, o: o.register_step_post_hook(lambda *_: None),
        ),
    }
    for text, acts in hangers.items():
        for hang in acts:
            module = layers()
            optimizer = sgd(module)
            with msc.train_step(module, cross_entropy, optimizer) as step:
                step(*data())
                handle = hang(module, optimizer)
                says(lambda: step(*data()), msc.Error, text)
                handle.remove()
                step(*data())


run(sys.argv[1:], unread_settings, autocast, gradients, hooks)
