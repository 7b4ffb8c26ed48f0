"""A PyTorch module in; model.fbs and its weights, or the msc.Graph of both, out."""

import contextlib
import os
import warnings

import torch

from msc import fitted
from msc.graph import Graph
from msc.ops import Error
from msc.pytorch import hints, open_sizes, unsorted, weights
from msc.pytorch.aten import DTYPES
from msc.pytorch.capture import capture, flat_inputs, is_recomputed, names_of_values
from msc.pytorch.convert import Converter
from msc.pytorch.optimizer import groups as optimizer_groups
from msc.pytorch.optimizer import state as optimizer_state

_PREFIX = "module."  # of Step, which holds the user's module


class _Export:
    """One export while it goes on."""

    def __init__(self, name, program, weights_file):
        self.g, self.program, self.weights_file = Graph(name), program, weights_file
        self.tensors = {}  # of the weights file
        self.groups = []  # of the optimizer, by number, that train something
        self.names = {}  # id of a torch parameter -> the model's name of it
        self.parameters = {}  # the model's name -> value of the graph
        self.value_of = {}  # the program's name of a parameter or buffer -> value of the graph
        self.convert = Converter(self.g, self.blocks_of, self.keep_large, self.hints_of)

    def blocks_of(self, node):
        """Names of the modules around a node, from the outermost."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = stack[-1][0] if stack else ""
        path = path() if callable(path) else path
        return tuple(p for p in _own_name(path.partition("@")[0]).split(".") if p)

    def hints_of(self, node):
        return {"recompute": True} if is_recomputed(node) else {}

    def keep_large(self, tensor):
        """Makes a constant that is too large for the model's file a parameter that is not trained."""
        name = f"constant{sum(n.startswith('constant') for n in self.tensors) + 1}"
        return self.parameter(name, tensor, False)

    def parameter(self, name, tensor, trainable):
        if tensor.dtype not in DTYPES:
            raise Error(f"parameter {name} has elements of {str(tensor.dtype)[6:]}, which msc lacks")
        self.tensors[name] = tensor
        value = self.g.parameter(
            name, DTYPES[tensor.dtype], list(tensor.shape), weights=(self.weights_file, name), trainable=trainable
        )
        self.parameters[name] = value
        return value


def _own_name(path):
    return path[len(_PREFIX) :] if path.startswith(_PREFIX) else "" if path + "." == _PREFIX else path


def _storage(t):
    return (t.untyped_storage().data_ptr(), t.storage_offset(), tuple(t.shape), t.stride(), t.dtype)


