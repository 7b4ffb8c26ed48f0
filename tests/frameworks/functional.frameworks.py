#!/usr/bin/env python3
"""Programs of modules that write in place, made functional from their graph: executed they give what the module gives,
and leave in its buffers what it leaves there.  What needs a second trace is left to PyTorch, not made wrongly."""

import copy
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from framework import need  # noqa: E402

need("torch")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import msc.pytorch  # noqa: E402, F401
from msc.pytorch.capture import Step, _find_stopped, _mark_stopped  # noqa: E402
from msc.pytorch.functional import functional  # noqa: E402

CASES, LEFT = {}, {}


def case(function):
    CASES[function.__name__] = function
    return function


def left(function):
    LEFT[function.__name__] = function
    return function


class Own(nn.Module):
    """Whose forward is a function of itself and x."""

    def __init__(self, forward):
        super().__init__()
        self.own, self.layer = forward, nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.own(self, x)


@case
def writes_to_a_result(m, x):
    return F.relu(m.layer(x), inplace=True).add_(1).mul_(x)


@case
def reads_both_names(m, x):
    y = m.layer(x)
    z = y.mul_(2)
    return y + z


@case
def writes_twice_by_both_names(m, x):
    y = m.layer(x)
    z = y.mul_(2)
    y.add_(1)
    z.sub_(x)
    return y * z


@case
def writes_to_a_view_alone(m, x):
    return m.layer(x).transpose(0, 1).mul_(3).exp()


@case
def value_before_the_write(m, x):
    y = m.layer(x)
    before = y * 2
    y.add_(5)
    return before + y


@case
def fills_and_masks(m, x):
    y = torch.zeros_like(x)
    y.copy_(x[0])
    y.masked_fill_(x > 0, 7.0)
    y.index_put_((torch.tensor([0, 2]),), x[:2])
    return m.layer(y.clamp_(-3, 3))


@case
def counts_and_averages(m, x):
    m.count.add_(1)
    m.seen.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return m.layer(x) + m.seen + m.count


@case
def averages_without_gradient(m, x):
    y = m.layer(x)
    with torch.no_grad():
        m.seen.lerp_(y.mean(0), 0.25)
        scale = y.abs().max()
    return y / scale + m.seen


@case
def copies_to_a_buffer(m, x):
    m.seen.copy_(x.sum(0))
    return m.layer(x) * m.seen


@case
def makes_a_constant(m, x):
    return m.layer(x) * torch.tensor([1.0, 2, 3, 4, 5, 6])


@case
def writes_to_a_constant(m, x):
    y = torch.tensor([1.0, 2, 3, 4, 5, 6])
    y.add_(x[0])
    return m.layer(x) * y


@case
def drops_nothing(m, x):
    return F.dropout(m.layer(x), 0.0, inplace=True).relu_()


@left
def writes_below_a_view(m, x):
    y = m.layer(x)
    half = y[:, :3]
    y.mul_(2)
    return half.sum() + y


@case
def writes_through_a_view(m, x):
    y = m.layer(x)
    y[:, 1:3].mul_(2)
    return y


@case
def writes_rows_one_by_one(m, x):
    y, z = m.layer(x), torch.zeros_like(x)
    for i in range(1, 5):
        row, above = y[..., i, :i].clone(), y[..., :i, :i].clone()
        y[..., i, :i] = row + (row.unsqueeze(-1) * above).sum(-2)
        z[i] = y[i] * z[i - 1] + x[i]
    y[1:, 2] = 3.0
    return y + z


@case
def writes_through_a_view_that_is_read_again(m, x):
    y = m.layer(x)
    row = y[2]
    row[1:4:2].add_(x[0, 1:4:2])
    row.mul_(2)
    return y + row


@case
def writes_to_one_of_several_results(m, x):
    weights, chosen = m.layer(x).topk(2, -1)
    weights /= weights.sum(-1, keepdim=True)
    return weights + chosen


@left
def writes_to_one_of_several_parts(m, x):
    y = x * 2
    a, _ = y.split(3, -1)
    a.mul_(2)
    return m.layer(y)


@left
def writes_beside_a_view_that_is_read_again(m, x):
    y = m.layer(x)
    row = y[2]
    y[:, 1:3].mul_(2)
    return y + row


@left
def writes_a_part_without_gradient(m, x):
    y = m.layer(x)
    with torch.no_grad():
        z = y * 2
        z[1].add_(1)
    return y * z


@left
def writes_through_a_reshape(m, x):
    y = m.layer(x)
    y.reshape(-1).mul_(2)
    return y


@case
def writes_through_what_drops_nothing(m, x):
    y = m.layer(x)
    F.dropout(y, 0.5, training=False).mul_(2)
    return y


