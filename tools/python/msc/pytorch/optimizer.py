"""A torch.optim object in; msc's optimizer rows, one per parameter group, and the state it already has, out."""

import torch

from msc.ops import Error


def _refuse_switches(group, where, *names):
    for name in names:
        if group.get(name):
            raise Error(f"{where}: {name}={group[name]} is not supported")


def _sgd(group, where):
    _refuse_switches(group, where, "maximize")
    words = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
    if not group["momentum"]:
        return "sgd", words
    if group["dampening"]:
        raise Error(
            f"{where}: dampening={group['dampening']} is not supported: PyTorch's first step ignores it, msc's does not"
        )
    return "momentum", dict(words, momentum=group["momentum"], nesterov=bool(group["nesterov"]))


def _adam(kind):
    def adam(group, where):
        _refuse_switches(group, where, "amsgrad", "maximize")
        decoupled = kind == "adamw" or group.get("decoupled_weight_decay")
        beta1, beta2 = group["betas"]
        return "adamw" if decoupled else "adam", {
            "lr": group["lr"],
            "beta1": beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
        }

    return adam


def _sparse_adam(group, where):
    _refuse_switches(group, where, "maximize")
    beta1, beta2 = group["betas"]
    return "adam", {"lr": group["lr"], "beta1": beta1, "beta2": beta2, "eps": group["eps"], "lazy": True}


def _adagrad(group, where):
    _refuse_switches(group, where, "lr_decay", "maximize")
    return "adagrad", {name: group[name] for name in ("lr", "eps", "weight_decay")}


def _rmsprop(group, where):
    _refuse_switches(group, where, "centered", "maximize")
    words = {name: group[name] for name in ("lr", "alpha", "eps", "weight_decay")}
    return ("rmsprop_momentum", dict(words, momentum=group["momentum"])) if group["momentum"] else ("rmsprop", words)


_KINDS = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam("adam"),
    torch.optim.AdamW: _adam("adamw"),
    torch.optim.SparseAdam: _sparse_adam,
    torch.optim.Adagrad: _adagrad,
    torch.optim.RMSprop: _rmsprop,
}
_MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}
# What follows a parameter's name in the name of a piece of state -> PyTorch's name of it.
STATE = {
    torch.optim.SGD: {"m": "momentum_buffer"},
    torch.optim.Adam: _MOMENTS,
    torch.optim.AdamW: _MOMENTS,
    torch.optim.SparseAdam: _MOMENTS,
    torch.optim.Adagrad: {"v": "sum"},
    torch.optim.RMSprop: {"m": "momentum_buffer", "v": "square_avg"},
}


# Of a group of parameters: numbers that a plan with the key variable_hypers reads in every step.
NUMBERS = ("lr", "initial_lr", "momentum", "dampening", "weight_decay", "betas", "eps", "alpha")


def numbers(optimizer):
    """[(kind and switches, {hyper-parameter: number})] of each group, as they are now."""
    out, translate = [], _KINDS[type(optimizer)]
    for i, group in enumerate(optimizer.param_groups):
        kind, words = translate(group, f"optimizer {type(optimizer).__name__}, group {i}")
        switches = {k: v for k, v in words.items() if isinstance(v, bool)}
        out.append(((kind, switches), {k: float(v) for k, v in words.items() if k not in switches}))
    return out


def groups(optimizer, names):
    """[(number, kind, hyper-parameters, parameter names)] of an optimizer's groups that train something; `names`: the
    model's name of a parameter, by id, None where the model has no use for it.  Raises Error for what msc cannot do."""
    translate = _KINDS.get(type(optimizer))
    if not translate:
        known = ", ".join(k.__name__ for k in _KINDS)
        raise Error(
            f"optimizer {type(optimizer).__name__} is not one of {known}; "
            'torch.compile(module, backend="msc") leaves updates to PyTorch'
        )
    out = []
    for i, group in enumerate(optimizer.param_groups):
        where = f"optimizer {type(optimizer).__name__}, group {i}"
        kind, words = translate(group, where)
        unknown = sum(id(p) not in names for p in group["params"])
        if unknown:
            raise Error(f"{where}: {unknown} of its parameters are not the module's")
        own = dict.fromkeys(names[id(p)] for p in group["params"] if p.requires_grad and names[id(p)])
        if own:
            out.append((i, kind, {k: v if isinstance(v, bool) else float(v) for k, v in words.items()}, list(own)))
    return out


def state(optimizer, names):
    """{tensor's name in a file of weights: tensor} of what the optimizer has gathered in steps done before; the number
    of these steps."""
    tensors, steps = {}, 0
    for p, values in optimizer.state.items():
        if not names.get(id(p)):  # the module had it once
            continue
        for suffix, key in STATE[type(optimizer)].items():
            if isinstance(values.get(key), torch.Tensor):
                tensors[f"{names[id(p)]}.{suffix}"] = values[key]
        steps = max(steps, int(values.get("step", 0)))
    if steps:
        tensors["optimizer.step"] = torch.tensor(float(steps))
    return tensors


def count_steps(optimizer, num):
    """Adds steps to the counts that PyTorch keeps though no formula of msc's reads them, so that no plan has them."""
    if type(optimizer) in (torch.optim.Adagrad, torch.optim.RMSprop):
        for p, values in optimizer.state.items():
            if values and p.requires_grad:
                values["step"] = torch.tensor(float(values.get("step", 0)) + num)
