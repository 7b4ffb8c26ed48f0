"""What decides, while a module is traced, a Python condition that is a tensor: checks that raise are passed, what is
drawn is compared with a chance of 0 or 1, what depends on no input is computed, and where values that are not finite
are clamped they always are.  Everything else PyTorch refuses."""

import ast
import contextlib
import functools
import re
import sys

import torch
from torch.fx.experimental import proxy_tensor

from msc.ops import Error


@functools.cache
def _conditions(file):
    """[(a condition, what it is to be, is it before a clamp)] of a source file: what raises nothing, where nobody there
    goes on after a raise; what clamps."""
    try:
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return []
    caught = {n for t in ast.walk(tree) if isinstance(t, ast.Try) and t.handlers for b in t.body for n in ast.walk(b)}
    found = []
    for node in ast.walk(tree):
        if node in caught:
            continue
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            found.append((node.test, False, False))
        elif isinstance(node, ast.If) and _only_clamps(node):
            found.append((node.test, True, True))
        elif isinstance(node, ast.Assert):
            found.append((node.test, True, False))
    return found


_FINITE = re.compile(
    r"if (not torch\.isfinite\((?P<x>\w+)\)\.all\(\)|torch\.isinf\((?P<y>\w+)\)\.any\(\)):\n"
    r" +(?P<v>\w+) = torch\.finfo\(\w+\.dtype\)\.max( - 1000)?\n"
    r" +(?P<z>\w+) = torch\.clamp\((?P<of>\w+), min=-(?P=v), max=(?P=v)\)"
)


def _only_clamps(node):
    """Is this a branch that clamps a value of f32 which is not finite?  What is finite it would leave as it is."""
    found = not node.orelse and _FINITE.fullmatch(ast.unparse(node))
    return bool(found) and len({found[k] for k in ("x", "y", "z", "of")} - {None}) == 1


def _is_at(node, place):
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == place


def _wanted(condition, answer, place):
    """What the part of a condition at this place has to be for the whole to be `answer`; None: it is no such part."""
    if _is_at(condition, place):
        return answer
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return _wanted(condition.operand, not answer, place)
    for part in condition.values if isinstance(condition, ast.BoolOp) else ():
        wanted = _wanted(part, answer, place)
        if wanted is not None:
            return wanted
    return None


def _node_of(tensor):
    mode = proxy_tensor.get_proxy_mode()
    slot = mode and proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    return getattr(getattr(slot, "proxy", slot), "node", None)


def _is_of_f16(tensor):
    """Was it found out of numbers f16, which such a clamp may change?"""
    node = _node_of(tensor)
    while node is not None and node.all_input_nodes and not node.meta["val"].is_floating_point():
        node = node.all_input_nodes[0]
    return node is not None and getattr(node.meta.get("val"), "dtype", None) == torch.float16


def _passes_check(tensor, frame):
    """What the condition that a frame asks for is to be; None: it is neither a check nor before a clamp."""
    code = frame.f_code
    if not hasattr(code, "co_positions"):  # Python before 3.11
        return None
    place = list(code.co_positions())[frame.f_lasti // 2 - 1]  # of the instruction that made what is asked for
    for condition, answer, is_clamp in _conditions(code.co_filename):
        wanted = _wanted(condition, answer, place)
        if wanted is not None and not (is_clamp and _is_of_f16(tensor)):
            return wanted
    return None


def _drawn(tensor, frame):
    """Whether a number drawn from 0 .. 1 is less than a chance; None: the tensor is something else."""
    node = _node_of(tensor)
    draws = (torch.ops.aten.rand.default, torch.ops.aten.rand.generator)
    if node is None or node.target is not torch.ops.aten.lt.Scalar or node.args[0].target not in draws:
        return None
    if 0 < node.args[1] < 1:
        raise Error(
            f"a number drawn at {frame.f_code.co_filename}:{frame.f_lineno} decides what is computed, with a chance of "
            f"{node.args[1]}: msc computes the same in every step; a chance of 0, as layerdrop=0, is possible"
        )
    return node.args[1] >= 1


def _computed(node, known):
    """The tensor that a node of the graph so far gives, if it depends on no input and is not drawn; None: it does."""
    if node not in known:
        known[node] = None  # while it is looked at
        tags = getattr(node.target, "tags", ())  # an item of a tuple has none
        is_call = node.op == "call_function" and torch.Tag.nondeterministic_seeded not in tags
        if is_call and all(_computed(n, known) is not None for n in node.all_input_nodes):
            args, words = torch.fx.map_arg((node.args, node.kwargs), lambda n: known[n])
            known[node] = node.target(*args, **words)
    return known[node]


def _constant(tensor):
    node = _node_of(tensor)
    if node is None:
        return None
    with torch._subclasses.fake_tensor.unset_fake_temporarily(), proxy_tensor.disable_proxy_modes_tracing():
        return _computed(node, {})


def _answer(tensor, frame):
    """What a tensor of one element is for the condition that a frame asks for; None: nobody knows."""
    if not isinstance(tensor, torch._subclasses.FakeTensor) or tensor.constant is not None:
        return None
    for answer in (_drawn(tensor, frame), _passes_check(tensor, frame)):
        if answer is not None:
            return answer
    known = _constant(tensor)
    return None if known is None else known.item()


@contextlib.contextmanager
def decided():
    """Decides such conditions while a module is traced."""

    def is_true(tensor):
        answer = _answer(tensor, sys._getframe(1))
        return torch._C.TensorBase.__bool__(tensor) if answer is None else bool(answer)

    def item(tensor):
        answer = _answer(tensor, sys._getframe(1))
        return torch._C.TensorBase.item(tensor) if answer is None else answer

    torch.Tensor.__bool__, torch.Tensor.item = is_true, item
    try:
        yield
    finally:
        del torch.Tensor.__bool__, torch.Tensor.item  # those of its base class are seen again
