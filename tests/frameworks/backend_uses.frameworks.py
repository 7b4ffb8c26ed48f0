#!/usr/bin/env python3
"""torch.compile(backend="msc") as people use it: results that alias inputs and each other, strides, writes in place,
modules that change, several sizes, element types, random numbers, errors, threads.  Each use is run by eager PyTorch
and through msc, and must give the same tensors: values, shapes, types, strides, and which of them share memory."""

import contextlib
import copy
import os
import sys
import threading
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from msc.pytorch.backend import Fallback  # noqa: E402

USES = []  # (make: -> a function or module, use: (called, made) -> tensors, what a warning says)


def use(make, says=None):
    def register(function):
        USES.append((function.__name__, make, function, says))
        return function

    return register


def described(tensors):
    """What must agree exactly; which tensors share memory: the number of the first that lies there."""
    first = {}
    where = [first.setdefault(t.untyped_storage().data_ptr(), i) for i, t in enumerate(tensors)]
    return [(tuple(t.shape), t.dtype, t.stride(), t.requires_grad, i) for t, i in zip(tensors, where)]


def differs(a, b):
    """How far two tensors are apart, in what their type allows: more than 1 is too far."""
    if not a.is_floating_point():
        return 0 if torch.equal(a, b) else 2
    a, b, eps = a.detach().double(), b.detach().double(), torch.finfo(a.dtype).eps
    same = (a == b) | (a.isnan() & b.isnan())
    off = torch.where(same, 0.0, (a - b).abs().nan_to_num(torch.inf))
    scale = a.nan_to_num(0, 0, 0).abs().max().item() if a.numel() else 0
    return off.max().item() / (100 * eps * max(scale, 1)) if a.numel() else 0


def run(make, function, compiled):
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = make()
    torch.manual_seed(1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            told = function(torch.compile(made, backend="msc") if compiled else made, made)
        except Exception as e:
            told = e
    return told, [str(w.message) for w in found if issubclass(w.category, Fallback)]


def check(name, make, function, says):
    (wanted, _), (got, warned) = run(make, function, False), run(make, function, True)
    if says:
        assert warned and says in warned[0], f"{name}: '{says}' is not in {warned}"
    else:
        assert not warned, f"{name}: {warned[0]}"
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        assert type(wanted) is type(got), f"{name}: {got!r}, not {wanted!r}"
        assert not isinstance(wanted, AssertionError), f"{name}: {wanted}"
        return
    wanted, got = list(wanted), list(got)
    assert described(got) == described(wanted), f"{name}:\n{described(got)}, not\n{described(wanted)}"
    for i, (a, b) in enumerate(zip(wanted, got)):
        assert differs(a, b) <= 1, f"{name}: result {i} is {differs(a, b)} times as far off as allowed"


def grads(module):
    return [p.grad for p in module.parameters() if p.grad is not None]


def learned(called, made, *inputs):
    """The output, and gradients of its sum of squares."""
    y = called(*inputs)
    y.float().pow(2).mean().backward()
    return [y, *grads(made), *(x.grad for x in inputs if x.grad is not None)]


# ---- which memory results lie in ----


@use(lambda: lambda x: (x, x.t(), x[1:], x * 2))
def views_of_inputs(called, _):
    plain, trained = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
    return [plain, *called(plain), trained, *called(trained)]


@use(lambda: lambda x: (*(x > 0).max(1), *(x > 0).min(0)))
def extreme_booleans(called, _):
    return called(torch.tensor([[-1.0, 2.0, 3.0], [-1.0, -1.0, -2.0], [1.0, 1.0, 4.0]]))


@use(lambda: lambda x, dim: (*x.cummax(dim), *x.cummin(dim)))
def running_extremes(called, _):
    x = torch.tensor([[3.0, 1.0, 3.0, 7.0, 7.0, 2.0, 9.0], [0.0, -1.0, torch.nan, 5.0, -2.0, -2.0, 1.0]])
    trained = torch.randn(3, 5, 2, requires_grad=True)
    results = called(trained, 1)
    (results[0].sin() + results[2].cos()).sum().backward()
    with torch.no_grad():
        return [*called(x, 1), *called(x, 0), *called((x.nan_to_num() * 2).int(), -1), *results, trained.grad]


def several_views(x):
    y = x * 2
    return y, y.view(-1), y.t(), y, y[1].expand(5, 4), (x + 1).view(torch.int32)


@use(lambda: several_views)
def views_of_results(called, _):
    with torch.no_grad():
        results = called(torch.randn(3, 4))
        results[1].zero_()
    return results


@use(lambda: several_views)
def gradients_through_views(called, _):
    x = torch.randn(3, 4, requires_grad=True)
    a, b, c, *_ = called(x)
    (a.sum() + b.pow(2).sum() + c.exp().sum()).backward()
    return [a, b, c, x.grad]


@use(lambda: lambda x: ((x * 2).t(), x.cos(), torch.empty(0, 3) + x.sum(), x.mean(0, keepdim=True).expand(6, -1)))
def strides(called, _):
    return [*called(torch.randn(3, 4)), *called(torch.randn(4, 3).t()), *called(torch.randn(9, 8)[::3, ::2])]


@use(lambda: nn.Conv2d(3, 4, 3))
def channels_last(called, made):
    return learned(called, made, torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))


