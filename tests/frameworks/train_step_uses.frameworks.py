#!/usr/bin/env python3
"""msc.train_step as people use it: modules that are looked at, changed and saved between steps, other modes, sizes and
element types, optimizers with groups and state, errors, interrupts.  The losses, parameters, buffers and the
optimizer's state are those of eager PyTorch, on one rank and, where it matters, on two."""

import copy
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch", "numpy")
import torch  # noqa: E402
from torch import nn  # noqa: E402

import msc  # noqa: E402
from eager_steps import Eager, cross_entropy, data, perceptron, run, says, state_of, use  # noqa: E402

# ---- looked at between steps ----


@use(perceptron)
def looked_at(step, module, optimizer):
    told = []
    for _ in range(3):
        told.append(step(*data()))
        told.append(state_of(module, optimizer))
        module.eval()
        told.append(module(torch.ones(2, 8)))
        module.train()
    step.sync()
    told.append(list(module.parameters()))
    return told


@use(perceptron)
def copied_and_saved(step, module, optimizer):
    step(*data())
    step.sync()
    other, saved, kept = copy.deepcopy(module), copy.deepcopy(
        module.state_dict()), copy.deepcopy(optimizer.state_dict())
    told = [step(*data()), step(*data())]
    module.load_state_dict(saved)
    optimizer.load_state_dict(kept)
    told += [step(*data()), other(torch.ones(2, 8))]
    return told


# ---- changed between steps ----


