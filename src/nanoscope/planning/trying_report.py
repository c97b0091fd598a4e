"""What trials have shown: lines for people, a document for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nanoscope.analysis.findings import Advice
from nanoscope.messages import Count, Text
from nanoscope.planning.trying import Finding, Length, Results, Tried
from nanoscope.planning.trying_arms import Question
from nanoscope.planning.trying_statistics import Gain

SCHEMA = "nanoscope.try/1"

TITLES: dict[Question, Text] = {
    "warm_up": Text("Warm-up"),
    "rate": Text("Learning rates"),
    "batch": Text("Tokens per iteration, at equal training time"),
    "dropout": Text("Dropout"),
    "evaluation": Text("Evaluations"),
}
QUESTION_OF: dict[str, Question] = {
    "warm_up": "warm_up",
    "lower_learning_rate": "rate",
    "lower_accumulation": "batch",
    "regularise": "dropout",
    "raise_eval_interval": "evaluation",
    "lower_eval_iters": "evaluation",
}
"""The question that a piece of advice asks; the others can't be tried in short runs."""


def plan_line(length: Length) -> Text:
    """What the trials are."""
    if length.is_whole:
        return Text("trials of {iters:d} iterations, as many as the run has", iters=length.iters)
    return Text(
        "trials of {iters:d} iterations, confirmed in runs of {longer:d}; the run has {whole:d}",
        iters=length.iters,
        longer=length.confirmed_iters,
        whole=length.run_iters,
    )


def lines(results: Results) -> list[tuple[int, Text | str]]:
    """Each with its indent: what was tried and what it did."""
    found: list[tuple[int, Text | str]] = []
    shown: set[Question] = set()
    for finding in results.findings:
        if finding.question not in shown:
            found.append((0, TITLES[finding.question]))
        shown.add(finding.question)
        if finding.question != "evaluation":
            found += [(1, _row(tried, results)) for tried in sorted(finding.tried, key=lambda each: each.change.factor)]
        found.append((1, conclusion(finding, results)))
    return found


def conclusion(finding: Finding, results: Results) -> Text:
    """The answer to one question."""
    label, gained = finding.best.label if finding.best else "", finding.confirmed
    iters = results.length.confirmed_iters
    match finding.verdict:
        case "helps" if gained:
            return Text(
                "{label} helps: validation loss {amount} after {iters:d} iterations, {seeds}",
                label=label,
                amount=_amount(gained),
                iters=_iters(finding, iters),
                seeds=_seeds(gained),
            )
        case "fades" if gained:
            return Text(
                "{label} helps in short runs only: {amount} after {iters:d} iterations, less than after "
                "{before:d}; too little would be left after {whole:d}",
                label=label,
                amount=_amount(gained),
                iters=iters,
                before=results.length.iters,
                whole=results.length.run_iters,
            )
        case "not_confirmed" if gained:
            return Text(
                "nothing to change: {label} looked best, but with other seeds ({iters:d} iterations) it is {amount}",
                label=label,
                iters=_iters(finding, iters),
                amount=_amount(gained),
            )
        case "saves" if gained:
            return Text(
                "{label} saves {share} of the time, checkpoints not counted; what is learned stays the same",
                label=label,
                share=_share(gained),
            )
        case "no_time_saved" if gained:
            return Text(
                "{label} saves no time that matters here: {share}",
                label=label,
                share=_share(gained),
            )
        case "unfinished" if finding.best and gained:
            return Text(
                "not finished ({reason}): {label} looked best, {amount}, and is not confirmed yet",
                reason=finding.reason,
                label=label,
                amount=_amount(gained),
            )
        case "unfinished":
            return Text("not finished: {reason}", reason=finding.reason)
    return Text("nothing to change: no change is better by more than the noise")


