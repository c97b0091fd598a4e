"""`nanoscope eta`: the time left."""

import shlex
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from nanoscope.cli.logs import ABOVE_ZERO, PathOrStdin, Steps, logs_named, print_json
from nanoscope.errors import JobError
from nanoscope.messages import Message


def eta(
    log: PathOrStdin | None = None,
    *,
    json: bool = False,
    max_iters: Steps = None,
    step_time: tuple[Annotated[float, ABOVE_ZERO], ...] = (),
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
    from nanoscope.api.explaining import explain
    from nanoscope.findings.eta import Eta, scenario

    (log,) = logs_named((log,) if log else ())
    explanation = explain(log, max_iters=max_iters)
    found = [analysis for analysis in explanation.analyses if analysis.eta]
    if not found:
        raise JobError(
            "No training step was found in {log}: can't estimate the time left.\n"
            "To see what the log does say: nanoscope explain {quoted}",
            log=Message("standard input") if log == "-" else log,
            quoted=shlex.quote(log),
        )
    analysis = found[-1]
    left, progress = analysis.eta, analysis.progress
    if isinstance(left, Eta) and step_time:
        left = replace(left, scenarios=tuple(scenario(left.steps_left, seconds) for seconds in step_time))
    if json:
        known = isinstance(left, Eta)
        print_json({
            "schema": "nanoscope.eta/1",
            "source": log,
            "last_step": progress.last_step,
            "total_steps": progress.total_steps,
            "finished": progress.finished,
            "eta": left if known else None,
            "no_eta": None if known else left,
        })  # fmt: skip
        return

    from nanoscope.views.terminal import print_eta
    from nanoscope.views.terminal_page import Page

    print_eta(replace(analysis, eta=left), Page(explanation.language), datetime.now())
