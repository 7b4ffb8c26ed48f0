#!/usr/bin/env python3
"""tests/facts/run on facts of our own, on the same facts made wrong (the runner must notice), and on the files of
known answers in MSC_CASES_DIR, else ../shared/cases, where they are present."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN, OWN = os.path.join(HERE, "facts", "run"), os.path.join(HERE, "facts", "own.jsonl")
CASES = os.environ.get("MSC_CASES_DIR", os.path.join(HERE, "..", "..", "shared", "cases"))
os.environ["MSC_FACTS_QUICK"] = "1"


def run(*args):
    out = subprocess.run([RUN, *args], capture_output=True, text=True)
    return out.returncode, out.stdout + out.stderr


def spoiled(value):
    """The first number of a value changed."""
    if isinstance(value, bool):
        return not value, True
    if isinstance(value, int):
        return value + 1, True
    if isinstance(value, (list, dict)):
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for k, v in items:
            new, done = spoiled(v)
            if done:
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[k] = new
                return copy, True
        return (value + [7], True) if isinstance(value, list) else (value, False)
    return value, False


code, text = run("--all", OWN)
if text.startswith("skipped"):
    print(text.strip())
    sys.exit(0)
failed = code != 0
if failed:
    print(text)

with open(OWN) as f:
    facts = [json.loads(line) for line in f]
wrong = []
for fact in facts:
    if (fact.get("use") == "match_exactly" or "inputs" in fact) and not {"error", "property"} & set(fact["expected"]):
        new, done = spoiled(fact["expected"])
        wrong += [{**fact, "expected": new}] if done else []


def judged(some):
    """The line of each fact."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.write("".join(json.dumps(fact) + "\n" for fact in some))
        f.flush()
        return run(f.name)[1].splitlines()


lines = judged(wrong)
unnoticed = [line for line in lines[:-1] if not line.startswith("differs")]
if unnoticed or len(lines) != len(wrong) + 1:
    print("facts made wrong that went unnoticed:", *unnoticed, sep="\n")
    failed = True

# What the runner does not know it does not pass over, and it stumbles over nothing.
WORDS = ("ok", "differs", "unsupported", "reference")
answered = [
    f for f in facts if f.get("use") != "reference_only" and "expected" in f and not f["expected"].get("error") and
    f["expected"].get("ok") is not False
]
key_of = {"input", "inputs"}.intersection
unknown = [{**f, k: {**f[k], "unheard_of": 3}} for f in answered for k in key_of(f)]
for line in judged(unknown)[:-1]:
    if not line.startswith("unsupported") or not line.endswith(": unheard_of"):
        print("a key that nobody knows goes unnoticed:", line)
        failed = True
fewer = [{**f, k: {n: v for n, v in f[k].items() if n != list(f[k])[i % len(f[k])]}} for i, f in enumerate(answered)
         for k in key_of(f) if f[k]]
lines = judged(fewer)
if len(lines) != len(fewer) + 1 or not all(line.startswith(WORDS) for line in lines[:-1]):
    print("facts with a key less are not judged:", *lines[-3:], sep="\n")
    failed = True

files = [os.path.join(CASES, name) for name in ("mindspore_facts.jsonl", "reshard.jsonl", "schedule.jsonl")]
present = [f for f in files if os.path.exists(f)]
if not present:
    print("the files of known answers are not there; MSC_CASES_DIR names their folder")
else:
    code, text = run(*present)
    failed |= code != 0
    print(text if code else text.splitlines()[-1])
sys.exit(failed)
