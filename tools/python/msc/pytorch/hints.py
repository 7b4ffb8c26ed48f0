"""What a user says of modules and parameters in; hints on the blocks, ops and parameters of a msc.Graph out."""

import fnmatch
import uuid
from collections.abc import Iterator

import torch

from msc.graph import BLOCK_HINTS, _hint_fields
from msc.ops import Error

_PARAMETER = ("layout", "layerwise_parallel", "parallel_optimizer", "parameter_server", "cache_rows", "trainable")
_PRODUCTS = ("matmul", "batch_matmul", "gather", "conv2d", "attention", "dropped_attention", "layer_norm", "rms_norm")
_ATTRIBUTE = "_msc_hints"


def annotate(target, pattern=None, **hints):
    """Says something of a module, and of all that is in it: msc.annotate(net.decoder, pipeline_stage=1);
    of a parameter: msc.annotate(net.head.weight, parallel_optimizer=False); of all modules and parameters in a module
    whose name matches: msc.annotate(net, "layers.[0-3]", pipeline_stage=0); of each in a list: msc.annotate(
    net.layers[:4], recompute=True).  It counts for exports that follow; a copy of a parameter lacks what was said.

    Hints are those of msc.Graph.block; of a parameter layout, layerwise_parallel, parallel_optimizer, comm_fusion,
    parameter_server, cache_rows, trainable.  Raises msc.Error for others, and if nothing matches."""
    for t in _targets("annotate", target, pattern):
        known = BLOCK_HINTS if isinstance(t, torch.nn.Module) else _PARAMETER + ("comm_fusion",)
        what = "a module" if isinstance(t, torch.nn.Module) else "a parameter"
        for name in hints:
            if name not in known:
                raise Error(f"{what} has no hint {name}; known: {', '.join(known)}")
        if isinstance(t, torch.nn.Module):
            _hint_fields(hints, BLOCK_HINTS)  # where it is said, what has the wrong kind is refused
        _store(t, "hints", hints)
        if isinstance(t, torch.nn.Sequential):  # a slice of one is an object of its own, which no module has
            token = getattr(t, _ATTRIBUTE).setdefault("token", uuid.uuid4().hex)
            for child in t:
                _store(child, f"within {token}", hints)


def shard(target, pattern=None, *, in_strategy=None, out_strategy=None):
    """How the product of a module is cut: msc.shard(net.fc1, in_strategy=((2, 4), (4, 1))), a tuple for each operand
    with a number of parts for each of its dimensions.  A linear layer is x [M, K] times w [K, N], whatever way
    PyTorch keeps w.
    Modules may be meant by a pattern, or be in a list, as in annotate."""
    said = {"in_strategy": in_strategy, "out_strategy": out_strategy}
    said = {name: strategy for name, strategy in said.items() if strategy is not None}
    if not said:
        raise Error("msc.shard needs in_strategy or out_strategy")
    _hint_fields(said)  # here, what is no strategy is refused
    for t in _targets("shard", target, pattern):
        if pattern is not None and not isinstance(t, torch.nn.Module):
            continue
        if not isinstance(t, torch.nn.Module):
            raise Error("msc.shard takes a module; a parameter's layout is msc.annotate(parameter, layout=...)")
        _store(t, "strategy", said)


def _store(target, kind, values):
    found = dict(getattr(target, _ATTRIBUTE, {}))
    found[kind] = {**found.get(kind, {}), **values}
    object.__setattr__(target, _ATTRIBUTE, found)


def _inside(t):
    """What is in a list, and in lists in it; of anything else itself."""
    if isinstance(t, (torch.nn.ModuleDict, torch.nn.ParameterDict)):
        t = list(t.values())
    if isinstance(t, (list, tuple, Iterator, torch.nn.ModuleList, torch.nn.ParameterList)):
        return [x for inner in t for x in _inside(inner)]
    return [t]


def _targets(what, target, pattern):
    """The modules and parameters that are meant."""
    if pattern is not None and not isinstance(target, torch.nn.Module):
        raise Error(f"msc.{what} takes a module with a pattern, not a {type(target).__name__}")
    found = _inside(target if pattern is None else _matching(target, pattern))
    for t in found:
        if not isinstance(t, (torch.nn.Module, torch.nn.Parameter)):
            raise Error(f"msc.{what} takes a module, a parameter or a list of them, not a {type(t).__name__}")
    if not found:
        raise Error(f"msc.{what}: there is no module or parameter in the list")
    return list({id(t): t for t in found}.values())