@left
def writes_through_a_part(m, x):
    y = m.layer(x)
    y.t().narrow(0, 1, 2).mul_(2)
    return y


@case
def writes_to_a_part_of_a_buffer(m, x):
    m.seen[:3].add_(1)
    return m.layer(x)


@left
def writes_to_an_input(m, x):
    x.add_(1)
    return m.layer(x)


@left
def writes_without_gradient_to_what_has_one(m, x):
    y = m.layer(x)
    with torch.no_grad():
        y.mul_(2)
    return y


@left
def writes_a_wider_type(m, x):
    y = torch.zeros(5, 6, dtype=torch.float16)
    y.add_(x)
    return m.layer(x) * y


@left
def writes_truth_as_a_number(m, x):
    y = m.layer(x)
    y.gt_(x)
    return y + x


@left
def reads_parts_of_complex_numbers(m, x):
    return m.layer(torch.fft.fft(x).real)


def networks():
    batch_norms = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3),
                                nn.BatchNorm2d(4, affine=False), nn.Hardswish(inplace=True))
    yield "batch norms", batch_norms, torch.randn(2, 3, 9, 9)
    yield "the same in evaluation", copy.deepcopy(batch_norms).eval(), torch.randn(2, 3, 9, 9)
    yield "without statistics", nn.BatchNorm1d(6, track_running_stats=False), torch.randn(5, 6)
    for name, forward in CASES.items():
        yield name.replace("_", " "), Own(forward), torch.randn(5, 6)


def exported(module, x):
    step = Step(module, None, 1, [], 0, None)
    step.train(module.training)
    program = torch.export.export(step, (x,), strict=False)
    _find_stopped(program.graph_module)
    _mark_stopped(program.graph_module)
    return program


class _Executed(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten.copy.default:  # which PyTorch does not differentiate
            return args[1].to(args[0].dtype).expand_as(args[0])
        return super().call_function(target, args, kwargs)


def results_of(program, module, x):
    """The results of a functional program, {buffer: what it is to be}."""
    signature, state = program.graph_signature, {**module.state_dict(keep_vars=True), **dict(module.named_buffers())}
    kinds = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}

    def given(node):
        if node.name in kinds:
            return state[kinds[node.name].removeprefix("module.")]
        constant = signature.inputs_to_lifted_tensor_constants.get(node.name)
        return program.constants[constant] if constant else x

    places = [n for n in program.graph.nodes if n.op == "placeholder"]
    module = torch.fx.GraphModule(program.graph_module, program.graph)
    found = _Executed(module).run(*(given(n).clone() for n in places))
    changed = [s.target.removeprefix("module.") for s in signature.output_specs if s.kind.name == "BUFFER_MUTATION"]
    return found[len(changed) :], dict(zip(changed, found))


def check(name, module, x):
    program = exported(module, x)
    own = functional(program)
    assert own, f"{name}: was left to a second trace"
    writes = [n for n in own.graph.nodes if getattr(getattr(n.target, "_schema", None), "is_mutable", False)]
    assert not writes, f"{name}: {writes}"
    before = {n: b.clone() for n, b in module.named_buffers()}
    plain = copy.deepcopy(module)
    expected = plain(x.clone())
    own_x = x.clone().requires_grad_()
    (*_, found), buffers = results_of(own, module, own_x)
    assert torch.equal(found, expected), f"{name}: off by {(found - expected).abs().max()}"
    for n, b in plain.named_buffers():
        assert torch.equal(buffers.get(n, before[n]), b), f"{name}: buffer {n}"
    second, second_x = program.run_decompositions({}), x.clone().requires_grad_()
    traced = [set(p.graph_signature.buffers_to_mutate.values()) for p in (own, second)]
    assert traced[0] == traced[1], f"{name}: writes to {traced[0]}, PyTorch to {traced[1]}"
    gradient, wanted = (
        torch.autograd.grad(results_of(p, module, v)[0][-1].sum(), v)[0] for p, v in ((own, own_x), (second, second_x))
    )
    assert torch.equal(gradient, wanted), f"{name}: the gradient is off by {(gradient - wanted).abs().max()}"
    for node in own.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            assert node.meta.get("stack_trace") and "val" in node.meta, f"{name}: {node} is nowhere"


def main():
    torch.manual_seed(0)
    count = 0
    for name, module, x in networks():
        check(name, module, x)
        count += 1
    for name, forward in LEFT.items():
        assert functional(exported(Own(forward), torch.randn(5, 6))) is None, f"{name}: was not left"
    print(f"{count} programs are functional without a second trace, {len(LEFT)} are left to PyTorch")


if __name__ == "__main__":
    main()
