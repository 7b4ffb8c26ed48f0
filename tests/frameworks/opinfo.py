#!/usr/bin/env python3
"""opinfo.py [--ops REGEX] [--from N] [--until N] [--per-model N] [--failures]: PyTorch's own samples of its core ATen
operations, f32, translated, compiled and executed many to a model; results and gradients beside eager PyTorch.  Prints
how many of how many agree.  Samples do not count that PyTorch does not compute, or whose numbers are random.
"""

import argparse
import collections
import logging
import os
import re
import sys
import tempfile
import warnings

from framework import MSC, as_double, msc, need

need("torch", "numpy", "expecttest")
import torch  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from msc import runtime  # noqa: E402
from msc.graph import Graph  # noqa: E402
from msc.ops import Error  # noqa: E402
from msc.pytorch.aten import DTYPES, FLOATS, ROWS, Call  # noqa: E402
from msc.pytorch.convert import Converter  # noqa: E402
from msc.pytorch.weights import write  # noqa: E402

RATE = 1024.0  # of the step from which gradients are read: large, so that little of them is rounded away


class Sample:
    """One call with its tensors, what PyTorch gives and, when translated, its values in the graph."""

    def __init__(self, name, function, sample):
        self.name, self.why = name, {}
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.where = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        self.tensors = [leaves[i].detach().clone() for i in self.where]
        if any(t.layout != torch.strided for t in self.tensors):
            self.why["translate"] = "a sparse tensor"
        else:
            self.tensors = [t.contiguous() for t in self.tensors]

        def call(*tensors):
            own = list(leaves)
            for i, t in zip(self.where, tensors):
                own[i] = t
            x, args, words = pytree.tree_unflatten(own, spec)
            return [v for v in pytree.tree_leaves(function(x, *args, **words)) if isinstance(v, torch.Tensor)]

        self.call = call
        self.text = f"{name}({sample.summary() if hasattr(sample, 'summary') else ''})"[:300]

    def expect(self):
        """PyTorch's results, and the gradients of their products with random weights, in f32 and in f64."""
        self.results = [r.detach() for r in self.call(*[t.clone() for t in self.tensors])]
        self.check_repeats()
        generator = torch.Generator().manual_seed(1)
        self.weights = [torch.rand(r.shape, generator=generator) + 0.5 for r in self.results]
        self.gradients, self.differentiable = self.differentiate(self.tensors)
        self.exact = self.differentiate([as_double(t) for t in self.tensors])[0] if self.gradients else None

    def check_repeats(self):
        """Raises ValueError where PyTorch itself gives other numbers each time: drawn, or left as they were."""
        torch.use_deterministic_algorithms(True, warn_only=True)  # which fills what is left
        try:
            again = self.call(*[t.clone() for t in self.tensors])
        finally:
            torch.use_deterministic_algorithms(False)
        try:
            torch.testing.assert_close([r.detach() for r in again], self.results, rtol=1e-4, atol=1e-4, equal_nan=True)
        except AssertionError:
            raise ValueError("other numbers each time") from None

    def differentiate(self, tensors):
        """The tensors' gradients, None where PyTorch has none, and which results are differentiable."""
        leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
        differentiable = [False] * len(self.results)
        try:
            results = self.call(*[t * 1 if t.requires_grad else t for t in leaves])
            terms = [(r * w).sum() for r, w in zip(results, self.weights) if r.requires_grad]
            differentiable = [r.requires_grad for r in results]
            if terms:
                sum(terms).backward()
                return [t.grad.to_dense() if t.grad is not None else None for t in leaves], differentiable
        except (RuntimeError, NotImplementedError):
            pass
        return None, differentiable

    def is_near_exact(self, i, mine):
        """Is a gradient at most three times as far from that in f64 as PyTorch's in f32 is, where each is furthest?"""
        exact, theirs = self.exact and self.exact[i], self.gradients[i]
        if exact is None or exact.dtype != torch.float64:
            return False
        furthest = float((theirs - exact).abs().max())
        return bool(((mine - exact).abs() <= 3 * furthest + 1e-5 + 1e-4 * exact.abs()).all())

    def translate(self, g, number):
        """Adds the call to a graph; False: it cannot be translated, and `why` says so."""
        try:
            traced = make_fx(self.call, tracing_mode="fake", pre_dispatch=True)(*self.tensors)
            if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in traced.graph.nodes):
                traced = make_fx(torch.func.functionalize(self.call), tracing_mode="fake")(*self.tensors)
        except Exception as e:  # whatever PyTorch says
            self.why["trace"] = f"{type(e).__name__}: {str(e)[:200]}"
            return False
        if any(torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()) for n in traced.graph.nodes):
            self.why["torch"] = "random numbers, of which msc has its own"
            return False
        convert = Converter(g)
        self.parameters, self.outputs = [], []
        for i, (node, t) in enumerate(zip((n for n in traced.graph.nodes if n.op == "placeholder"), self.tensors)):
            name = f"s{number}.p{i}"
            if t.dtype not in DTYPES:
                self.why["translate"] = f"elements of {t.dtype}"
                return False
            if 0 in t.shape:
                convert.values[node] = t
                self.parameters.append(None)
                continue
            trained = t.is_floating_point() and self.gradients is not None and self.gradients[i] is not None
            convert.values[node] = g.parameter(name, DTYPES[t.dtype], list(t.shape), init="zeros", trainable=trained)
            self.parameters.append((name, trained))
        try:
            values = convert.walk(traced.graph, traced)
        except Exception as e:  # a fault of a row counts as a failure of this sample
            self.why["translate"] = f"{type(e).__name__}: {e}"
            return False
        if convert.faults:
            self.why["translate"] = str({k: v[0][0] for k, v in convert.faults.items()})
            return False
        self.terms = []
        for i, (value, result) in enumerate(zip(values, self.results)):
            if isinstance(value, torch.Tensor):
                if 0 in value.shape:
                    self.outputs.append(None)
                    continue
                value = convert.constant(value)
            if value is None or not result.numel():
                if result.numel():
                    self.why["translate"] = "a result is missing"
                    return False
                self.outputs.append(None)
                continue
            if tuple(value.shape) != tuple(result.shape) or value.dtype != DTYPES[result.dtype]:
                self.why["translate"] = f"{value} where PyTorch has {result.dtype} {list(result.shape)}"
                return False
            self.outputs.append((f"s{number}.y{i}", value) if value.op else None)  # none: an operand as it was
            if self.differentiable[i] and self.gradients is not None:
                c = Call(convert, "opinfo", [("f32", ())])
                product = g.mul(c.t(value, "f32"), c.t(self.weights[i], "f32"))
                self.terms.append(
                    g.reduce_sum(product, list(range(len(product.shape)))) if product.shape else product
                )
        return True

    def try_without_gradients(self, folder):
        """Evaluation normalizes by running statistics: results of training are those of a model without a loss."""
        gradients, self.gradients, before, self.why = self.gradients, None, self.why, {}
        run_all([self], folder)
        self.why = {**self.why, **{k: v for k, v in before.items() if k == "gradient"}}
        self.gradients = gradients

    def compare(self, outputs, parameters, start):
        words = dict(rtol=1.3e-6, atol=1e-5, equal_nan=True)
        for output, result in zip(self.outputs, self.results):
            if output is None:
                continue
            mine = torch.frombuffer(bytearray(outputs[output[0]]), dtype=result.dtype).reshape(result.shape)
            try:
                torch.testing.assert_close(mine, result, **words)
            except AssertionError as e:
                self.why["forward"] = " ".join(str(e).split())[:300]
        for i, (entry, t, gradient) in enumerate(zip(self.parameters, start, self.gradients or [])):
            if entry and entry[1]:
                mine = (t.double() - parameters[entry[0]].double()) / RATE
                mine = torch.where(t.isfinite(), mine, gradient.double())  # read from the step, which these hide
                scale = float(t.abs().nan_to_num(0, 0, 0).max()) / RATE
                try:
                    torch.testing.assert_close(
                        mine.float(), gradient, rtol=1e-4, atol=1e-5 + 1e-6 * scale, equal_nan=True
                    )
                except AssertionError as e:
                    if self.is_near_exact(i, mine):
                        continue
                    self.why["gradient"] = " ".join(str(e).split())[:300]


