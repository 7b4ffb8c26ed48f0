"""A PyTorch module in; model.fbs and its weights, or the msc.Graph of both, out."""

import os
import warnings

import torch

from msc.graph import Graph
from msc.ops import Error
from msc.pytorch import hints, weights
from msc.pytorch.aten import DTYPES
from msc.pytorch.capture import capture, flat_inputs, is_recomputed
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
    """Values for the program's parameters and buffers: tied ones once, what never changes and is not trained known."""
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
        if own is None and key not in changed:
            e.convert.values[node] = tensor
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
                list(value.shape),
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
    weights_file="model.safetensors",
):
    """(graph, {name: tensor} of the weights file, numbers of the optimizer's groups that train something) of one
    training step, or of inference where there is no loss; the parameters are those of `export`."""
    if isinstance(module, torch.export.ExportedProgram):
        module = _module_of(module, optimizer)
    args, words = _split_inputs(example_inputs)
    labels, args = _split_labels(labels, args, words, loss)
    program, own_calls = capture(module, args, words, loss, labels, outputs)
    e = _Export(name or type(module).__name__, program, weights_file)
    e.convert.own_calls = own_calls
    trained = None if optimizer is None else {id(p) for g in optimizer.param_groups for p in g["params"]}
    if mesh:
        e.g.mesh(**mesh)
    marks = hints.collect(module, plan, mesh)
    _place_parameters(e, trained)
    _place_inputs(e, flat_inputs(args, words, labels, module), batch_dims or {})
    results = e.convert.walk(program.graph, program.graph_module)
    e.convert.complain()
    _finish(e, results, program, optimizer, module, clip_norm)
    hints.apply(e.g, marks)
    return e.g, e.tensors, e.groups


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
    """Labels by name; without any said, the last example input goes to the loss."""
    if labels is None and loss is None:
        return {}, args
    if labels is None:
        if len(args) < 2:
            raise Error("the last example input goes to the loss: give (inputs..., labels), or labels=")
        labels, args = args[-1], args[:-1]
    if isinstance(labels, dict):
        return dict(labels), args
    if isinstance(labels, (list, tuple)):
        return {f"y{i}": v for i, v in enumerate(labels)}, args
    return {"y": labels}, args


def export(module, example_inputs, loss=None, optimizer=None, out="model.fbs", **words):
    """Writes the model `out` and, beside it, its weights: the same name with .safetensors.  Gives the model's path.

        msc.export(net, (x, y), loss=torch.nn.functional.cross_entropy, optimizer=torch.optim.AdamW(net.parameters()))

    module          a torch.nn.Module, in training mode for a model that is to be trained; or, for inference, what
                    torch.export.export made of one, whose symbolic sizes become those of the examples
    example_inputs  a tensor, a tuple, or a dictionary by name: what the module is called with.  Sizes are those of the
                    examples.  With a loss the last one is the label, unless `labels` are given
    loss            called as loss(output, label); absent: the module returns it, alone or as `loss`
    optimizer       torch.optim.SGD, Adam or AdamW, with its parameter groups and the state it already has
    labels          what the loss is called with behind the output: a tensor, a tuple or a dictionary by name
    outputs         names of the outputs that the model keeps; absent: all tensors that the module returns
    name            the model's name; clip_norm: bound of the norm of all gradients together
    plan            {pattern of module names: "colwise", "rowwise" or a ParallelStyle}, as of parallelize_module; needs
    mesh            {"dp": 2, "tp": 4}: names and sizes of the mesh's axes; tp is the one that the plan cuts by
    batch_dims      {input: the dimension that is the batch, -1 for none}, where it is not the first one

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
