"""judge: a fact in, ("ok" | "differs" | "unsupported" | "reference", why) out, as the fact's `use` or `tol` wants
it."""
import json
import subprocess

import family_config   # noqa: F401  each registers its families
import family_fusion   # noqa: F401
import family_layout   # noqa: F401
import family_net      # noqa: F401
import family_op       # noqa: F401
import family_pipeline  # noqa: F401
import family_reshard  # noqa: F401
import family_training  # noqa: F401
from facts import Answer, Broken, Given, Reference, Refused, Unsupported, differences, handler_of, same, wants_error


def shown(value):
    text = json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:297] + "..."


def both(got, expected, keys):
    return "; ".join(f"{k}: expected {shown(expected[k])}, got {shown(got.get(k))}" for k in keys)


def judge_error(expected, refusal):
    """An error must be an error; words it must contain are named."""
    if not refusal:
        return "differs", "expected an error, msc accepts it"
    lacking = [w for w in expected.get("message_must_contain", []) if str(w) not in refusal]
    return ("differs", f"the message lacks {lacking}: {refusal}") if lacking else ("ok", "")


def ask(handler, fact):
    """(Answer, message of a refusal); a handler of many features is told which.  What it did not look at is not
    answered."""
    given = Given(fact.get("input", fact))
    given.take("folder")
    try:
        takes_feature = handler.__code__.co_argcount > 2
        got = handler(given, fact.get("expected", {}), *([fact["feature"]] if takes_feature else []))
    except Refused as e:
        return None, str(e) or "refused"
    if given.unasked():
        raise Unsupported(", ".join(given.unasked()))
    return got if isinstance(got, Answer) else Answer(got), None


def judge_answer(use, answer, expected):
    wrong, missing = differences(answer.values, expected)
    if answer.wrong:
        return "differs", answer.wrong
    if use == "must_not_match":
        return ("ok", "") if wrong or not missing else ("differs" if not missing else "unsupported",
                                                        f"as wrong as the other system, or not answered: {missing}")
    if wrong and use == "match_or_beat" and answer.better:
        return "ok", f"better: {answer.better}"
    if wrong:
        return "differs", both(answer.values, expected, wrong)
    return ("unsupported", f"not answered: {', '.join(missing)}") if missing and not answer.better else ("ok", "")


# What other systems or tools reach, told beside what msc is asked.
BESIDE = {"allreduce_steps", "busbw_GBps", "greedy_by_size_best_fit_ratio", "greedy_by_size_ratio", "params_b"}


def judge_case(fact):
    """A line of a file such as schedule.jsonl: `tol` is absolute, or "1e-3 rel"; a key that ends in _at_most is a
    bound."""
    expected = {k: v for k, v in fact["expected"].items() if k not in BESIDE}
    handler = handler_of(fact["family"])
    if not handler:
        return "unsupported", f"no family {fact['family']}"
    if not expected:
        return "reference", ", ".join(fact["expected"])
    tol = str(fact.get("tol", 0))
    size = float(tol.split()[0])
    slack = (lambda wanted: size * abs(wanted)) if tol.endswith("rel") else (lambda wanted: size + 1e-12 * abs(wanted))
    answer, refusal = ask(handler, {"input": fact["inputs"], "expected": expected})
    if refusal:
        return "differs", f"refused: {refusal}"
    if answer.wrong:
        return "differs", answer.wrong
    got = answer.values
    fits = {
        k: got[k] <= w + slack(w) if k.endswith("_at_most") else same(got[k], w, slack) for k, w in expected.items()
        if k in got
    }
    wrong, missing = [k for k in fits if not fits[k]], [k for k in expected if k not in got]
    if wrong:
        return "differs", both(got, expected, wrong)
    return ("unsupported", f"not answered: {', '.join(missing)}") if missing else ("ok", "")


def judge(fact):
    try:
        return judge_case(fact) if "family" in fact and "inputs" in fact else judge_fact(fact)
    except Reference as e:
        return "reference", str(e)
    except Unsupported as e:
        return "unsupported", str(e)
    except Broken as e:
        return "differs", str(e)
    except subprocess.TimeoutExpired as e:
        return "differs", str(e)
    except Exception as e:  # whatever a handler stumbles over is something that it does not know
        return "unsupported", f"cannot read this fact: {type(e).__name__}: {e}"


def judge_fact(fact):
    if "unreadable" in fact:
        return "unsupported", fact["unreadable"]
    feature, use, expected = fact.get("feature") or fact.get("family") or ("reshard" if "src_text" in fact else
                                                                           ""), fact.get("use",
                                                                                         "match_exactly"), fact.get(
                                                                                             "expected", {})
    if use == "reference_only":
        return "ok", "reference only, no target"
    handler = handler_of(feature)
    if not handler:
        return "unsupported", f"no family {feature}"
    answer, refusal = ask(handler, fact)
    if wants_error(expected) and not refusal and answer.possible:
        return "ok", f"possible here: {answer.possible}"
    if wants_error(expected) and use == "match_or_beat" and not refusal:
        return ("differs", answer.wrong) if answer.wrong else ("ok", f"better: {answer.better or 'possible here'}")
    if wants_error(expected) and use != "must_not_match":
        return judge_error(expected, refusal)
    if refusal:
        return ("ok", "refused") if use == "must_not_match" else ("differs", f"refused: {refusal}")
    return judge_answer(use, answer, expected)
