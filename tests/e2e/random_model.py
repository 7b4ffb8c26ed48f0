"""random_model: the random models of tests/passes/random_graph.h as files, with inputs, for tests that compile and run
them.

MSC names the program msc; random_graphs lies beside it in the build folder."""
import array
import json
import os
import subprocess

from network import write_npy

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
GRAPHS = os.path.join(os.path.dirname(MSC), "tests/passes/random_graphs")
OF_ONE_RANK = ("compute_type", "loss_scale", "gradient_fp32_sync")  # settings that change numbers, not ranks


def generate(seed):
    """Returns the facts about the model of this seed (a dictionary) and its IR text."""
    text = subprocess.run([GRAPHS], env={**os.environ, "RANDOM_PROGRAM": str(seed)}, capture_output=True, text=True,
                          check=True).stdout
    facts, model = text.split("\n", 1)
    return json.loads(facts), model


def write_inputs(facts, rng):
    """Writes random values for every input of the model; returns the words for `msc run --data`."""
    words = []
    for i in facts["inputs"]:
        size = 1
        for n in i["shape"]:
            size *= n
        whole = i["dtype"][0] in "iu"
        values = [rng.randrange(max(1, i["below"])) if whole else rng.uniform(-1, 1) for _ in range(size)]
        write_npy(f"{i['name']}.npy", array.array("i" if whole else "f", values), i["shape"])
        words.append(f"{i['name']}={i['name']}.npy")
    return words


def are_close(a, b, tolerance):
    """True if two lists of losses agree; None, a loss that is no number, must be None in both."""
    return len(a) == len(b) and all(x is y if x is None or y is None else abs(x - y) <= tolerance * max(1e-3, abs(x))
                                    for x, y in zip(a, b))
