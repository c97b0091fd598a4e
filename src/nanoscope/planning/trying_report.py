"""What trials have shown: lines for people, a document for programs, the command that applies it."""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from nanoscope.messages import Message, Shown
from nanoscope.planning.trying import Change, Question, Trial, differences
from nanoscope.planning.tuning import flags

TITLES: dict[Question, Message] = {
    "warm_up": Message("Warm-up"),
    "rate": Message("Learning rates"),
    "batch": Message("Tokens per iteration, at equal training time"),
    "dropout": Message("Dropout"),
}
QUESTION_OF: dict[str, Question] = {
    "warm_up": "warm_up",
    "lower_learning_rate": "rate",
    "lower_accumulation": "batch",
    "regularise": "dropout",
}
"""The question that a piece of advice asks; the others can't be tried in short runs."""
FATES = {
    "upheld": Message("holds:"),
    "withdrawn": Message("withdrawn, because the trials don't bear it out:"),
    "unfinished": Message("not decided:"),
    "not_tried": Message("not tried:"),
}

ANSWERS = {
    "helps": Message("{label} helps: {amount}"),
    "not_confirmed": Message("nothing to change: {label} looked best, but with other seeds: {amount}"),
    "nothing_better": Message("nothing to change: no change is better by more than the noise"),
    "unfinished": Message("not finished: {reason}"),
}


def lines(trial: Trial) -> Iterator[tuple[int, Message]]:
    """Each with its indent: what was tried and what it did."""
    yield (
        0,
        Message(
            "trials of {iters:d} iterations, confirmed in runs of {longer:d}; the run has {whole:d}",
            iters=trial.iters,
            longer=trial.confirmed_iters,
            whole=trial.run.max_iters,
        ),
    )
    for finding in trial.findings:
        yield 0, TITLES[finding.question]
        for each in sorted(finding.tried, key=lambda each: each.factor):
            yield 1, Message("{label}: {amount}", **_words(each))
        yield 1, Message(ANSWERS[finding.verdict].template, **_words(finding.best), reason=trial.stopped)
    if trial.iters < trial.run.max_iters:
        yield (
            0,
            Message(
                "Short runs favor higher learning rates and fewer tokens per iteration: the gains are those after "
                "{iters:d} iterations, not after {whole:d}.",
                iters=trial.confirmed_iters,
                whole=trial.run.max_iters,
            ),
        )


def _words(change: Change | None) -> dict[str, Shown]:
    """A change and its gain, with the standard error; a single pair has none."""
    if change is None or change.gain is None:
        return {}
    gain, label = change.gain, flags(change.change)
    size = f"{abs(gain.mean):.3f}" if gain.pairs == 1 else f"{abs(gain.mean):.3f} ± {gain.error:.3f}"
    pairs = Message("{n} pair of runs", "{n} pairs of runs", n=gain.pairs)
    if gain.mean < 0:
        return {"label": label, "amount": Message("validation loss {size} higher ({pairs})", size=size, pairs=pairs)}
    return {"label": label, "amount": Message("validation loss {size} lower ({pairs})", size=size, pairs=pairs)}


def fate(action: str, trial: Trial) -> str:
    """What became of a piece of `explain`'s advice: upheld, withdrawn, unfinished or not_tried."""
    asked = [each for each in trial.findings if each.question == QUESTION_OF.get(action)]
    if not asked or asked[0].verdict == "unfinished":
        return "unfinished" if asked else "not_tried"
    lowered = asked[0].best is not None and asked[0].best.factor <= 1  # as explain advises for rates and batches
    return "upheld" if asked[0].verdict == "helps" and lowered else "withdrawn"


def command(folder: Path, trial: Trial) -> str | None:
    """How to train the run with what was confirmed; None if nothing was."""
    changed = flags(differences(trial.proposed, trial.run))
    out = folder.parent / f"{folder.resolve().name}-tried"
    where = ["nanoscope", "train", str(folder), f"--out_dir={out}", f"--dataset={trial.run.dataset}"]
    return f"{shlex.join(where)} {changed}" if changed else None


def document(folder: Path, trial: Trial, actions: Iterable[str]) -> dict[str, object]:
    """What `try --json` prints (docs/try.md)."""
    return {
        "schema": "nanoscope.try/2",
        "run": str(folder),
        "iters": trial.iters,
        "confirmed_iters": trial.confirmed_iters,
        "run_iters": trial.run.max_iters,
        "trials": trial.arms,
        "stopped": trial.stopped and str(trial.stopped),
        "findings": trial.findings,
        "advice": [{"action": action, "fate": fate(action, trial)} for action in actions],
        "command": command(folder, trial),
    }
