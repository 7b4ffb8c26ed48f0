"""What a user says of modules and parameters in; hints on the blocks, ops and parameters of a msc.Graph out."""

import fnmatch

import torch

from msc.graph import BLOCK_HINTS, _hint_fields
from msc.ops import Error

_PARAMETER = ("layout", "layerwise_parallel", "parallel_optimizer", "parameter_server", "cache_rows", "trainable")
_PRODUCTS = ("matmul", "batch_matmul", "gather", "conv2d", "attention", "dropped_attention", "layer_norm", "rms_norm")
_ATTRIBUTE = "_msc_hints"


def annotate(target, pattern=None, **hints):
    """Says something of a module, and of all that is in it: msc.annotate(net.decoder, pipeline_stage=1);
    of a parameter: msc.annotate(net.head.weight, parallel_optimizer=False); of all modules and parameters in a module
    whose name matches: msc.annotate(net, "layers.[0-3]", pipeline_stage=0).  It counts for exports that follow.

    Hints are those of msc.Graph.block; of a parameter layout, layerwise_parallel, parallel_optimizer, comm_fusion,
    parameter_server, cache_rows, trainable.  Raises msc.Error for others, and if nothing matches."""
    targets = [target] if pattern is None else _matching(target, pattern)
    for t in targets:
        known = BLOCK_HINTS if isinstance(t, torch.nn.Module) else _PARAMETER + ("comm_fusion",)
        what = "a module" if isinstance(t, torch.nn.Module) else "a parameter"
        for name in hints:
            if name not in known:
                raise Error(f"{what} has no hint {name}; known: {', '.join(known)}")
        if isinstance(t, torch.nn.Module):
            _hint_fields(hints, BLOCK_HINTS)  # where it is said, what has the wrong kind is refused
        _store(t, "hints", hints)


def shard(target, pattern=None, *, in_strategy=None, out_strategy=None):
    """How the product of a module is cut: msc.shard(net.fc1, in_strategy=((2, 4), (4, 1))), a tuple for each operand
    with a number of parts for each of its dimensions.  A linear layer is x [M, K] times w [K, N], whatever way
    PyTorch keeps w.
    Modules may be meant by a pattern, as in annotate."""
    said = {"in_strategy": in_strategy, "out_strategy": out_strategy}
    said = {name: strategy for name, strategy in said.items() if strategy is not None}
    if not said:
        raise Error("msc.shard needs in_strategy or out_strategy")
    _hint_fields(said)  # here, what is no strategy is refused
    for t in (
        [target] if pattern is None else [m for m in _matching(target, pattern) if isinstance(m, torch.nn.Module)]
    ):
        if not isinstance(t, torch.nn.Module):
            raise Error("msc.shard takes a module; a parameter's layout is msc.annotate(parameter, layout=...)")
        _store(t, "strategy", said)


def _store(target, kind, values):
    found = dict(getattr(target, _ATTRIBUTE, {}))
    found[kind] = {**found.get(kind, {}), **values}
    object.__setattr__(target, _ATTRIBUTE, found)


def _matching(module, pattern):
    found = [m for name, m in module.named_modules() if name and fnmatch.fnmatchcase(name, pattern)]
    found += [p for name, p in module.named_parameters() if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise Error(f"no module or parameter of {type(module).__name__} matches '{pattern}'")
    return found


# ---- plans as of torch.distributed.tensor.parallel ----


def _style(value):
    name = value if isinstance(value, str) else type(value).__name__
    name = name.lower()
    for kind in ("colwise", "rowwise"):
        if name.startswith(kind):
            return kind
    return None


def _planned(module, plan, mesh):
    """{name of a module: strategy} of a plan {pattern: style}."""
    if not mesh or "tp" not in mesh:
        raise Error('a plan needs the size of the axis it cuts by: mesh={"dp": 2, "tp": 4}')
    tp, dp = mesh["tp"], mesh.get("dp", 1)
    out = {}
    for pattern, value in plan.items():
        style = _style(value)
        if not style:
            raise Error(f"plan: '{pattern}' is {value}; msc knows colwise and rowwise")
        named = [(n, m) for n, m in module.named_modules() if n and fnmatch.fnmatchcase(n, pattern)]
        if not named:
            raise Error(f"plan: no module of {type(module).__name__} matches '{pattern}'")
        for name, m in named:
            if isinstance(m, torch.nn.Linear):
                out[name] = ((dp, 1), (1, tp)) if style == "colwise" else ((dp, tp), (tp, 1))
            elif isinstance(m, torch.nn.Embedding):
                out[name] = ((1, tp), (dp, 1)) if style == "colwise" else ((tp, 1), (dp, 1))
            else:
                raise Error(f"plan: {name} is a {type(m).__name__}, neither a linear layer nor an embedding")
    return out


# ---- onto the graph ----


def collect(module, plan=None, mesh=None):
    """All that was said of a module: [(name, target, kind, values)]."""
    marks = []
    for name, m in module.named_modules():
        for kind, values in getattr(m, _ATTRIBUTE, {}).items():
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
    if name not in graph._named_blocks:
        raise Error(f"module {name} has hints, but the model does not run it")
    block = graph._blocks[graph._named_blocks[name]]
    block["hints"] = {**(block["hints"] or {}), **_hint_fields(values, BLOCK_HINTS)}


def _on_product(graph, name, module, values):
    ops = [op for op in graph._ops if graph._blocks[op["block"]].get("path") == name and op["kind"] in _PRODUCTS]
    if not ops:
        raise Error(f"module {name} is to be cut, but there is no product in it; cut the modules inside")
    for op in ops:
        fields = dict(values)
        if "in_strategy" in fields:
            fields["in_strategy"] = [
                _fitted(graph, module, op, i, parts) for i, parts in enumerate(fields["in_strategy"])
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