@use(lambda: lambda x: (torch.ones(3) * 2, x, [None, {"a": x + 1}], torch.arange(4)))
def constants_and_structures(called, _):
    a, b, (nothing, named), c = called(torch.zeros(3))
    a += 1  # is the caller's own
    assert nothing is None
    return [a, b, named["a"], c, called(torch.zeros(3))[0]]


# ---- writes in place ----


def write(x, y):
    x[1:] = y
    x[0].add_(1)
    return x.sum()


@use(lambda: write)
def writes_into_inputs(called, _):
    x, whole, both = torch.randn(3, 4), torch.randn(6, 8), torch.randn(3)
    return [called(x, torch.ones(2, 4)), x, called(whole[::2, 1:5], torch.ones(2, 4)), whole, called(both, both[1:])]


def shift(x, y):
    x.add_(1)
    return x + y


@use(lambda: shift)
def writes_into_inputs_that_overlap(called, _):
    x, y = torch.randn(8), torch.randn(8)
    return [called(x[:5], x[3:]), x, called(y, y), y]


def put(x, i, v):
    y = x.clone()
    y[i] = v
    y.index_add_(0, i, v)
    return y


@use(lambda: put)
def writes_by_index(called, _):
    return [called(torch.randn(5, 3), torch.tensor([0, 2]), torch.randn(2, 3))]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.mean.add_(x.detach().mean(0))
        self.last = self.last * 0.5 + x.detach().mean(0)
        self.calls += 1
        return self.linear(x) + self.mean + self.last


@use(Counting)
def buffers(called, made):
    for _ in range(3):
        told = learned(called, made, torch.randn(2, 3))
    return [*told, made.mean, made.last, made.calls]


# ---- modules that change ----


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4 * 36, 5)
    )


@use(lambda: convolutions())
def train_and_eval(called, made):
    x, told = torch.randn(2, 3, 8, 8), []
    made[4].p = 0.0
    for mode in (True, False, True):
        made.train(mode)
        told += learned(called, made, x)[:1]
    with torch.no_grad():
        told.append(called(x))
    return [*told, *grads(made), *made.state_dict().values()]


def perceptron():
    return nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 4))


@use(perceptron)
def frozen_parameters(called, made):
    made[0].weight.requires_grad_(False)
    first = [t.clone() for t in learned(called, made, torch.randn(2, 8))]
    made.zero_grad()
    made[0].weight.requires_grad_(True)
    made[3].requires_grad_(False)
    second = learned(called, made, torch.randn(2, 8))
    assert made[3].weight.grad is None
    return first + second


@use(perceptron)
def parameters_replaced(called, made):
    x = torch.randn(2, 8)
    told = [called(x)]
    made[0].weight = nn.Parameter(torch.randn(6, 8))
    told.append(called(x))
    made[0].weight.data = torch.ones(6, 8)
    told.append(called(x))
    made.load_state_dict({k: 2 * v for k, v in made.state_dict().items()})
    told.append(called(x))
    if called is not made:
        assert [k.replace("_orig_mod.", "") for k in called.state_dict()] == list(made.state_dict())
    return told


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(10, 6), nn.Linear(6, 10, bias=False)
        self.head.weight = self.table.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.table(x))


@use(Tied)
def tied_and_unused(called, made):
    return learned(called, made, torch.randint(0, 10, (4, 3)))


@use(Tied)
def copies(called, made):
    other = copy.deepcopy(made)
    told = learned(other if called is made else torch.compile(other, backend="msc"), other, torch.arange(6))
    assert made.table.weight.grad is None and other.table.weight is other.head.weight
    return told


@use(perceptron)
def two_models(called, made):
    torch.manual_seed(3)
    second = nn.Linear(4, 4)
    other = second if called is made else torch.compile(second, backend="msc")
    x = torch.randn(2, 8)
    a, b = other(called(x)), other(called(2 * x))
    (a.sum() + b.pow(2).sum()).backward()
    return [a, b, *grads(made), *grads(second)]


