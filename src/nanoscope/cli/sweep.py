"""`nanoscope sweep`: a run for each combination of settings, and a ranking."""

import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from nanoscope.cli.logs import ABOVE_ZERO, print_answer, print_json
from nanoscope.cli.train import Words
from nanoscope.messages import Message, joined, on_terminal

if TYPE_CHECKING:
    from nanoscope.training.sweep import Sweep


def sweep(
    *words: Words,
    jobs: Annotated[int, ABOVE_ZERO] = 1,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Train one run for each combination of settings, and rank them.

    For example:
      nanoscope sweep laptop --learning_rate=1e-3,1e-2,3e-2 --seed=1,2,3
      nanoscope sweep laptop --learning_rate=1e-4,1e-3,1e-2 --n_layer=2,4,6 --jobs 2
      nanoscope sweep quick --dataset=[shakespeare,data/mine] --out_dir=runs/two-texts

    A number or a fixed word may have several values, separated by commas; a text (dataset, init_from, device) only in
    brackets. Any other setting of 'nanoscope train' holds for all runs. Each run gets a folder in runs/NAME-sweep, or
    in --out_dir.

    The same command again resumes the sweep: it skips finished runs and resumes interrupted ones. More values extend
    it. Exit status: 0 all finished, 1 some failed, 130 stopped by Ctrl-C, which saves every run.

    Parameters
    ----------
    words
        Presets or config files, as for train, and settings: --key=value or --key=value,value,...
    jobs
        Train N runs at a time. They share the CPU's threads, and the GPU.
    dry_run
        List the runs and what would be done, and train nothing.
    json
        Print the result as one JSON document (schema nanoscope.sweep/1, see docs/sweeps.md); progress goes to stderr.
    """
    from nanoscope.training.sweep import plan_sweep, run_sweep

    planned, signal = plan_sweep(words), None
    options = [f"--jobs={jobs}"] * (jobs > 1) + ["--json"] * json
    command = shlex.join(["nanoscope", "sweep", *words, *options])

    def say(text: Message) -> None:
        print(on_terminal(text), file=sys.stderr if json else sys.stdout, flush=True)

    swept = ", ".join(planned.runs[0].settings)
    say(Message("{n:d} runs in {folder}: {settings}", n=len(planned.runs), folder=planned.folder, settings=swept))
    if not dry_run:
        signal = run_sweep(planned, jobs, say)
    finished = planned.ranked()
    if len(finished) > 1 and not (json or dry_run or signal):
        from nanoscope.api.comparing import compare

        print_answer(compare([run.folder for run in finished]), json=False)
        print()
    for line in _conclusion(planned, len(finished), command):
        say(line)
    if json:
        print_json(_document(planned, command))
    if signal is not None:
        return 128 + signal
    return int(len(finished) < len(planned.runs) and not dry_run)


def _conclusion(sweep: "Sweep", finished: int, command: str) -> Iterator[Message]:
    """What is not finished and why, how to resume it, where to see more."""
    from nanoscope.training.sweep import DONE, STATES

    for run in sweep.runs:
        if run.status != "finished":
            state = [STATES[run.status], *([run.reason] if run.reason else [])]
            yield joined(": ", [run.name, *state])
    folder, total = shlex.quote(str(sweep.folder)), len(sweep.runs)
    yield Message("{finished:d} of {total:d} runs finished in {folder}", finished=finished, total=total, folder=folder)
    if all(run.status == "missing" for run in sweep.runs):
        yield Message("next: {command}", command=command)
    elif any(run.status not in DONE for run in sweep.runs):
        yield Message("What was trained is saved. Train the rest: {command}", command=command)
    if finished:
        more = "   ".join(f"nanoscope {name} {folder}" for name in ("compare", "report", "watch"))
        yield Message("More: {commands}", commands=more)


def _document(sweep: "Sweep", command: str) -> dict[str, Any]:
    """The JSON document of a sweep: its runs in their order, and the names of the finished ones, the best first."""
    keys = ("name", "settings", "status", "reason", "step", "best_val_loss")
    return {
        "schema": "nanoscope.sweep/1",
        "folder": str(sweep.folder),
        "command": command,
        "runs": [{"path": str(run.folder), **{key: getattr(run, key) for key in keys}} for run in sweep.runs],
        "ranking": [run.name for run in sweep.ranked() if run.best_val_loss is not None],
    }