def summary(results: Results, command: str | None) -> list[Text | str]:
    """What follows from all of it."""
    found: list[Text | str] = []
    if results.proposed is None and results.findings and not results.stopped:
        found.append(Text("Nothing to change: no change that was tried makes this run better by more than the noise."))
    if not results.length.is_whole:
        found.append(
            Text(
                "Short runs favor higher learning rates and fewer tokens per iteration: the gains are those after "
                "{iters:d} iterations, not after {whole:d}.",
                iters=results.length.confirmed_iters,
                whole=results.length.run_iters,
            )
        )
    if results.stopped:
        found.append(Text("Stopped before everything was tried: {reason}.", reason=results.stopped))
    if command is not None:
        found.append(Text("Train with what was confirmed:\n  {command}", command=command))
    return found


def fate(advice: Advice, results: Results) -> str:
    """What became of a piece of `explain`'s advice: upheld, withdrawn, unfinished or not_tried."""
    question = QUESTION_OF.get(advice.action)
    asked = [finding for finding in results.findings if finding.question == question]
    if not asked:
        return "not_tried"
    lower_only = question in ("rate", "batch")
    if any(each.is_proposed and not (lower_only and each.best and each.best.factor > 1) for each in asked):
        return "upheld"
    return "unfinished" if any(each.verdict == "unfinished" for each in asked) else "withdrawn"


FATES = {
    "upheld": Text("holds:"),
    "withdrawn": Text("withdrawn, because the trials don't bear it out:"),
    "unfinished": Text("not decided:"),
    "not_tried": Text("not tried, short runs can't show it:"),
}


def document(folder: str, results: Results, advice: Sequence[Advice], command: str | None) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema": SCHEMA,
        "run": folder,
        "iters": results.length.iters,
        "confirmed_iters": results.length.confirmed_iters,
        "run_iters": results.length.run_iters,
        "trials": results.arms,
        "stopped": None if results.stopped is None else str(results.stopped),
        "findings": [_plain(finding) for finding in results.findings],
        "advice": [{"action": each.action, "fate": fate(each, results)} for each in advice],
        "command": command,
    }


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "question": finding.question,
        "verdict": finding.verdict,
        "proposed": finding.is_proposed,
        "change": dict(finding.best.settings) if finding.best else None,
        "factor": finding.best.factor if finding.best else None,
        "gain": _plain_gain(finding.confirmed),
        "loss": finding.loss,
        "time_ratio": finding.time_ratio,
        "tried": [
            {
                "change": dict(tried.change.settings),
                "factor": tried.change.factor,
                "verdict": tried.verdict,
                "gain": _plain_gain(tried.gain),
            }
            for tried in finding.tried
        ],
        "reason": None if finding.reason is None else str(finding.reason),
    }


def _plain_gain(gained: Gain | None) -> dict[str, float] | None:
    return None if gained is None else {key: asdict(gained)[key] for key in ("mean", "error", "seeds")}


PROBLEMS = {"not finite": Text("the loss is not finite"), "out of memory": Text("out of memory")}


def _row(tried: Tried, results: Results) -> Text:
    amount = _amount(tried.gain)
    if problem := results.problems.get(str(tried.change.label)):
        amount = Text("{what}: {reason}", what=amount, reason=PROBLEMS[problem])
    elif tried.verdict == "no_difference":
        amount = Text("{amount}, which may be noise", amount=amount)
    return Text("{label}: {amount}", label=tried.change.label, amount=amount)


def _amount(gained: Gain) -> Text:
    decimals = 3 if gained.error >= 0.001 else 4
    size = f"{abs(gained.mean):.{decimals}f} ± {gained.error:.{decimals}f}"
    return Text("{size} higher", size=size) if gained.mean < 0 else Text("{size} lower", size=size)


def _share(gained: Gain) -> str:
    return f"{gained.mean:.0%} ± {gained.error:.0%}"


def _iters(finding: Finding, iters: int) -> int:
    return round(finding.time_ratio * iters)


def _seeds(gained: Gain) -> Text:
    return Count("{n} pair of runs", "{n} pairs of runs", gained.seeds)