@use(perceptron)
def hooks(called, made):
    made[0].register_forward_hook(lambda module, inputs, output: output * 2)
    made[0].weight.register_hook(lambda gradient: gradient * 3)
    return learned(called, made, torch.randn(2, 8))


# ---- gradients ----


@use(perceptron)
def gradients_add_up(called, made):
    a, b = called(torch.randn(5, 8)), called(torch.randn(5, 8))
    a.sum().backward(retain_graph=True)
    a.pow(2).sum().backward()
    b.sum().backward()
    return [a, b, *grads(made)]


@use(perceptron)
def backward_once_only(called, made):
    loss = called(torch.randn(5, 8)).sum()
    loss.backward()
    loss.backward()


@use(perceptron)
def gradients_asked_for(called, made):
    x = torch.randn(5, 8, requires_grad=True)
    return torch.autograd.grad(called(x).sum(), [x, made[0].weight])


@use(lambda: lambda x: (x * 2, x.exp(), x.exp().detach()))
def some_results_only(called, _):
    x = torch.randn(5, requires_grad=True)
    a, b, c = called(x)
    b.sum().backward()
    return [a, b, c, x.grad]


def stopped(x):
    with torch.no_grad():
        y = x * 2
    return y + x.detach() * 3 + x * x


@use(lambda: stopped)
def no_grad_inside(called, _):
    x = torch.randn(5, requires_grad=True)
    return learned(called, nn.Module(), x)


@use(perceptron)
def no_grad_outside(called, made):
    x = torch.randn(2, 8)
    with torch.no_grad():
        told = [called(x)]
    told += learned(called, made, x)
    with torch.inference_mode():
        return told + [called(x).clone()]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 5


@use(lambda: lambda x: Twice.apply(x) + 1)
def functions_with_gradients(called, _):
    return learned(called, nn.Module(), torch.randn(3, requires_grad=True))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.second(checkpoint(lambda v: self.first(v).tanh().exp(), x, use_reentrant=False))


@use(Checkpointed)
def computed_again(called, made):
    return learned(called, made, torch.randn(2, 8))


@use(perceptron)
def closures(called, made):
    optimizer, x = torch.optim.LBFGS(made.parameters(), lr=0.1), torch.randn(5, 8)

    def loss():
        optimizer.zero_grad()
        value = called(x).pow(2).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return [loss()]


@use(perceptron)
def optimizers(called, made):
    """Steps of optimizers, and a bound of the gradients' norm, compiled as functions of their own."""
    compiled = (lambda f: f) if called is made else (lambda f: torch.compile(f, backend="msc"))
    told = []
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        step = compiled(kind(made.parameters(), 0.01).step)
        bound = compiled(lambda: nn.utils.clip_grad_norm_(made.parameters(), 0.1))
        for _ in range(2):
            made.zero_grad()
            called(torch.randn(5, 8)).pow(2).sum().backward()
            told.append(bound())
            step()
    return told + [p.detach().clone() for p in made.parameters()]


def norms(x, gamma, beta):
    norm = nn.functional.layer_norm
    return [
        norm(x, (4, 8), gamma, beta),
        norm(x, (8,)),
        norm(x, (4, 8), gamma),
        x.softmax(1) * gamma,
        x.log_softmax(-1) * beta,
        x.tanh() * gamma,
        x.sigmoid() * beta,
    ]


@use(lambda: norms)
def gradients_of_norms(called, _):
    inputs = [torch.randn(s, requires_grad=True) for s in ((3, 4, 8), (4, 8), (4, 8))]
    loss = sum((y * torch.linspace(-1, 2, y.numel()).reshape(y.shape)).sum() for y in called(*inputs))
    return [loss, *torch.autograd.grad(loss, inputs)]


def attention(q, k, v, **words):
    return nn.functional.scaled_dot_product_attention(q.sin(), k, v, enable_gqa=q.shape[1] != k.shape[1], **words)


@use(lambda: attention)
def attentions(called, _):
    """By blocks of scores and, with few positions, by products; a mask that hides all from a position."""
    told = []
    for positions, keys, groups in ((160, 160, 4), (128, 200, 2), (9, 9, 4)):
        seen = torch.rand(2, 1, positions, keys) > 0.3
        seen[1, :, 3] = False
        bias = torch.randn(positions, keys)
        causal = {"is_causal": True} if positions == keys else {"scale": 0.4}
        for words in (causal, {"attn_mask": seen}, {"attn_mask": bias}):
            q = torch.randn(2, 4, positions, 16, requires_grad=True)
            k, v = (torch.randn(2, groups, keys, 16, requires_grad=True) for _ in range(2))
            y = called(q, k, v, **words)
            y.pow(2).sum().backward()
            told += [y, q.grad, k.grad, v.grad]
    return told