class Bags(nn.Module):
    """Sums of rows of a table with sparse gradients, and a layer that stays as it is."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 6, sparse=True)
        self.layer = nn.Linear(6, 4).requires_grad_(False)

    def forward(self, x):
        return self.layer(self.table(x).sum(1))


@use(Bags, lambda m: torch.optim.SparseAdam([m.table.weight], 0.05))
def rows_looked_up(step, module, optimizer):
    torch.manual_seed(1)
    return [step(torch.randint(0, 40, (8, 3)), torch.randint(0, 4, (8,))) for _ in range(5)]


@use(perceptron)
def written_to(step, module, optimizer):
    told = [step(*data())]
    step.sync()
    with torch.no_grad():
        module[0].weight.mul_(0.5)
        module[1].running_mean.fill_(0.25)
    told.append(step(*data()))
    step.sync()
    module[3].weight.data = torch.ones(4, 6)
    return told + [step(*data())]


@use(perceptron, lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9))
def other_modes(step, module, optimizer):
    told = [step(*data())]
    module.eval()
    told += [step(*data()), step(*data())]
    module[3].weight.requires_grad_(False)
    told.append(step(*data()))
    module.train()
    module[3].weight.requires_grad_(True)
    optimizer.param_groups[0]["weight_decay"] = 0.3
    optimizer.param_groups[0]["lr"] = 0.02
    return told + [step(*data())]


@use(perceptron)
def other_parts(step, module, optimizer):
    told = [step(*data())]
    module[2] = nn.LeakyReLU(0.1)
    told.append(step(*data()))
    module[2].negative_slope = 0.4
    told.append(step(*data()))
    module.append(nn.Tanh())
    told.append(step(*data()))
    optimizer.param_groups[0]["betas"] = (0.7, 0.9)
    return told + [step(*data())]


@use(perceptron)
def inputs_that_are_views(step, module, optimizer):
    x, y = data()
    told = [step(x.t().contiguous().t(), y)]
    return told + [step(torch.complex(torch.zeros_like(x), -x).conj().imag, y)]  # negated when it is read


@use(perceptron)
def other_sizes(step, module, optimizer):
    return [step(*data(b)) for b in (6, 4, 6, 2, 4)]


@use(perceptron)
def eager_steps_between(step, module, optimizer):
    told = [step(*data())]
    step.sync()
    told.append(Eager(module, cross_entropy, optimizer)(*data()))
    return told + [step(*data())]


# ---- kinds of modules and optimizers ----


@use(perceptron, lambda m: torch.optim.RMSprop(m.parameters(), 0.01, alpha=0.9, eps=1e-3, weight_decay=0.1))
@use(perceptron, lambda m: torch.optim.RMSprop(m.parameters(), 0.01, momentum=0.9))
@use(perceptron, lambda m: torch.optim.Adagrad(m.parameters(), 0.05, weight_decay=0.1, initial_accumulator_value=0.5))
def scaled_by_squares(step, module, optimizer):
    told = [step(*data()), step(*data())]
    step.sync()
    told.append(Eager(module, cross_entropy, optimizer)(*data()))
    optimizer.param_groups[0]["lr"] = 0.02
    return told + [step(*data())]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(4, 6), nn.Linear(6, 4, bias=False)
        self.head.weight = self.table.weight
        self.unused, self.frozen = nn.Linear(2, 2), nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x):
        return self.head(self.table(x) * self.frozen).mean(1)


class Named(nn.Module):
    """A parameter, two inputs and, in the loss, a label that have the names x and y."""

    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.ones(8))
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y):
        return self.layer(x * self.x + y)


@use(Named)
def names_twice(step, module, optimizer):
    (x, label), (y, _) = data(), data()
    return [step(x, y, label), step(y, x, label)]


def sgd(module):
    return torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)


@use(Tied, sgd)
def tied_unused_frozen(step, module, optimizer):
    told = [step(torch.randint(0, 4, (6, 3)), data()[1]) for _ in range(3)]
    assert module.table.weight is module.head.weight
    return told


def groups(module):
    decayed, plain = (
        [p for p in module.parameters() if p.dim() > 1],
        [p for p in module.parameters() if p.dim() <= 1],
    )
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "lr": 3e-2}], 1e-2)


@use(perceptron, groups)
def parameter_groups(step, module, optimizer):
    return [step(*data()) for _ in range(3)]


def used(module):
    """An optimizer that has made steps before."""
    optimizer = sgd(module)
    Eager(module, cross_entropy, optimizer)(*data())
    return optimizer


@use(perceptron, used)
def optimizer_with_state(step, module, optimizer):
    return [step(*data()) for _ in range(2)]


@use(lambda: perceptron().double(), ranks=(1,))
def type_f64(step, module, optimizer):
    return [step(*data(dtype=torch.float64)) for _ in range(2)]


@use(lambda: nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4)).bfloat16(), ranks=(1,))
def type_bf16(step, module, optimizer):
    return [step(*data(dtype=torch.bfloat16)) for _ in range(2)]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * self.scale


@use(Counting, sgd)
def buffers(step, module, optimizer):
    told = [step(*data()), step(*data())]
    module.scale.fill_(3.0)
    return told + [step(*data()), step(*data())]


@use(perceptron)
def memory_outlives_the_step(step, module, optimizer):
    step(*data())
    step.sync()
    kept = module[0].weight.data
    step.close()
    gc.collect()
    kept.add_(0)
    return [kept]


# ---- two at once ----


def two_steps():
    told = []
    for compiled in (False, True):
        torch.manual_seed(0)
        first, second = perceptron(), perceptron()
        a, b = sgd(first), sgd(second)
        make = msc.train_step if compiled else Eager
        steps = make(first, cross_entropy, a), make(second, cross_entropy, b)
        told.append([s(*data()) for _ in range(3) for s in steps])
        for s in steps:
            s.close()
    assert max(abs(a - b) for a, b in zip(*told)) < 1e-5, told


# ---- dropout ----


def masks_after_other_sizes():
    """A plan for other sizes, and the plan of before again, draw numbers of their own."""
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 4))
    with msc.train_step(module, cross_entropy, torch.optim.SGD(module.parameters(), 0.0), seed=1) as step:
        x, y = torch.ones(64, 8), torch.zeros(64).long()
        told = [step(x[:b], y[:b]) for b in (64, 32, 64, 32, 64)]
    assert len({round(t, 6) for t in told}) == 5, told


# ---- what goes wrong ----


def errors():
    for ranks in (1, 2):
        torch.manual_seed(0)
        module = perceptron()
        with msc.train_step(module, cross_entropy, sgd(module), ranks=ranks) as step:
            step(*data())
            x, y = data()
            before = copy.deepcopy(module.state_dict())
            says(lambda: step(x, y + 9), msc.Error, "softmax_cross_entropy1: an index is out of range")
            if ranks == 1:
                step(*data())
            else:
                says(lambda: step(x, y), msc.Error, "the parameters of the steps before are lost")
                assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), before.values()))
            if ranks == 1:
                says(lambda: step(x.requires_grad_(), y), msc.Error, "input input wants a gradient")
                x = x.detach()
                says(lambda: step(x, y[:3]), msc.Error, "PyTorch cannot export")
                says(lambda: step(x[:, :7], y), msc.Error, f"; at {__file__}:")  # no line of the network is the user's
                says(lambda: step(x, y, y), msc.Error, "Sequential takes 1 inputs, not 2")
                says(lambda: step(x.to("meta"), y), msc.Error, "input input is a tensor on meta: ")
                says(lambda: step(x.to_sparse(), y), msc.Error, "input input is a tensor of layout torch.sparse_coo on")
        assert not [t for t in threading.enumerate() if type(t).__name__ == "_Rank"]
        step.close()
        assert all(p.isfinite().all() for p in module.parameters())
    says(lambda: msc.train_step(module, cross_entropy, "adam"), msc.Error, "needs an optimizer of PyTorch, not 'adam'")
    says(lambda: msc.train_step(3, cross_entropy, sgd(module)), msc.Error, "needs a module of PyTorch, not 3")
    says(lambda: msc.train_step(module, cross_entropy, sgd(module), ranks="2"), msc.Error, "ranks='2': a whole number")


def steps_that_differ():
    module = perceptron()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
    with msc.train_step(module, cross_entropy, optimizer) as step, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        module[3].weight.requires_grad_(False)
        step(*data())
        module[3].weight.requires_grad_(True)
        step(*data())
        step(*data())
    texts = [str(w.message) for w in found if "steps with some parameters" in str(w.message)]
    assert texts == [texts[0]] and "0 steps with some parameters and 1 with others" in texts[0], texts


def unsynced_writes():
    module = perceptron()
    with msc.train_step(module, cross_entropy, sgd(module), ranks=2) as step:
        weight = module[0].weight
        step(*data())
        with torch.no_grad():
            weight.mul_(2)  # not asked of the module, which would have got it from its ranks
        says(lambda: step(*data()), msc.Error, "call sync() before")
        says(lambda: step(*data()), msc.Error, "the parameters of the steps before are lost")


def writes_to_inputs():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            x.mul_(2)
            return self.linear(x)

    module = Writing()
    step = msc.train_step(module, cross_entropy, sgd(module))
    says(lambda: step(*data()), msc.Error, "the module writes into its input")


def hooks_on_gradients():
    def of_a_parameter(module):
        module[0].weight.register_hook(lambda g: 2 * g)

    def of_a_module(module):
        module[0].register_full_backward_hook(lambda *_: None)

    def of_a_tensor(module):
        module[0].register_forward_hook(lambda _, x, y: y.register_hook(lambda g: 2 * g) and None)

    for hang in of_a_parameter, of_a_module, of_a_tensor:
        module = perceptron()
        hang(module)
        with msc.train_step(module, cross_entropy, sgd(module)) as step:
            says(lambda: step(*data()), msc.Error, "hooks on gradients are not called by a plan")


def habits_of_loops():
    """What a loop does with a loss and schedulers, and whole modules saved between steps."""
    for ranks in (1, 2):
        module = perceptron()
        optimizer = sgd(module)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with msc.train_step(module, cross_entropy, optimizer, ranks=ranks) as step, tempfile.TemporaryDirectory() as at:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loss = step(*data())
                scheduler.step()
            assert loss.item() == loss == loss.detach(), loss
            says(loss.backward, msc.Error, "has made the backward and the update already")
            torch.save(module, f"{at}/module.pt")
            kept = torch.load(f"{at}/module.pt", weights_only=False)
            assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), module.parameters()))
            x, y = data()
            says(lambda: step(x[:0], y[:0]), msc.Error, "has no elements, [0, 8]")
    module.requires_grad_(False)
    says(lambda: msc.train_step(module, cross_entropy, sgd(module)), msc.Error, "nothing to train")


# a loss that is no number, a step that nobody closes, a module that outlives it
LEFT_OPEN = """
import torch, msc, msc.pytorch
def train():
    net = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step = msc.train_step(net, torch.nn.functional.cross_entropy, optimizer, ranks=RANKS)
    return step(torch.randn(4, 8) * float("nan"), torch.tensor([0, 1, 2, 1])), net
