"""`nanoscope sweep`: a run for each combination of settings, and a ranking."""

import shlex
import sys
from json import dumps
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from nanoscope.errors import UsageError

if TYPE_CHECKING:
    from nanoscope.training.sweep_plan import PlannedRun
    from nanoscope.words.language import Language


def sweep(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True)],
    random: int | None = None,
    jobs: int = 1,
    stop_hopeless: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Train one run for each combination of settings, and rank them.

    Examples:

      nanoscope sweep laptop --learning_rate=1e-3,1e-2,3e-2 --seed=1,2,3

      nanoscope sweep laptop --learning_rate=1e-4..1e-1 --n_layer=2,4,6 --random 12 --jobs 2

      nanoscope sweep quick --dataset=[shakespeare,data/mine] --out_dir=runs/two-texts

    A number or a fixed word may have several values, separated by commas; a text (dataset, init_from, device) only in
    brackets. --learning_rate=1e-4..1e-1 is a range that --random draws from. Any other setting of 'nanoscope train'
    holds for all runs. Each run gets a folder in runs/NAME-sweep, or in --out_dir.

    The same command again resumes the sweep: it skips finished runs and resumes interrupted ones. More values extend
    it. Exit status: 0 all finished, 1 some failed, 130 stopped by Ctrl-C, which saves every run.

    Parameters
    ----------
    words
        Presets or config files, as for train, and settings: --key=value or --key=value,value,...
    random
        Train only N of the combinations, always the same ones; a larger N adds to them.
    jobs
        Train N runs at a time. They share the CPU's threads; on several GPUs each has one.
    stop_hopeless
        Stop a run in its second half if its best validation loss is above the median of the other runs at the same
        step, once 4 runs have finished. It can be resumed: run the sweep again without this option.
    dry_run
        List the runs and what would be done, and train nothing.
    json
        Print the result as one JSON document (schema nanoscope.sweep/1, see docs/sweeps.md); progress goes to stderr.
    """
    from nanoscope.training.sweep import look_at_all, run_sweep
    from nanoscope.training.sweep_display import SweepDisplay, conclusion, document, introduction, plan_lines
    from nanoscope.training.sweep_plan import open_record, plan_sweep
    from nanoscope.words.language import choose_language

    language = choose_language()
    if jobs < 1:
        raise UsageError("{setting}: must be at least 1.", setting=f"--jobs={jobs}")
    planned = plan_sweep(words, random)
    options = {"random": random, "jobs": jobs if jobs > 1 else None}
    flags = [f"--{name}={value}" for name, value in options.items() if value is not None]
    flags += [f"--{name}" for name, given in (("stop_hopeless", stop_hopeless), ("json", json)) if given]
    command = shlex.join(["nanoscope", "sweep", *words, *flags])
    record = open_record(planned, command)
    results, signal = look_at_all(planned, record, stop_hopeless), None
    display = SweepDisplay(len(results), sum(each.is_done for each in results), jobs, stderr=json)
    for line in introduction(planned, results, jobs):
        display.line(line)
    if dry_run:
        for line in plan_lines(results):
            display.line(line)
    else:
        results, signal = run_sweep(planned, record, jobs, stop_hopeless, display)
        if not json and signal is None:
            _print_ranking([each.run for each in results if each.status == "finished"], language)
        for line in conclusion(planned, results, command):
            display.line(line)
    if json:
        sys.stdout.write(dumps(document(planned, results, command), indent=1, allow_nan=False) + "\n")
    if signal is not None:
        return 128 + signal
    return 0 if dry_run or all(each.status in ("finished", "hopeless") for each in results) else 1


def _print_ranking(runs: "list[PlannedRun]", language: "Language") -> None:
    from nanoscope.analysis.compare import compare
    from nanoscope.runs.reader import read_log
    from nanoscope.views.compare import print_comparison
    from nanoscope.views.terminal_page import Page

    if len(runs) > 1:
        trained = [read_log(str(run.folder)).runs[-1] for run in runs]
        print_comparison(compare(trained, [run.name for run in runs]), Page(language), ranked=True)
        print()
