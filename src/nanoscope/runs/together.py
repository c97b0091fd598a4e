"""Several files of one run: the parts of a rotated log, or the logs of a run and of its continuation."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.runs.files import lines_of
from nanoscope.runs.reader import read_lines, read_log
from nanoscope.runs.run import Log
from nanoscope.runs.trackers import open_log


def read_together(paths: Sequence[str]) -> Log:
    """Read log files as one log, in the order of their steps; refuse files that are not of one run."""
    if len(paths) == 1:
        return read_log(paths[0])
    for path in paths:
        if path == "-" or Path(path).is_dir() or Path(path).name == "events.jsonl":
            raise JobError("{path} is no log file, and --together is for these.", path=path)
    logs = [read_log(path) for path in paths]
    trained = sorted((log for log in logs if log.runs), key=_first_step)
    for one, next_one in pairwise(trained):
        if not _may_continue(one, next_one):
            raise JobError(
                "{later} does not seem to continue {earlier}: the trainer, the number of steps or the first "
                "step says otherwise.\n"
                "Without --together they are explained one by one.",
                later=next_one.source, earlier=one.source,
            )  # fmt: skip
    # What has no steps stands where it was given: a head before them, an error behind them.
    head = logs[: next((index for index, log in enumerate(logs) if log.runs), 0)]
    rest = [log for log in logs if not log.runs and log not in head]
    ordered = [log.source for log in (*head, *trained, *rest)]
    return read_lines(_lines(ordered), " + ".join(ordered))


def _first_step(log: Log) -> int:
    run = log.runs[0]
    return min([*run.steps.step[:1], *(evaluation.step for evaluation in run.evals[:1])])


def _may_continue(one: Log, next_one: Log) -> bool:
    totals = {log.runs[-1].total_steps for log in (one, next_one)} - {None}
    return one.format == next_one.format and len(totals) < 2 and _first_step(one) < _first_step(next_one)


def _lines(paths: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines of all files; their numbers go on from one file to the next."""
    before = 0
    for path in paths:
        number = 0
        with open_log(Path(path)) as stream:
            for number, line in lines_of(stream):
                yield before + number, line
        before += number