loss, net = train()
assert loss != loss
"""


def left_open():
    for ranks in (1, 2):
        script = LEFT_OPEN.replace("RANKS", str(ranks))
        done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE)
        assert done.returncode == 0, f"{ranks} ranks: exit code {done.returncode}\n{done.stderr.decode()}"


def lengths_in_buckets():
    """Sequences of five lengths are two plans; losses and parameters are those of the lengths as they are."""
    for words in ({"ranks": 1}, {"ranks": 2, "micro_size": 2}):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Embedding(12, 8), nn.Tanh(), nn.Linear(8, 5))
        eager = copy.deepcopy(module)

        def loss(output, label):
            return cross_entropy(output.flatten(0, 1), label.flatten())

        reference = Eager(eager, loss, sgd(eager))
        buckets = {"input": (1, [8, 4], 3), "y": (-1, [4, 8], -100)}
        with msc.train_step(module, loss, sgd(module), buckets=buckets, **words) as step:
            for length in (5, 7, 4, 8, 3):
                x, y = torch.randint(0, 12, (4, length)), torch.randint(0, 5, (4, length))
                ours, theirs = step(x, y), reference(x, y)
                assert abs(ours - theirs) < 1e-5, f"length {length}, {words}: loss {ours}, by PyTorch {theirs}"
            assert len(step._plans) == 2, f"{len(step._plans)} plans"
            x, y = torch.zeros(4, 9).long(), torch.zeros(4, 9).long()
            says(lambda: step(x, y), msc.Error, "input input is 9 long in dimension 1; its largest bucket is 8")
        for ours, theirs in zip(module.parameters(), eager.parameters()):
            assert (ours - theirs).abs().max() < 1e-5, f"parameters, {words}"
    with msc.train_step(nn.Linear(8, 4), cross_entropy, sgd(nn.Linear(8, 4)), buckets={"z": (1, [4], 0)}) as step:
        says(lambda: step(*data()), msc.Error, "buckets: there is no input z; the inputs are input, y")


# ---- attention from which everything is hidden ----


class Attention(nn.Module):
    """Classes from sequences of 5, by attention with a mask that it knows and one that it is given."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(8, 24), nn.Linear(8, 4)
        bias = torch.randn(5, 5).masked_fill(torch.ones(5, 5).triu(2) > 0, -torch.inf)
        self.register_buffer("bias", bias, persistent=False)
        self.bias[2] = -torch.inf

    def forward(self, x, seen):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.layer(x).chunk(3, -1))
        attend = nn.functional.scaled_dot_product_attention
        given = torch.where(seen, 0.0, -torch.inf)
        y = attend(q, k, v, self.bias) + attend(q, k, v, seen) + attend(k, q, v, given)
        return self.head(y.transpose(1, 2).flatten(2).mean(1))