class Joined(nn.Module):
    """Attention whose queries, keys and values are parts of one product, as in GPT-2."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.view(2, 130, 4, 8).transpose(1, 2) for t in self.qkv(x).split(32, 2))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@use(Joined)
def attention_to_parts(called, made):
    return learned(called, made, torch.randn(2, 130, 32))


@use(lambda: lambda x: (x * 2, x.exp().sum(0)))
def places_in_memory(called, _):
    """Inputs that are slices, in another order, stretched, at the end of their memory, or with gaps."""
    whole = torch.randn(4, 6, 8)
    inputs = (
        whole[1:3],
        whole[:, 2:5],
        whole[:, 2:5, 1:4].transpose(0, 2),
        whole.permute(2, 0, 1)[3:],
        whole[..., ::2],
        whole[:1].expand(3, 6, 8),
        whole.as_strided((2, 3, 4), (48, 8, 1), 100),
        whole.flatten()[5:].as_strided((3, 4), (50, 1)),
        whole[2, 3:4, 5],
        whole[:, :1],
    )
    return [y for x in inputs for y in called(x)]


@use(lambda: nn.Linear(4, 6))
def gradients_with_strides(called, made):
    """What comes back lies in memory in another way each time."""
    x, told = torch.randn(3, 4, requires_grad=True), []
    for given in (torch.randn(3, 6), torch.randn(6, 3).t(), torch.randn(3, 12)[:, 3:9], torch.ones(()).expand(3, 6)):
        told += torch.autograd.grad(called(x), [x, *made.parameters()], given)
    return told


def gelus(x):
    return [nn.functional.gelu(x * 9), nn.functional.gelu(x * 9, approximate="tanh")]


@use(lambda: gelus)
def gradients_of_gelus(called, _):
    inputs = [torch.linspace(-1, 1, 301).repeat(2).to(t).requires_grad_() for t in (torch.float32, torch.float64)]
    losses = [sum((y * torch.linspace(-1, 2, y.numel())).sum() for y in called(x)) for x in inputs]
    return [*losses, *(torch.autograd.grad(loss, x)[0] for loss, x in zip(losses, inputs))]


@use(lambda: nn.Linear(4, 4))
def results_written_to(called, made):
    """As ReLU in place behind a compiled part does."""
    x = torch.randn(2, 4)
    y, turned = called(x).add_(1).relu_(), called(x).t()
    y.sum().backward()
    with torch.no_grad():
        z = called(x).zero_()
        return [y, turned, z, called(x), *grads(made)]


# ---- sizes, types, values ----


@use(Tied)
def sizes(called, made):
    return [t.clone() for b in (5, 3, 1, 2, 0) for s in (4, 6) for t in learned(called, made, torch.ones(b, s).long())]


@use(Tied)
def sizes_that_stay_open(called, made):
    if called is not made:
        called = torch.compile(made, backend="msc", dynamic=True)
    return [t.clone() for b in (5, 3, 1) for s in (4, 6) for t in learned(called, made, torch.ones(b, s).long())]


def strided(x):
    turned = x.transpose(0, 1) * 2  # elements that lie in another order than they count in
    repeated = x.expand(2, 3, 8)[0]
    return turned.as_strided((4, 3, 2), (6, 2, 1)), x[1:, 1:].as_strided((2, 2),
        (4, 2)), repeated.as_strided((4,), (5,))


@use(lambda: strided)
def any_strides(called, _):
    x = torch.randn(3, 8, requires_grad=True)
    results = called(x)
    sum((r * torch.arange(r.numel()).reshape(r.shape)).sum() for r in results).backward()
    return [*results, x.grad]


def grouped(x, y, w, ends):
    """Experts, the last of which sees nothing, and all other forms of these products."""
    up = torch._grouped_mm(x, w, offs=ends)
    down = torch._grouped_mm(up.relu(), w.transpose(1, 2), offs=ends)
    return down, torch._grouped_mm(w.transpose(1, 2), y, offs=ends), torch._grouped_mm(w, w.transpose(1, 2))


def products_of_groups(called, ends):
    x, y, w = torch.randn(ends[-1], 8), torch.randn(8, ends[-1]), torch.randn(len(ends), 8, 16)
    for t in (x, y, w):
        t.requires_grad_()
    results = called(x, y, w, torch.tensor(ends, dtype=torch.int32))
    sum(r.pow(2).sum() for r in results).backward()
    return [*results, x.grad, y.grad, w.grad]


@use(lambda: grouped)
def groups_of_rows(called, _):
    return products_of_groups(called, [3, 3, 12, 12])


@use(lambda: grouped)
def groups_of_many_rows(called, _):
    """Each group's rows in tiles: none, one, a whole tile, one more, very many."""
    return products_of_groups(called, [0, 1, 17, 34, 35, 180, 180, 199, 215, 230, 244, 256])