def run_model(samples, folder):
    """Translates, compiles and executes; raises Error if the whole model fails."""
    g, done = Graph("opinfo"), []
    for number, s in enumerate(samples):
        s.why.pop("run", None)
        before = len(g._ops), len(g._parameters)
        if s.translate(g, number):
            done.append(s)
        elif (len(g._ops), len(g._parameters)) != before:
            return run_model([x for x in samples if not x.why], folder)  # nothing of it stays in the graph
    if not done:
        return
    x = g.input("x", "f32", [1])
    total = g.reduce_sum(x, [0])
    for s in done:
        for name, value in filter(None, s.outputs):
            g.output(name, value)
        for term in s.terms:
            total = g.add(total, term)
    trained = [p["name"] for p in g._parameters if p["trainable"]]
    if trained:
        g.loss(total)
        g.optimizer("sgd", parameters=trained, lr=RATE)
    if not trained and not any(any(s.outputs) for s in done):
        return
    path = os.path.join(folder, "model")
    g.save(path + ".fbs")
    stored = {}
    for s in done:
        for entry, t in zip(s.parameters, s.tensors):
            if entry:
                stored[entry[0]] = t
    write(path + ".safetensors", stored)
    try:
        msc("compile", path + ".fbs", "-o", path + ".bin")
        execute(done, path, stored, bool(trained))
    except (AssertionError, runtime.Error) as e:
        raise Error(str(e)) from None