@use(Attention, lambda m: torch.optim.SGD(m.parameters(), 0.1), ranks=(1, 2))
def positions_that_see_nothing(step, module, optimizer):
    told = []
    for _ in range(3):
        seen = torch.rand(6, 1, 5, 5) > 0.4
        seen[1] = False
        seen[2:, :, 3] = False
        told.append(step(torch.randn(6, 5, 8), seen, torch.randint(0, 4, (6,))))
    return told


# ---- labels of several parts ----


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes, self.sizes = nn.Linear(8, 4), nn.Linear(8, 1)

    def forward(self, x):
        return {"class": self.classes(x), "size": self.sizes(x)}


def loss_of_two(told, labels):
    kind, size = labels if isinstance(labels, tuple) else (labels["class"], labels["size"])
    return cross_entropy(told["class"], kind) + nn.functional.mse_loss(told["size"], size)


@use(TwoHeads, loss=loss_of_two)
def labels_of_several_parts(step, module, optimizer):
    """The loss is called with the labels as they are, a tuple or a dictionary."""
    told = []
    for _ in range(3):
        x, kind = data()
        size = torch.randn(6, 1)
        told += [step(x, {"class": kind, "size": size}), step(x, (kind, size))]
    return told


# ---- replicas ----


class Bags(nn.Module):
    """Classes of bags of words, of which offsets say where each begins."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.EmbeddingBag(20, 8, mode="sum"), nn.Linear(8, 4)

    def forward(self, words, begins):
        return self.head(self.table(words, begins))


def replicas():
    """In data_parallel a step is that of one device, as by PyTorch's DDP: also of bags, whose words are no samples."""
    words, begins = torch.randint(0, 20, (16,)), torch.tensor([0, 3, 3, 7, 9, 12])
    bags = {"batch_dims": {"words": -1, "begins": 0, "y": 0}}
    for make, inputs, keys in ((perceptron, (), {}), (Bags, (words, begins, torch.randint(0, 4, (6,))), bags)):
        module = make().eval()  # what mixes samples mixes those of a replica: norms
        eager = copy.deepcopy(module)
        keys.update(ranks=2, parallel_mode="data_parallel")
        reference = Eager(eager, cross_entropy, torch.optim.SGD(eager.parameters(), 0.1))
        with msc.train_step(module, cross_entropy, torch.optim.SGD(module.parameters(), 0.1), **keys) as step:
            for _ in range(3):
                batch = inputs or data()
                ours, theirs = step(*batch), reference(*batch)
                assert abs(ours - theirs) < 1e-5, f"{make.__name__}: loss {ours}, by PyTorch {theirs}"
        for ours, theirs in zip(module.parameters(), eager.parameters()):
            assert (ours - theirs).abs().max() < 1e-5, f"{make.__name__}: parameters"


INTERRUPTED = """
import torch, msc
module = torch.nn.Linear(8, 4)
before = module.weight.detach().clone()
with msc.train_step(module, torch.nn.functional.cross_entropy, torch.optim.SGD(module.parameters(), 0.1), ranks=RANKS) as s:
    try:
        while True:
            s(torch.randn(6, 8), torch.zeros(6).long())
            print("step", flush=True)
    except KeyboardInterrupt:
        pass
assert not torch.equal(before, module.weight)
print("closed", flush=True)
"""


def interrupts():
    for ranks in (1, 2):
        run = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED.replace("RANKS", str(ranks))], stdout=subprocess.PIPE, text=True
        )
        while (line := run.stdout.readline()) != "step\n":
            assert line, "it ended"
        run.send_signal(signal.SIGINT)
        assert run.stdout.read().endswith("closed\n") and run.wait(60) == 0, f"interrupted with {ranks} ranks"


run(sys.argv[1:], two_steps, masks_after_other_sizes, errors, steps_that_differ, unsynced_writes, writes_to_inputs,
    lengths_in_buckets, hooks_on_gradients, habits_of_loops, left_open, replicas, interrupts)
