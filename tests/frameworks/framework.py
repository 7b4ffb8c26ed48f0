"""What tests with heavy packages share: finding a Python that has them, and models trained by msc beside PyTorch."""

import copy
import importlib.util
import json
import os
import subprocess
import sys

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))


def need(*packages):
    """Runs this script again by MSC_FRAMEWORKS_PYTHON if a package is missing here; without that says so and ends."""
    missing = [p for p in packages if not importlib.util.find_spec(p)]
    other = os.environ.get("MSC_FRAMEWORKS_PYTHON")
    if missing and other and os.path.abspath(other) != os.path.abspath(sys.executable):
        os.execv(other, [other] + sys.argv)
    if missing:
        print(f"skipped: {', '.join(missing)} cannot be imported (MSC_FRAMEWORKS_PYTHON may name a Python that can)")
        sys.exit(0)


def msc(*words):
    """What `msc` prints, or an AssertionError with its messages."""
    done = subprocess.run([MSC, *map(str, words)], capture_output=True, text=True)
    assert (
        done.returncode == 0
    ), f"msc {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout


def compile_model(model, plan, ranks=1, **keys):
    if ranks > 1:
        keys = {"device_num": ranks, "parallel_mode": "auto_parallel", **keys}
    msc("compile", model, "-o", plan, *(w for k, v in keys.items() for w in ("--set", f"{k}={v}")))


def train(plan, inputs, steps, ranks=1, init=None, folder=".", threads=1):
    """({input: array}, one batch that every step sees) -> losses, {parameter: array after the last step}."""
    import numpy as np

    words = []
    for name, value in inputs.items():
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, value)
        words += ["--data", f"{name}={path}"]
    after = os.path.join(folder, "after.safetensors")
    words += ["--init", init] if init else []
    out = msc(
        "run",
        plan,
        "-n",
        ranks,
        *words,
        "--in-order",
        "--steps",
        steps,
        "--save",
        after,
        "--threads",
        threads,
        "--json",
    )
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [line["loss"] for line in lines if "loss" in line], read_tensors(after)


def read_tensors(path):
    """{name: numpy array} of a safetensors file."""
    import numpy as np

    types = {
        "F32": "f4",
        "F64": "f8",
        "F16": "f2",
        "I64": "i8",
        "I32": "i4",
        "I16": "i2",
        "I8": "i1",
        "U8": "u1",
        "BOOL": "?",
    }
    with open(path, "rb") as f:
        data = f.read()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return {
        name: np.frombuffer(data[end + t["data_offsets"][0] : end + t["data_offsets"][1]], types[t["dtype"]]).reshape(
            t["shape"]
        )
        for name, t in header.items()
        if name != "__metadata__"
    }


# ---- the judge: PyTorch in f64 ----


def as_double(value):
    return value.double() if value.is_floating_point() else value


def torch_steps(module, inputs, optimizer_of, steps, double=False, disturbed=0):
    """Losses and the state after training a copy of a module whose forward gives the loss; with `disturbed`, a number
    other than 0, its weights begin a rounding away, as that number draws it."""
    import torch

    m = copy.deepcopy(module)
    if double:
        m, inputs = m.double(), tuple(as_double(v) for v in inputs)
        for part in m.modules():  # grouped products have no f64
            if getattr(getattr(part, "config", None), "_experts_implementation", None):
                part.config._experts_implementation = "eager"
    if disturbed:
        generator = torch.Generator().manual_seed(disturbed)
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(1 + 6e-8 * (2 * torch.rand(p.shape, generator=generator) - 1))
    optimizer, losses, before = optimizer_of(m.parameters()), [], torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else before)  # of tensors that the forward makes
    try:
        for _ in range(steps):
            loss = m(*inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    finally:
        torch.set_default_dtype(before)
    return losses, {k: v.double() for k, v in m.state_dict().items()}


class Judge:
    """Runs by PyTorch: f64, f32, and four of f32 whose weights are disturbed in the last bit, as some networks magnify
    that.  What msc gives may be three times as far from f64 as the worst of the others, and a rounding of f32."""

    def __init__(self, module, inputs, optimizer_of, steps):
        run = (module, inputs, optimizer_of, steps)
        self.before = {k: v.double().clone() for k, v in module.state_dict().items()}
        self.exact, self.state = torch_steps(*run, double=True)
        self.others = [torch_steps(*run, disturbed=number) for number in (0, 7, 8, 9, 10)]

    def errors(self, losses, state):
        """Worst ratio of an error to what is allowed, for losses and for parameters: 1 and less is right."""
        import torch

        worst_loss, allowed = 0.0, 0.0
        assert len(losses) == len(self.exact), (losses, self.exact)
        for i, (loss, exact) in enumerate(zip(losses, self.exact)):
            allowed = max([allowed] + [3 * abs(other[0][i] - exact) for other in self.others])
            ratio = abs(loss - exact) / (allowed + 1e-6 * abs(exact))
            worst_loss = max(worst_loss, ratio) if ratio == ratio else float("inf")
        worst, name_of_worst = 0.0, None
        for name, value in state.items():
            if name not in self.state:
                continue
            exact, value = self.state[name], torch.from_numpy(value.copy()).double()
            allowed = 3 * max(float((other[1][name] - exact).norm()) for other in self.others)
            allowed += 1e-5 * float((exact - self.before[name]).norm()) + 1e-7 * float(exact.norm()) + 1e-12
            ratio = float((value - exact).norm()) / allowed
            if not ratio <= worst:
                worst, name_of_worst = ratio, name
        return worst_loss, worst, name_of_worst


def without_dropout(module):
    """Dropout cannot be compared number by number: it is switched off."""
    import torch

    for m in module.modules():
        if isinstance(m, torch.nn.modules.dropout._DropoutNd):
            m.p = 0.0
        for name in ("attention_dropout", "dropout", "drop_prob", "p", "dropout_prob", "hidden_dropout_prob"):
            if isinstance(getattr(m, name, None), float):
                setattr(m, name, 0.0)
        config = getattr(m, "config", None)
        for name in (
            "attn_pdrop",
            "attention_dropout",
            "resid_pdrop",
            "embd_pdrop",
            "attention_probs_dropout_prob",
            "hidden_dropout_prob",
            "dropout_rate",
            "dropout",
        ):
            if isinstance(getattr(config, name, None), float):
                setattr(config, name, 0.0)
    return module
