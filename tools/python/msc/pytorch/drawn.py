"""A functional FX graph in; ops of a msc.Graph out, whose random numbers are inputs: PyTorch draws them before each
call, from its own generator, so that they are those of PyTorch in the order of the graph."""

import torch

from msc.pytorch.aten import DTYPES, RANDOM, Call, Refused
from msc.pytorch.convert import Converter, name_of

# These look at no element of their tensors, only at shapes and element types.
_BY_SHAPE = {
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli.p",
    "uniform",
    "normal_functional",
    "exponential",
    "geometric",
    "cauchy",
    "log_normal",
    "native_dropout",
}

# These could draw, but PyTorch takes them only where nothing is to be drawn.
_CALM = {"_scaled_dot_product_flash_attention_for_cpu.default"}


def _stand_in(val):
    return torch.empty_strided(val.shape, val.stride(), dtype=val.dtype)


class DrawnConverter(Converter):
    """new_input(name, like) makes an input of the graph.  drawn: its name -> a function that draws its elements."""

    def __init__(self, graph, new_input):
        super().__init__(graph)
        self._new_input, self.drawn = new_input, {}

    def _result(self, node):
        name = name_of(node.target)
        draws = name in RANDOM or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if name in _CALM or not draws:
            return super()._result(node)
        tensors = node.all_input_nodes
        if tensors and name not in _BY_SHAPE and name.partition(".")[0] not in _BY_SHAPE:
            raise Refused("its random numbers depend on a tensor; msc.train_step has some of these")
        val = node.meta["val"]
        dropout = name.startswith("native_dropout")
        if dropout and not (node.args[2] is not False and node.args[1]):
            x = self.of(node.args[0])
            return [x, torch.ones(x.shape, dtype=torch.bool)]
        if not dropout and isinstance(val, (list, tuple)):
            raise Refused("it draws several tensors")

        def draw():
            arguments, words = torch.fx.map_arg((node.args, node.kwargs), lambda n: _stand_in(n.meta["val"]))
            result = node.target(*arguments, **words)
            return (result[1] if dropout else result).contiguous()

        new = f"drawn{len(self.drawn)}"
        value = self._new_input(new, val[1] if dropout else val)
        self.drawn[new] = draw
        return self._dropped(node, value) if dropout else value

    def _dropped(self, node, keep):
        c = Call(self, "native_dropout.default", [(DTYPES[v.dtype], tuple(v.shape)) for v in node.meta["val"]])
        factor = c.mul(c.t(keep), 1 / (1 - node.args[1]) if node.args[1] < 1 else 0.0)
        return [self.g.mul(c.t(self.of(node.args[0])), factor), keep]
