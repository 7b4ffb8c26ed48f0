"""What tests of msc.train_step share: loops that run on PyTorch and on msc, and must end with the same numbers."""

import warnings

import torch
from torch import nn

import msc

cross_entropy = nn.functional.cross_entropy


USES = []


def use(make, optimizer=lambda m: torch.optim.AdamW(m.parameters(), 1e-2), ranks=(1, 2), loss=cross_entropy):
    def register(function):
        USES.append((function, make, optimizer, ranks, loss))
        return function

    return register


class Eager:
    """What msc.train_step promises, by PyTorch."""

    def __init__(self, module, loss, optimizer):
        self.module, self.loss, self.optimizer = module, loss, optimizer

    def __call__(self, *inputs):
        self.optimizer.zero_grad()
        loss = self.loss(self.module(*inputs[:-1]), inputs[-1])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def sync(self):
        pass

    close = sync


def state_of(module, optimizer):
    found = [t.detach().clone() for t in module.state_dict().values()]
    for values in optimizer.state_dict()["state"].values():
        found += [torch.as_tensor(values[k]).clone() for k in sorted(values)]
    return found


def numbers(told):
    for t in told:
        if isinstance(t, (list, tuple)):
            yield from numbers(t)
        else:
            yield torch.as_tensor(t).detach().double()


def check(function, make, optimizer_of, ranks, loss):
    told = []
    for n in (0, *ranks):
        torch.manual_seed(0)
        module = make()
        optimizer = optimizer_of(module)
        torch.manual_seed(1)
        step = msc.train_step(module, loss, optimizer, ranks=n) if n else Eager(module, loss, optimizer)
        values = list(numbers(function(step, module, optimizer)))
        step.close()
        told.append(values + list(numbers(state_of(module, optimizer))))
    tolerance = 2e-2 if next(module.parameters()).dtype == torch.bfloat16 else 2e-5
    for n, got in zip(ranks, told[1:]):
        what = f"{function.__name__} on {n}"
        assert len(got) == len(told[0]), f"{what}: {len(got)} tensors, not {len(told[0])}"
        for i, (a, b) in enumerate(zip(got, told[0])):
            off = (a - b).abs().max().item() if a.numel() else 0
            assert a.shape == b.shape and off <= tolerance, f"{what}: value {i} is off by {off}: {a}, not {b}"


def data(b=6, dtype=torch.float32):
    return torch.randn(b, 8, dtype=dtype), torch.randint(0, 4, (b,))


def perceptron():
    # no bias before the norm: its gradient is rounding alone, which Adam would make steps of
    return nn.Sequential(nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4))


def says(act, kind, *texts):
    try:
        act()
    except kind as e:
        assert all(t in str(e) for t in texts), f"{texts} are not in: {e}"
    else:
        raise AssertionError(f"nothing says: {texts}")


def run(wanted, *acts):
    """Checks all uses and calls all acts, or those that `wanted` names."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for case in USES:
        if not wanted or case[0].__name__ in wanted:
            check(*case)
    for act in acts:
        if not wanted or act.__name__ in wanted:
            act()
