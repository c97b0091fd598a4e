"""`nanoscope eta`: the time left."""

import shlex
import sys
from datetime import datetime
from json import dumps

from nanoscope.cli.logs import LogPath, check_logs, check_max_iters
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message


def eta(
    *logs: LogPath,
    json: bool = False,
    max_iters: int | None = None,
    step_time: tuple[float, ...] = (),
) -> None:
    """Estimate the time left for the last run of a log.

    Examples:

      nanoscope eta train.log --max_iters 6000

      nanoscope eta - --max_iters 6000 --step_time 0.2 --step_time 0.15

    Parameters
    ----------
    logs
        A log file, the directory of a nanoscope run, or '-' for standard input.
    json
        Print the answer as JSON (schema nanoscope.eta/1).
    max_iters
        Number of steps the run will take, if the log doesn't say.
    step_time
        Also estimate for steps that take this many seconds. Can be repeated.
    """
    from dataclasses import replace

    from nanoscope.findings.analyse import Options, analyse
    from nanoscope.findings.eta import Eta, scenario
    from nanoscope.runs.reader import read_log
    from nanoscope.words.language import choose_language

    check_logs(logs, eta)
    check_max_iters(max_iters)
    if len(logs) > 1:
        raise UsageError("eta takes one log: nanoscope eta train.log. For several, use nanoscope explain or compare.")
    log = logs[0]
    if any(not 0 < seconds < float("inf") for seconds in step_time):
        raise UsageError("--step_time is in seconds and must be above 0, for example --step_time=0.2")
    language = choose_language()
    read = read_log(log)
    runs = [run for run in read.runs if run.steps or run.evals]
    if not runs:
        raise JobError(
            "No training step was found in {log}: can't estimate the time left.\n"
            "To see what the log does say: nanoscope explain {quoted}",
            log=Message("standard input") if log == "-" else log, quoted=shlex.quote(log),
        )  # fmt: skip
    analysis = analyse(runs[-1], Options(max_iters=max_iters), read)
    if step_time and isinstance(analysis.eta, Eta):
        asked = tuple(scenario(analysis.eta.steps_left, seconds) for seconds in step_time)
        analysis = replace(analysis, eta=replace(analysis.eta, scenarios=asked))
    if json:
        from nanoscope.findings.schema import plain

        document = {
            "schema": "nanoscope.eta/1",
            "source": log,
            "last_step": analysis.progress.last_step,
            "total_steps": analysis.progress.total_steps,
            "finished": analysis.progress.finished,
        }
        known = isinstance(analysis.eta, Eta)
        document |= {
            "eta": plain(analysis.eta) if known else None,
            "no_eta": None if known else plain(analysis.eta),
        }
        sys.stdout.write(dumps(document, indent=1, allow_nan=False) + "\n")
        return

    from nanoscope.views.terminal import print_eta
    from nanoscope.views.terminal_page import Page

    print_eta(analysis, Page(language), datetime.now())
