"""The built-in networks.  The data input is called x, the labels y.

A network is a function (graph, options) that builds the forward graph with its loss; @network says which options it has
beyond those that all have.  Adding one is a function in a file of this folder, imported at the end of this one."""
from collections import namedtuple

Network = namedtuple("Network", "name build line flags")
Flag = namedtuple("Flag", "default help")

NETWORKS = {}


def network(**flags):
    """Registers a function as the network of its name; flags: name=(default, help), where a default of False is a
    switch, a list an option that may be repeated, a number one of at least 1 (or 0 where that is the default), a
    fraction below 1 a share, another one any above 0, a tuple of words a choice whose first is the default."""

    def register(build):
        NETWORKS[build.__name__] = Network(build.__name__, build, build.__doc__.strip().split("\n")[0],
                                           {k: Flag(*v) for k, v in flags.items()})
        return build

    return register


from msc.models import dense, residual, sparse, transformer  # noqa: E402,F401
