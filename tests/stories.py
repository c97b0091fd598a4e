"""What is found in a run, to be compared between its two files."""

from pathlib import Path
from typing import Any

import pytest

from nanoscope.findings.analyse import Options, analyse
from nanoscope.findings.declared import notes_of
from nanoscope.findings.pressure import WaitingForData
from nanoscope.findings.schema import plain
from nanoscope.messages import ENGLISH
from nanoscope.runs.reader import read_log

SOURCES = ("events.jsonl", "console.log")


def story(file: Path) -> dict[str, Any]:
    """All that is found in a run, but for line numbers and columns that the console does not print."""
    log = read_log(str(file))
    (run,) = log.runs
    assert run.details is not None
    run.series = (
        {"eta_s": run.series["eta_s"]} if "eta_s" in run.series else {}
    )  # on a busy machine, waiting for data would be found in events.jsonl alone
    for number, seconds in enumerate(run.steps.time_s):  # equal times, to the bit: a threshold may lie on one of them
        run.steps.time_s[number] = round(seconds, 6)
    analysis = analyse(run, Options(), log)
    # On a busy machine these runs wait for data. How much comes from the phases, of which the console has tenths of a
    # percent of whole seconds: too coarse for runs of a second.
    analysis.verdicts = tuple(verdict for verdict in analysis.verdicts if not isinstance(verdict, WaitingForData))
    without = ("gradients", "reading", "interruption")  # the last has the number of a line; "errors" has the rest
    found = {name: plain(part) for name, part in vars(analysis).items() if name not in without}
    return found | {
        "format": log.format,
        "codes": [verdict.code for verdict in analysis.verdicts],
        "errors": [(error.kind, error.message) for error in log.errors],
        "evaluations": [plain(evaluation) for evaluation in run.evals],
        "saved": [plain(checkpoint) for checkpoint in run.checkpoints],
        "notes": [ENGLISH.render(said, event) for event, said in notes_of(run.details.notes)],
        "estimates": [(list(each.steps), list(each.values)) for each in run.series.values()],
        "run": (run.said_finished, run.failed, run.resumed_at, run.begins_with_resume, run.samples),
    }


def assert_alike(one: Any, other: Any, where: str = "") -> None:
    """Numbers may differ by what the console does not print of them."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_alike(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for index, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, f"{where}[{index}]")
    elif isinstance(one, float) and isinstance(other, int | float):
        # The console has whole seconds of the run's time and of the time left.
        is_rounded = where.startswith((".phase_costs", ".estimates", ".advice"))
        assert other == pytest.approx(one, rel=0.05 if is_rounded else 0.02, abs=0.6 if is_rounded else 0.01), where
    else:
        assert one == other, where