def _matching(module, pattern):
    found = [m for name, m in module.named_modules() if name and fnmatch.fnmatchcase(name, pattern)]
    found += [p for name, p in module.named_parameters() if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise Error(f"no module or parameter of {type(module).__name__} matches '{pattern}'")
    return found


# ---- plans as of torch.distributed.tensor.parallel ----


# By what a plan calls a style, as PyTorch, transformers and Megatron do.  Whoever prepares inputs and outputs says how
# they lie between modules, which msc finds by itself: each product gets its operands as it wants them.
_STYLES = {
    "colwise": "column",
    "column": "column",
    "rowwise": "row",
    "row": "row",
    "vocab": "row",
    "sequence": "sequence",
    "preparemodule": "prepared"
}


def _style(value):
    name = value if isinstance(value, str) else type(value).__name__
    name = name.lower().replace("_", "")
    return next((style for begin, style in _STYLES.items() if name.startswith(begin)), None)


def _strategy(name, module, style, dp, tp):
    """How the operands of a module's product are cut; of a norm, its first one, [batch, sequence, width]."""
    if style == "sequence":
        return ((dp, tp, 1), )
    if isinstance(module, torch.nn.Linear):
        return ((dp, 1), (1, tp)) if style == "column" else ((dp, tp), (tp, 1))
    if isinstance(module, torch.nn.Embedding):
        return ((1, tp), (dp, 1)) if style == "column" else ((tp, 1), (dp, 1))
    raise Error(f"plan: {name} is a {type(module).__name__}, neither a linear layer nor an embedding")


def _planned(module, plan, mesh):
    """{name of a module: strategy} of a plan {pattern: style}."""
    if not mesh or "tp" not in mesh:
        raise Error('a plan needs the size of the axis it cuts by: mesh={"dp": 2, "tp": 4}')
    tp, dp = mesh["tp"], mesh.get("dp", 1)
    out = {}
    for pattern, value in plan.items():
        style = _style(value)
        if not style:
            raise Error(f"plan: '{pattern}' is {value}; msc knows colwise, rowwise and sequence_parallel")
        named = [(n, m) for n, m in module.named_modules() if n and fnmatch.fnmatchcase(n, pattern)]
        if not named:
            raise Error(f"plan: no module of {type(module).__name__} matches '{pattern}'")
        if style != "prepared":
            out.update((name, _strategy(name, m, style, dp, tp)) for name, m in named)
    return out


# ---- onto the graph ----


def collect(module, plan=None, mesh=None):
    """All that was said of a module: [(name, target, kind, values)]."""
    marks = []
    tokens = {getattr(m, _ATTRIBUTE, {}).get("token") for m in module.modules()}
    for name, m in module.named_modules():
        for kind, values in getattr(m, _ATTRIBUTE, {}).items():
            if kind.startswith("within ") and kind[len("within "):] not in tokens:
                marks.append((name, m, "hints", values))  # of a slice: no module of this one has it
            elif kind in ("hints", "strategy"):
                marks.append((name, m, kind, values))
    for name, p in module.named_parameters():
        for kind, values in getattr(p, _ATTRIBUTE, {}).items():
            marks.append((name, p, kind, values))
    modules = dict(module.named_modules())
    for name, strategy in _planned(module, plan, mesh).items() if plan else ():
        marks.append((name, modules[name], "strategy", {"in_strategy": strategy}))
    return marks


def apply(graph, marks):
    for name, target, kind, values in marks:
        if isinstance(target, torch.nn.Parameter):
            _on_parameter(graph, name, values)
        elif kind == "hints":
            _on_block(graph, name, values)
        else:
            _on_product(graph, name, target, values)


def _on_parameter(graph, name, values):
    for p in graph._parameters:
        if p["name"] == name:
            p.update(values)
            return
    raise Error(f"parameter {name} has hints, but the model does not use it")


def _on_block(graph, name, values):
    if not name:
        graph._blocks[0]["hints"] = {**(graph._blocks[0].get("hints") or {}), **_hint_fields(values, BLOCK_HINTS)}
        return
    for run in _run_modules(graph, name):
        block = graph._blocks[graph._named_blocks[run]]
        block["hints"] = {**(block["hints"] or {}), **_hint_fields(values, BLOCK_HINTS)}


def _run_modules(graph, name):
    """The module itself, or, where only modules in it are run, the outermost of these."""
    if name in graph._named_blocks:
        return [name]
    inside = [b for b in graph._named_blocks if b.startswith(name + ".")]
    if not inside:
        raise Error(f"module {name} has hints, but the model does not run it")
    return [b for b in inside if not any(b.startswith(other + ".") for other in inside)]


def _on_product(graph, name, module, values):
    ops = [op for op in graph._ops if graph._blocks[op["block"]].get("path") == name and op["kind"] in _PRODUCTS]
    if not ops:
        raise Error(f"module {name} is to be cut, but there is no product in it; cut the modules inside")
    for op in ops:
        fields = dict(values)
        if "in_strategy" in fields:
            said = fields["in_strategy"]
            fields["in_strategy"] = [
                _fitted(graph, module, op, i, said[i] if i < len(said) else ()) for i in range(len(op["operands"]))
            ]
        op["hints"].update(_hint_fields(fields))


def _fitted(graph, module, op, i, parts):
    """The parts of operand i: a linear layer's weight is kept turned, its x may have more dimensions."""
    parts, rank = list(parts), len(graph._tensors[op["operands"][i]].shape)
    if isinstance(module, torch.nn.Linear) and i == 1:
        return parts[::-1]
    if len(parts) == 2 and rank > 2 and i == 0:
        return [parts[0]] + [1] * (rank - 2) + [parts[1]]
    return parts + [1] * (rank - len(parts))
