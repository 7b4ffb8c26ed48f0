"""What all families of facts share: calling msc, registering a family, comparing what msc says with what is
expected."""
import json
import os
import re
import subprocess
import tempfile

MSC = os.path.abspath(
    os.environ.get("MSC", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "msc")))
FOLDER = tempfile.TemporaryDirectory()
TALK = {
    "note", "why", "reason", "derived", "arg_meaning", "attrs", "message", "convention", "formula", "precondition",
    "comment"
}  # explains; is not compared


class Unsupported(Exception):
    """msc, or this runner, does not know such a thing yet."""


class Reference(Exception):
    """A fact for comparison: nothing that msc computes."""


class Refused(Exception):
    """msc said that the input is wrong."""


class Broken(Exception):
    """msc did something that it never should."""


def msc(*args, json_out=True):
    """stdout of a command: with --json its object, else its text."""
    command = [MSC, *map(str, args), *(["--json"] if json_out else [])]
    run = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.name, timeout=300)
    if run.returncode in (1, 2) and "not supported yet" in run.stderr:
        raise Unsupported(first_error(run.stderr))
    if run.returncode == 1:
        raise Refused(run.stderr.strip())
    if run.returncode != 0:
        raise Broken(f"msc {' '.join(command[1:])}: exit code {run.returncode}: {run.stderr.strip()}")
    return json.loads(run.stdout) if json_out else run.stdout


def first_error(text):
    return next((line for line in text.splitlines() if "error" in line), text.strip())


class Given(dict):
    """The input of a fact, which knows what of it was looked at: what nobody asked for is not answered.  Going
    through all of it is not asking; who does so takes() what it uses.  but() is a copy with other values, of the
    same fact."""

    def __init__(self, values, asked=None):
        super().__init__(values)
        self.asked = set() if asked is None else asked

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def take(self, *keys):
        self.asked.update(keys)

    def but(self, **changes):
        return Given({**self, **changes}, self.asked)

    def only(self, keys):
        kept = set(keys)
        return Given({k: v for k, v in self.items() if k in kept}, self.asked)

    def unasked(self):
        return [k for k in self if k not in self.asked and k not in TALK]


# ---- families ----

_exact, _prefix = {}, []


def family(*names):
    """Registers a handler for features: "tensor_layout.slice_shape", or "op_rule.*" for all that begin so; of
    several the one with the longest name is asked, and none has two.  It gets input and expected, and returns a
    dictionary with what msc says under expected's keys, or an Answer."""
    def register(handler):
        for name in names:
            other = _exact.get(name.rstrip("*")) or next(
                (h for prefix, h in _prefix if prefix == name.rstrip("*")), handler)
            if other is not handler:
                raise ValueError(
                    f"two handlers for {name}: {other.__module__}.{other.__name__} and "
                    f"{handler.__module__}.{handler.__name__}"
                )
            if name.endswith("*"):
                _prefix.append((name[:-1], handler))
                _prefix.sort(key=lambda p: -len(p[0]))
            else:
                _exact[name] = handler
        return handler
    return register


def handler_of(feature):
    if feature in _exact:
        return _exact[feature]
    return next((h for prefix, h in _prefix if feature.startswith(prefix)), None)


class Answer:
    """What msc says; `better`: although different, the result is right and no costlier (why), or None; `wrong`: a
    property that must hold does not, whatever is expected; `possible`: what is done here on purpose where an error
    is expected."""

    def __init__(self, values=None, better=None, wrong=None, possible=None):
        self.values, self.better, self.wrong, self.possible = values or {}, better, wrong, possible


# ---- comparing ----

def ranks(text):
    """[0, 1, 2] from "0..2", "0..8 (9 ranks)" or a list."""
    if isinstance(text, str):
        out = []
        for part in re.sub(r"\(.*?\)", "", text).split(","):
            first, _, last = part.strip().partition("..")
            out += range(int(first), int(last or first) + 1)
        return out
    return list(text)


def plain(v):
    if isinstance(v, str) and re.fullmatch(r"\d+\.\.\d+", v):
        return ranks(v)
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if k not in TALK}
    return v


def same(got, wanted, slack=lambda wanted: 1e-9 * max(1, abs(wanted))):
    """`slack` is how far a number may be away."""
    got, wanted = plain(got), plain(wanted)
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(k in got and same(got[k], w, slack) for k, w in wanted.items())
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(same(g, w, slack) for g, w in zip(got, wanted))
    if isinstance(wanted, (int, float)) and isinstance(got, (int, float)):
        return abs(got - wanted) <= slack(wanted)
    return got == wanted


def wants_error(expected):
    return expected.get("ok") is False or bool(expected.get("error"))


def differences(got, expected):
    """Keys whose values differ, and keys that were not answered."""
    keys = [k for k in expected if k not in TALK]
    missing = [k for k in keys if k not in got]
    return [k for k in keys if k in got and not same(got[k], expected[k])], missing