def _place_parameters(e, trained):
    """Values for the program's parameters and buffers: tied ones once; what never changes and is not trained, or has no
    elements, is known."""
    signature, program = e.program.graph_signature, e.program
    changed = set(signature.buffers_to_mutate.values())
    seen, regions = {}, {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        own = signature.inputs_to_parameters.get(node.name)
        buffer = signature.inputs_to_buffers.get(node.name)
        lifted = signature.inputs_to_lifted_tensor_constants.get(node.name)
        if own is None and buffer is None and lifted is None:
            continue
        key = own or buffer or lifted
        tensor = program.state_dict[key] if key in program.state_dict else program.constants[key]
        if (own is None and key not in changed) or not tensor.numel():
            e.convert.values[node] = tensor.detach()
            continue
        identity = _storage(tensor)
        if identity not in seen:
            region = identity[0]
            if region in regions and tensor.numel():
                raise Error(
                    f"parameters {_own_name(regions[region])} and {_own_name(key)} share memory, but are not the same"
                )
            regions[region] = key
            with e.g.at(None, 0, tuple(_own_name(key).split(".")[:-1])):
                is_trained = own is not None and tensor.requires_grad and (trained is None or id(tensor) in trained)
                seen[identity] = e.parameter(_own_name(key), tensor, is_trained)
        e.convert.values[node] = seen[identity]
        e.value_of[key] = seen[identity]


def _name_parameters(e, module):
    """The model's name of every torch parameter, tied ones by the first."""
    by_storage = {_storage(t): name for name, t in e.tensors.items() if isinstance(t, torch.Tensor)}
    return {id(p): by_storage[_storage(p)] for p in module.parameters() if _storage(p) in by_storage}


def _place_inputs(e, given, batch_dims):
    """The model's inputs: the tensors among what was given."""
    signature = e.program.graph_signature
    nodes = {n.name: n for n in e.program.graph.nodes if n.op == "placeholder"}
    user = list(signature.user_inputs)
    if len(user) != len(given):
        raise Error(f"PyTorch's program has {len(user)} inputs, {len(given)} were given")
    batch = next((v.shape[0] for _, v, _ in given if isinstance(v, torch.Tensor) and v.ndim), None)
    for name_in_program, (name, value, is_label) in zip(user, given):
        node = nodes.get(name_in_program) if isinstance(name_in_program, str) else None
        if node is None or not isinstance(value, torch.Tensor):
            continue
        if not node.users:
            continue
        if value.dtype not in DTYPES:
            raise Error(f"input {name} has elements of {str(value.dtype)[6:]}, which msc lacks")
        if 0 in value.shape:
            e.convert.values[node] = value
            continue
        batch_dim = batch_dims.get(name, 0 if value.ndim and value.shape[0] == batch else -1)
        with e.g.at(None, 0):
            e.convert.values[node] = e.g.input(
                name,
                DTYPES[value.dtype],
                [int(size) for size in node.meta["val"].shape],
                role="label" if is_label else "data",
                batch_dim=batch_dim,
            )


def build(
    module,
    example_inputs,
    loss=None,
    optimizer=None,
    *,
    labels=None,
    outputs=None,
    name=None,
    clip_norm=None,
    plan=None,
    mesh=None,
    batch_dims=None,
    dynamic_shapes=None,
    weights_file="model.safetensors",
):
    """(graph, {name: tensor} of the weights file, numbers of the optimizer's groups that train something) of one
    training step, or of inference where there is no loss; the parameters are those of `export`."""
    args, words = _split_inputs(example_inputs)
    labels, args = _split_labels(labels, args, words, loss)
    exported = module if isinstance(module, torch.export.ExportedProgram) else None
    if exported:
        module = _module_of(exported, optimizer)
    given = flat_inputs(args, words, labels, module, names_of_values(module))
    is_asked = dynamic_shapes is not None
    if exported and not is_asked:
        dynamic_shapes = open_sizes.of_program(exported, [n for n, _, _ in given]) or None
    dims = None if dynamic_shapes is None else open_sizes.dimensions(dynamic_shapes, given)
    program, own_calls = capture(module, args, words, loss, labels, outputs, dims, optimizer is not None)
    groups = unsorted.remove(program.graph)
    trained = None if optimizer is None else {id(p) for g in optimizer.param_groups for p in g["params"]}
    marks = hints.collect(module, plan, mesh)

    def translated(sized=frozenset(), is_blind=False):
        e = _Export(name or type(module).__name__, program, weights_file)
        e.convert.own_calls, e.convert.sized, e.convert.is_blind = own_calls, sized, is_blind
        e.convert.groups = groups
        if mesh:
            e.g.mesh(**mesh)
        _place_parameters(e, trained)
        _place_inputs(e, given, batch_dims or {})
        results = e.convert.walk(program.graph, program.graph_module)
        e.convert.complain()
        _finish(e, results, program, optimizer, module, clip_norm)
        hints.apply(e.g, marks)
        return e

    opened = open_sizes.OpenSizes(program)
    if not opened.example:
        e = translated()
    else:
        opened.rename(_size_names(opened, program, given))
        e = _for_all_sizes(translated, opened, is_asked)
    return e.g, e.tensors, e.groups


def _for_all_sizes(translated, opened, is_asked):
    """What `translated` makes of a program for several sizes, joined to one model for all.  Masks that are causal for
    all of them are said so; where that differs, what they hold is not looked at.  Where no model for all sizes is
    possible, and nobody asked for it, it is for the sizes of the examples, after a warning."""
    try:
        return _joined(translated, opened)
    except Error:
        try:
            return _joined(lambda sized: translated(sized, is_blind=True), opened)
        except Error as e:
            if is_asked:
                raise
            warnings.warn(f"{e}: it is", stacklevel=4)
    with opened.at(opened.example):
        return translated()


def _joined(translated, opened):
    points, bounds, made = fitted.sample_points(opened.bounds), dict(opened.bounds), []
    for point in points:
        with opened.at(point):
            made.append(translated(opened.nodes))
    for name, far in fitted.far_points(points, bounds):
        for point in (p for p in far if not opened.is_too_large(p)):
            with contextlib.suppress(open_sizes.TooLarge), opened.at(point), open_sizes.Bounded():
                made.append(translated(opened.nodes))
                points.append(point)
                break
        bounds[name] = bounds[name][0], max(p[name] for p in points)
    for name in made[0].tensors:
        first, *others = [e.tensors.get(name) for e in made]
        if any(t is not first and (t is None or not torch.equal(t, first)) for t in others):
            raise Error(f"{name}, a constant of {first.numel()} elements, depends on a size that is left open")
    fitted.join([e.g for e in made], points, opened.example, bounds)
    return made[0]


def _size_names(opened, program, given):
    """Names that users know: "batch", or "x.1" for dimension 1 of input x; {name by PyTorch: name}."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    batch = next((v.shape[0] for _, v, _ in given if isinstance(v, torch.Tensor) and v.ndim), None)
    names = {}
    for name_in_program, (name, value, _) in zip(program.graph_signature.user_inputs, given):
        node = nodes.get(name_in_program) if isinstance(name_in_program, str) else None
        for d, size in enumerate(node.meta["val"].shape if node and isinstance(value, torch.Tensor) else ()):
            own = opened.name_of(size)
            if own:
                is_batch = d == 0 and value.shape[0] == batch and "batch" not in names.values()
                names.setdefault(own, "batch" if is_batch else f"{name}.{d}")
    return names


def _module_of(program, optimizer):
    """What an exported program does, for inputs of any of its sizes."""
    if optimizer is not None:
        raise Error("an exported program is for inference: give the module itself to train it")
    module = program.module()
    module.train = lambda mode=True: torch.nn.Module.train(module, mode)  # it refuses; its mode was fixed when exported
    return module


def _finish(e, results, program, optimizer, module, clip_norm):
    user = []
    for spec, value in zip(program.graph_signature.output_specs, results):
        kind = spec.kind.name
        if kind == "BUFFER_MUTATION":
            parameter = e.value_of[spec.target]
            with e.g.at(None, 0):
                e.g.new_value(parameter, _as_value(e, value))
        elif kind == "USER_OUTPUT":
            user.append(value)
        else:
            what = {"USER_INPUT_MUTATION": "input", "PARAMETER_MUTATION": "parameter"}.get(kind, kind)
            raise Error(f"the module writes into its {what} {_own_name(str(spec.target or spec.arg.name))}")
    loss, outputs = torch.utils._pytree.tree_unflatten(user, program.call_spec.out_spec)
    with e.g.at(None, 0):
        for name, value in outputs.items():
            if isinstance(value, torch.Tensor) and 0 in value.shape:
                continue
            e.g.output(name, _as_value(e, value))
        if loss is None and optimizer is not None:
            raise Error("an optimizer needs a loss: give one, or let the module return it as `loss`")
        if loss is not None:
            loss = _as_value(e, loss)
            if loss.shape:
                raise Error(f"the loss has the shape {list(loss.shape)}; it must be one number")
            e.g.loss(loss)
    if optimizer is None:
        return
    names = _name_parameters(e, module)
    for p in module.parameters():
        names.setdefault(id(p), None)
    extra = {"clip_norm": float(clip_norm)} if clip_norm else {}
    for number, kind, attrs, own in optimizer_groups(optimizer, names):
        e.g.optimizer(kind, parameters=own, **attrs, **extra)
        e.groups.append(number)
    e.tensors.update(optimizer_state(optimizer, names))


def _as_value(e, value):
    return e.convert.constant(value) if isinstance(value, torch.Tensor) else value


def _split_inputs(example_inputs):
    """Positional inputs and inputs by name."""
    if isinstance(example_inputs, dict):
        return (), dict(example_inputs)
    return (tuple(example_inputs) if isinstance(example_inputs, (list, tuple)) else (example_inputs,)), {}


def _split_labels(labels, args, words, loss):
    """Labels by name; without any said, the last example input goes to the loss, as it is."""
    if labels is None and loss is None:
        return {}, args
    if labels is None:
        if len(args) < 2:
            raise Error("the last example input goes to the loss: give (inputs..., labels), or labels=")
        return {"y": args[-1]}, args[:-1]
    if isinstance(labels, dict):
        return dict(labels), args
    if isinstance(labels, (list, tuple)):
        return {f"y{i}": v for i, v in enumerate(labels)}, args
    return {"y": labels}, args


def export(module, example_inputs, loss=None, optimizer=None, out="model.fbs", **words):
    """Writes the model `out` and, beside it, its weights: the same name with .safetensors.  Gives the model's path.

        msc.export(net, (x, y), loss=torch.nn.functional.cross_entropy, optimizer=torch.optim.AdamW(net.parameters()))

    module          a torch.nn.Module, in training mode for a model that is to be trained; or, for inference, what
                    torch.export.export made of one, whose symbolic sizes stay open, as those of dynamic_shapes
    example_inputs  a tensor, a tuple, or a dictionary by name: what the module is called with.  Sizes are those of the
                    examples.  With a loss the last one is the label, which may be a tuple or a dictionary of several,
                    unless `labels` are given
    loss            called as loss(output, label); absent: the module returns it, alone or as `loss`
    optimizer       torch.optim.SGD, Adam or AdamW, with its parameter groups and the state it already has
    labels          what the loss is called with behind the output: a tensor, a tuple or a dictionary by name
    outputs         names of the outputs that the model keeps; absent: all tensors that the module returns
    name            the model's name; clip_norm: bound of the norm of all gradients together
    plan            {pattern of module names: "colwise", "rowwise" or a ParallelStyle}, as of parallelize_module; needs
    mesh            {"dp": 2, "tp": 4}: names and sizes of the mesh's axes; tp is the one that the plan cuts by
    batch_dims      {input: the dimension that is the batch, -1 for none}, where it is not the first one
    dynamic_shapes  sizes that `msc compile --dim NAME=SIZE` changes, as torch.export takes them: {"x": {0: Dim("n")}};
                    "batch": the first dimension of all inputs that are as long there as the first input.  Without
                    --dim they are those of the examples.  What follows from them, as far as it is sums and products, is
                    checked up to the Dim's max, at most 65,536, and larger sizes are refused then

    Inputs have the names of the parameters of `forward`, labels those of `labels`, else `y`; a name that a parameter of
    the module or another input has gets an underscore behind it.

    What torch.utils.checkpoint wraps is computed again in the backward, what torch.autocast casts is cast.

    Raises msc.Error: what msc cannot translate is all listed at once, with the places in the module's source."""
    out = os.fspath(out)
    base = out[: -len(".fbs")] if out.endswith(".fbs") else out
    graph, tensors, groups = build(
        module, example_inputs, loss, optimizer, weights_file=os.path.basename(base) + ".safetensors", **words
    )
    for i in groups:
        if "initial_lr" in optimizer.param_groups[i]:
            rate = float(optimizer.param_groups[i]["lr"])
            warnings.warn(
                f"optimizer {type(optimizer).__name__}, group {i}: a scheduler changes its learning rate; the model "
                f"takes what it is now, {rate}",
                stacklevel=2,
            )
    graph.encode()  # what is wrong with the model is said before anything is written
    weights.write(base + ".safetensors", tensors)
    graph.save(out)
    return out