def types():
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))


@use(lambda: types().double())
def type_f64(called, made):
    return learned(called, made, torch.randn(5, 8, dtype=torch.float64, requires_grad=True))


@use(lambda: types().bfloat16())
def type_bf16(called, made):
    return learned(called, made, torch.randn(5, 8, dtype=torch.bfloat16, requires_grad=True))


@use(types)
def autocast(called, made):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = called(torch.randn(5, 8))
    return [y]


@use(lambda: lambda x: (x.argmax(-1), x > 0, (x * 3).long(), x.int(), x.topk(2)[1], x.to(torch.uint8) // 2))
def results_without_gradients(called, _):
    return called(torch.rand(3, 5))


@use(lambda: lambda x, factor: x * factor)
def numbers(called, _):
    x = torch.randn(5)
    return [called(x, f) for f in (2, 3, 0.5, 0.7, True, torch.tensor(2.0), torch.tensor(3))]


def extremes(x):
    return x / 0, (x - x) / 0, x.log(), torch.where(x > 0, x, torch.inf), x.clamp(min=0), torch.relu(x * torch.nan)


@use(lambda: extremes)
def infinite_and_no_numbers(called, _):
    return called(torch.tensor([1.0, -1.0, 0.0]))


@use(lambda: lambda x, y: (torch.cat([x, y]), x.sum(), x * 2))
def nothing_given(called, _):
    return called(torch.zeros(0, 3), torch.randn(2, 3))


# ---- random numbers ----


@use(lambda: lambda x: (x + torch.rand(3), torch.randn_like(x), torch.randint(0, 9, (4,)), torch.bernoulli(x + 2, 0.3)))
def drawn_as_by_pytorch(called, _):
    torch.manual_seed(5)
    first = called(torch.zeros(3))
    second = called(torch.zeros(3))
    torch.manual_seed(5)
    return [*first, *second, *called(torch.zeros(3))]


@use(lambda: nn.Sequential(nn.Linear(8, 40), nn.Dropout(0.3), nn.Linear(40, 4), nn.Dropout(1.0)))
def dropout(called, made):
    made[3].p = 0.0
    told = learned(called, made, torch.randn(6, 8))
    made.eval()
    return told + [called(torch.randn(6, 8))]


# ---- what goes wrong ----


class Raising(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x, bad=False):
        y = self.table(x)
        if bad:
            raise ValueError("the user's own")
        return y.tanh()


@use(Raising)
def errors_between_calls(called, made):
    told = learned(called, made, torch.arange(3))
    for bad in (lambda: called(torch.arange(3), bad=True), lambda: called(torch.arange(7))):
        try:
            bad()
        except (ValueError, IndexError):
            pass
        except RuntimeError as e:
            assert "backend_uses.frameworks.py" in str(e) and "an index is out of range" in str(e), e
        else:
            raise AssertionError("nothing is raised")
    return told + learned(called, made, torch.arange(3))


@use(lambda: lambda x: torch.fft.fft(x).real + 1, says="fft")
def left_to_pytorch(called, _):
    return [called(torch.randn(8))]


def branch(x):
    y = x * 2
    return y + 1 if y.sum().item() > 0 else y - 1


@use(lambda: branch)
def graphs_that_break(called, _):
    return [called(torch.ones(3)), called(-torch.ones(3))]


@use(lambda: perceptron().requires_grad_(False))
def threads(called, _):
    x, told = torch.randn(4, 8), [None] * 4
    called(x)

    def work(i):
        for _ in range(20):
            told[i] = called(x * (i + 1))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return told


@use(perceptron)
def threads_of_several_sizes(called, made):
    """Threads that train at once: graphs of new sizes and backwards are made while others are traced."""
    inputs, told = [torch.randn(5 + i, 8) for i in range(4)], [None] * 4

    def work(i):
        for _ in range(5):
            told[i] = torch.autograd.grad(called(inputs[i]).pow(2).sum(), list(made.parameters()))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [t for own in told for t in own]


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    with contextlib.redirect_stderr(sys.stdout):
        for name, make, function, says in USES:
            if not wanted or name in wanted:
                check(name, make, function, says)


main()
