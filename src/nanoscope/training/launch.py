"""From a resolved configuration to an exit status: start the run, train, fail if what was trained isn't saved."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress

from nanoscope.checkpoint_files import LAST, read_pointer
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError
from nanoscope.messages import Message, Shown, on_terminal
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import End
from nanoscope.training.console import open_terminal
from nanoscope.training.distributed import Processes, is_another_gone
from nanoscope.training.phases import PhaseClock
from nanoscope.training.resume import NothingToTrainError, flags_to_continue
from nanoscope.training.run import Run
from nanoscope.training.startup import start
from nanoscope.training.stopping import StopRequest
from nanoscope.training.trainer import train

Closing = Callable[[str], Sequence[Shown]]
"""The last lines about the run in a folder. Training doesn't judge runs: whoever starts one may pass in what does."""


def launch(resolved: Resolved, clock: PhaseClock, closing: Closing | None = None) -> int:
    """Train and return the exit status: 0, or 128 + the number of the signal that stopped the run."""
    try:
        run, end, stop = train_run(resolved, clock, closing)
    except NothingToTrainError as reason:
        if Processes.from_environment().first:
            report_nothing_to_train(reason, closing)
        return 0
    except RuntimeError as error:
        if not is_another_gone(error):
            raise
        raise JobError("another process of this run has ended; its own message says why") from None
    status = 128 + stop.signal if end.reason == "interrupted" and stop.signal is not None else 0
    run.processes.leave(status)
    return status


def train_run(resolved: Resolved, clock: PhaseClock, closing: Closing | None = None) -> tuple[Run, End, StopRequest]:
    """Train from the first iteration to the last, or to the signal that asks to stop."""
    # Until training begins there is nothing to save, so a signal ends the process at once.
    stop = StopRequest()
    run, engine, data, resources = start(resolved, open_terminal(stop), clock)
    stop.at_once = run.processes.world == 1
    with stop, resources:
        end = train(run, engine, data, stop)
        _check(run, end)
    if run.processes.first and end.reason == "finished" and end.step:
        _print_closing(closing, str(run.folder.path))
    return run, end, stop


def report_nothing_to_train(reason: NothingToTrainError, closing: Closing | None = None) -> None:
    terminal = open_terminal(StopRequest())
    for line in reason.args:
        terminal.line(on_terminal(line))
    if reason.finished:
        _print_closing(closing, reason.folder)


def _print_closing(closing: Closing | None, folder: str) -> None:
    terminal = open_terminal(StopRequest())
    with suppress(Exception):  # all is saved: nothing that is said about a run may fail it
        for line in closing(folder) if closing else ():
            terminal.line(on_terminal(line))


def _check(run: Run, end: End) -> None:
    """Raise JobError if the loss was not finite, or if the last checkpoint could not be saved."""
    folder, last = str(run.folder.path), read_pointer(run.folder.checkpoints, LAST)
    flags = flags_to_continue(run.config, run.for_session, "interrupted")  # not further than it should go
    anew = shlex.join(["nanoscope", "train", folder, "--init_from=auto"])  # the log stays, and is continued
    again = resume_command(folder, flags) if last else anew
    if end.reason == "non_finite":
        kept = Message("The last good checkpoint, {last}, is intact", last=last)
        kept = kept if last else Message("Nothing was saved before that")
        raise JobError(
            "the loss is not finite at iteration {step}: training stopped without saving\n"
            "{kept}. Try lower learning rates: {command}",
            step=end.step,
            kept=kept,
            command=f"{again} --lr_scale={run.config.lr_scale / 2}",
        )
    if run.processes.first and end.step > 0 and end.saved_step != end.step and end.reason != "eval_only":
        kept = Message("the newest complete one is {last}", last=last) if last else Message("there is none")
        raise JobError(
            "the last checkpoint could not be saved; {kept}\nMake room, then: {command}", kept=kept, command=again
        )