def execute(samples, path, stored, has_loss):
    from safetensors.torch import load_file

    with runtime.Plan(path + ".bin", library=os.path.join(os.path.dirname(MSC), "libmscrt.so")) as plan:
        plan.load(path + ".safetensors")
        names = [name for s in samples for name, _ in filter(None, s.outputs)]
        outputs, one = {}, torch.zeros(1).numpy()
        if names:
            plan.run("forward", names[0], x=one)
        for name in names:
            kind, shape = plan.outputs["forward", name]
            outputs[name] = bytes(plan._read(name, kind, shape))
        parameters = {}
        if has_loss:
            plan.run("train", x=one)
            plan.save(path + ".after.safetensors")
            parameters = load_file(path + ".after.safetensors")
    for s in samples:
        s.compare(outputs, parameters, [stored.get(e[0]) if e else None for e in s.parameters])


def run_all(samples, folder):
    """As one model; where that fails each half by itself."""
    samples = [s for s in samples if not s.why]
    if not samples:
        return
    try:
        run_model(samples, folder)
    except Error as e:
        if len(samples) == 1 and ("E0115" in str(e) or "E0111" in str(e)) and samples[0].gradients is not None:
            # the result is an operand as it was, or its gradient is zero: msc refuses to train nothing
            return samples[0].try_without_gradients(folder)
        if len(samples) == 1:
            samples[0].why["run"] = " ".join(str(e).split())[-400:]
        else:
            run_all(samples[: len(samples) // 2], folder)
            run_all(samples[len(samples) // 2 :], folder)


def core_names():
    names = set()
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::"):
            packet, _, overload = full[6:].partition(".")
            try:
                op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            except (AttributeError, RuntimeError):
                continue
            if torch.Tag.core in op.tags:
                names.add(f"{packet}.{overload or 'default'}")
    return names


def samples_of(pattern):
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    packets = {n.partition(".")[0].strip("_") for n in core_names()}
    for info in op_db:
        plain = info.name.rpartition(".")[2]
        known = {plain, getattr(info, "aten_name", None) or plain, (info.aten_name or plain).strip("_")}
        if not known & packets or not re.search(pattern, info.name) or torch.float32 not in info.dtypes:
            continue
        for sample in info.sample_inputs("cpu", torch.float32):
            yield Sample(
                info.name + ("." + info.variant_test_name if info.variant_test_name else ""), info.op, sample
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default="")
    parser.add_argument("--per-model", type=int, default=40)
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th sample")
    parser.add_argument("--from", type=int, default=0, dest="first", help="only samples from this one on")
    parser.add_argument("--until", type=int, help="only samples before this one")
    parser.add_argument("--failures", action="store_true", help="say of each sample that fails why, at once")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    samples = []
    for s in list(samples_of(args.ops))[args.first : args.until : args.every]:
        if s.why:
            samples.append(s)
            continue
        try:
            s.expect()
        except Exception as e:  # PyTorch itself does not compute this sample
            s.why["torch"] = f"{type(e).__name__}: {e}"
        samples.append(s)
    samples = [s for s in samples if "torch" not in s.why]
    with tempfile.TemporaryDirectory() as folder:
        for at in range(0, len(samples), args.per_model):
            run_all(samples[at : at + args.per_model], folder)
            for s in samples[at : at + args.per_model]:
                if "forward" in s.why:  # beside a loss it was evaluation
                    s.try_without_gradients(folder)
            print(f"{min(at + args.per_model, len(samples))} of {len(samples)}", file=sys.stderr, flush=True)
            for s in samples[at : at + args.per_model] if args.failures else ():
                if s.why:
                    print(f"{s.name}: {s.why}", flush=True)
    samples = [s for s in samples if "torch" not in s.why]
    by_name = collections.defaultdict(list)
    for s in samples:
        by_name[s.name].append(s)
    for name, own in by_name.items():
        if any(s.why for s in own):
            print(f"{name}: {sum(not s.why for s in own)} of {len(own)}")
    right = sum(not (set(s.why) - {"gradient"}) for s in samples)
    both = sum(not s.why for s in samples)
    whole = sum(not any(s.why for s in own) for own in by_name.values())
    rows = core_names()
    print(f"operations {len(by_name)}, all samples right of {whole}")
    print(f"samples {len(samples)}: results right {right}, gradients too {both}")
    print(
        f"core ATen overloads {len(rows)}, with a row {len(rows & set(ROWS))}; without:",
        *sorted(rows - set(ROWS)),
    )


if __name__ == "__main__":
    main()
