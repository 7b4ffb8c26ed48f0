#!/usr/bin/env python3
"""train_zoo.py [--steps N] [--ranks 1,4] [--lr RATE] [--keep DIR] NAME...: each network of zoo.py exported by one call,
trained by msc and judged by PyTorch in f64.  A line each; exit code 1 if one is wrong."""

import argparse
import inspect
import logging
import os
import sys
import tempfile
import time
import warnings

from framework import Judge, compile_model, need, train, without_dropout

need("torch", "numpy")


def try_one(name, args, folder):
    """A line of what was seen; True if all is right."""
    import torch

    import msc
    import zoo

    module, inputs = zoo.make(name)
    without_dropout(module.train())
    model, start = os.path.join(folder, "model.fbs"), time.time()
    msc.export(module, inputs, optimizer=torch.optim.SGD(module.parameters(), args.lr), out=model)
    exported = time.time() - start
    judge = Judge(module, inputs, lambda p: torch.optim.SGD(p, args.lr), args.steps)
    names = [f"values{i}" for i in range(len(inputs))] if isinstance(module, zoo.WithLoss) else None
    data = {n: v.numpy() for n, v in zip(names or inspect.signature(module.forward).parameters, inputs)}
    said, right = [f"export {exported:.1f} s"], True
    for ranks in args.ranks:
        plan, start = os.path.join(folder, f"plan{ranks}.bin"), time.time()
        compile_model(model, plan, ranks)
        took = time.time() - start
        losses, state = train(plan, data, args.steps, ranks, os.path.join(folder, "model.safetensors"), folder)
        loss, parameter, worst = judge.errors(losses, state)
        good = loss <= 1 and parameter <= 1
        right = right and good
        said.append(
            f"{ranks} ranks {'right' if good else 'WRONG'}: of what is allowed losses {loss:.2g}, "
            f"parameters {parameter:.2g}"
            f"{'' if good else f' ({worst}; losses {losses} for {judge.exact})'}, compiled in {took:.1f} s"
        )
    return right, "; ".join(said)


def main(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4])
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--keep")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args(words)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    right = True
    for name in args.names:
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.keep or temporary
            os.makedirs(folder, exist_ok=True)
            try:
                good, text = try_one(name, args, folder)
            except (AssertionError, ValueError, RuntimeError) as e:
                good, text = False, f"{type(e).__name__}: {e}"
        right = right and good
        print(f"{name}: {text}", flush=True)
    sys.exit(not right)


if __name__ == "__main__":
    main()
