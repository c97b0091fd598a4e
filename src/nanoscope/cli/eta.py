"""`nanoscope eta`: the time left."""

import shlex
import sys
from dataclasses import replace
from datetime import datetime
from json import dumps
from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.cli.logs import check_max_iters, logs_named
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message


def eta(
    log: Annotated[str | None, Parameter(allow_leading_hyphen=True, completer=complete_path)] = None,
    *,
    json: bool = False,
    max_iters: int | None = None,
    step_time: tuple[float, ...] = (),
) -> None:
    """Estimate the time left for the last run of a log.

    For example:
      nanoscope eta train.log --max_iters 6000
      nanoscope eta - --max_iters 6000 --step_time 0.2 --step_time 0.15

    Parameters
    ----------
    log
        A log file, the directory of a nanoscope run, or '-' for standard input. Default: standard input if something
        is piped in, else the latest run.
    json
        Print the answer as JSON (schema nanoscope.eta/1).
    max_iters
        Number of steps the run will take, if the log doesn't say.
    step_time
        Also estimate for steps that take this many seconds. Can be repeated.
    """
    from nanoscope.findings.analyse import Options, analyse
    from nanoscope.findings.eta import Eta, scenario
    from nanoscope.runs.reader import read_log

    check_max_iters(max_iters)
    (log,) = logs_named((log,) if log else (), eta)
    if any(not 0 < seconds < float("inf") for seconds in step_time):
        raise UsageError("--step_time is in seconds and must be above 0, for example --step_time=0.2")
    read = read_log(log)
    runs = [run for run in read.runs if run.steps or run.evals]
    if not runs:
        raise JobError(
            "No training step was found in {log}: can't estimate the time left.\n"
            "To see what the log does say: nanoscope explain {quoted}",
            log=Message("standard input") if log == "-" else log,
            quoted=shlex.quote(log),
        )
    analysis = analyse(runs[-1], Options(max_iters=max_iters), read)
    found = analysis.eta
    known = isinstance(found, Eta)
    if isinstance(found, Eta) and step_time:
        asked = tuple(scenario(found.steps_left, seconds) for seconds in step_time)
        analysis = replace(analysis, eta=replace(found, scenarios=asked))
    if json:
        from nanoscope.findings.schema import plain

        document = {
            "schema": "nanoscope.eta/1",
            "source": log,
            "last_step": analysis.progress.last_step,
            "total_steps": analysis.progress.total_steps,
            "finished": analysis.progress.finished,
            "eta": plain(analysis.eta) if known else None,
            "no_eta": None if known else plain(analysis.eta),
        }
        sys.stdout.write(dumps(document, indent=1, allow_nan=False) + "\n")
        return

    from nanoscope.views.terminal import print_eta
    from nanoscope.views.terminal_page import Page
    from nanoscope.words.language import choose_language

    print_eta(analysis, Page(choose_language()), datetime.now())
