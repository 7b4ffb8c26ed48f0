"""python3 -m msc.models NAME -o model.fbs: writes one of the built-in networks."""
import argparse
import ast
import sys

from msc.graph import OPTIMIZERS, Graph
from msc.models import NETWORKS
from msc.ops import Error


def strategy(text):
    """dense1=((2,4),(4,1))"""
    name, equals, value = text.partition("=")
    try:
        parts = ast.literal_eval(value)
        if not name or not equals or not all(isinstance(p, int) for entry in parts for p in entry):
            raise ValueError
    except (ValueError, SyntaxError, TypeError):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form OP=((2,4),(4,1))") from None
    return name, parts


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def number(text):
    return 0 if text == "0" else positive(text)


def share(text):
    try:
        value = float(text)
        if not 0 <= value < 1:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to below 1") from None
    return value


def factor(text):
    try:
        value = float(text)
        if not 0 < value <= 1e6:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0") from None
    return value


def batch(text):
    return -1 if text == "-1" else positive(text)


def common():
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("-o", dest="out", required=True, metavar="FILE", help="the file to write")
    p.add_argument("--batch", type=batch, default=32, metavar="N",
                   help="samples per step (32); -1: given later by msc compile --dim batch=N")
    p.add_argument("--optimizer", choices=OPTIMIZERS, default="momentum")
    p.add_argument("--lr", type=float, default=1e-3, help="learning rate (0.001)")
    p.add_argument("--momentum", type=float, default=0.1, help="of the optimizers momentum and rmsprop_momentum (0.1)")
    p.add_argument("--lazy", action="store_true", help="update the rows of tables that a step looks up, and no others")
    p.add_argument("--weight-decay", type=float, default=None)
    p.add_argument("--strategy", type=strategy, action="append", default=[], metavar="OP=((..),(..))",
                   help="in_strategy of an op; may be repeated")
    return p


def add_flag(parser, name, flag):
    option, default = "--" + name.replace("_", "-"), flag.default
    if default is False:
        parser.add_argument(option, action="store_true", help=flag.help)
    elif isinstance(default, list):
        parser.add_argument(option, action="append", default=[], metavar="NAME", help=flag.help)
    elif isinstance(default, tuple):
        parser.add_argument(option, choices=default, default=default[0], help=f"{flag.help} ({default[0]})")
    else:
        kind = factor if isinstance(default, float) and default >= 1 else share if isinstance(default,
            float) else positive if default else number
        parser.add_argument(option, type=kind, default=default, metavar="N", help=f"{flag.help} ({default})")


def parse(argv):
    p = argparse.ArgumentParser(prog="python3 -m msc.models",
                                description="Writes one of the built-in networks as model.fbs.")
    names = p.add_subparsers(dest="model", required=True, metavar="NAME")
    shared = common()
    for n in NETWORKS.values():
        one = names.add_parser(n.name, parents=[shared], help=n.line, description=n.line)
        for name, flag in n.flags.items():
            add_flag(one, name, flag)
    return p.parse_args(argv)


def build(options):
    g = Graph(options.model)
    NETWORKS[options.model].build(g, options)
    attrs = {"lr": options.lr}
    if options.optimizer in ("momentum", "rmsprop_momentum"):
        attrs["momentum"] = options.momentum
    if options.weight_decay is not None:
        attrs["weight_decay"] = options.weight_decay
    if options.lazy:
        attrs["lazy"] = True
    g.optimizer(options.optimizer, **attrs)
    for name, parts in options.strategy:
        g.annotate(name, in_strategy=parts)
    return g


def main(argv):
    options = parse(argv)
    try:
        build(options).save(options.out)
    except (Error, OSError) as e:
        sys.exit(f"msc.models: error: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
