"""From a resolved configuration to an exit status: start the run, train, fail if what was trained isn't saved."""

import shlex

from nanoscope.checkpoint_files import LAST, read_pointer
from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError
from nanoscope.runs.events import End
from nanoscope.training.console import open_terminal
from nanoscope.training.phases import PhaseClock
from nanoscope.training.session import Session
from nanoscope.training.startup import start_session
from nanoscope.training.stopping import StopRequest
from nanoscope.training.trainer import train


def launch(resolved: Resolved, clock: PhaseClock) -> int:
    """Train and return the exit status: 0, or 128 + the number of the signal that stopped the run."""
    # Until training begins there is nothing to save, so a signal ends the process at once.
    stop = StopRequest()
    session = start_session(resolved, open_terminal(stop), clock)
    processes = session.machine.processes
    stop.at_once = processes.world == 1
    with stop, session.resources:
        end = train(session, stop)
        _check(session, end)
    status = 128 + stop.signal if end.reason == "interrupted" and stop.signal is not None else 0
    processes.leave(status)
    return status


def _check(session: Session, end: End) -> None:
    """Raise JobError if the loss was not finite, or if the last checkpoint could not be saved."""
    resume = f"nanoscope train {shlex.quote(str(session.folder.path))} --init_from=resume"
    last = read_pointer(session.folder.checkpoints, LAST)
    if end.reason == "non_finite":
        intact = f"The last good checkpoint, {last}, is intact: {resume}"
        raise JobError(
            f"the loss is not finite at iteration {end.step}: training stopped without saving\n"
            f"{intact if last else 'Nothing was saved before that: try'} {_lower_rates(session.config)}"
        )
    if session.machine.processes.first and end.step > 0 and end.saved_step != end.step and end.reason != "eval_only":
        kept = f"the newest complete one is {last}" if last else "there is none"
        raise JobError(f"the last checkpoint could not be saved; {kept}\nMake room, then: {resume}")


def _lower_rates(config: TrainConfig) -> str:
    if config.recipe == "modern":
        return f"--learning_rate={config.peak_lr / 2:g} --matrix_lr={config.matrix_lr / 2:g}"
    return f"--learning_rate={min(config.peak_lr / 2, 1e-3):g}"
