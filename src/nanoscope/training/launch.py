"""From a resolved configuration to an exit status: start the run, train, say how it ended and what comes next."""

import signal
from contextlib import nullcontext

from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError
from nanoscope.training.pace import short_duration
from nanoscope.training.phases import PhaseClock
from nanoscope.training.run_folder import read_pointer
from nanoscope.training.session import Session, start_session
from nanoscope.training.stopping import StopRequest
from nanoscope.training.trainer import Outcome, train
from nanoscope.views.progress import training_view


def launch(resolved: Resolved, clock: PhaseClock) -> int:
    """Train and return the exit status: 0, or 128 + the number of the signal that asked for the end."""
    # Until training begins there is nothing to save: there a signal ends the process at once.
    session = start_session(resolved, lambda total, first: training_view(total, first_process=first), clock)
    try:
        view = session.logbook.view if session.logbook else nullcontext()
        with StopRequest(at_once=session.processes.world == 1) as stop, view:
            outcome = train(session, stop)
        _report(session, outcome, stop)
    finally:
        session.loader.close()
        if session.logbook is not None:
            session.logbook.close()
        session.folder.release()
    status = 128 + stop.signal if outcome.reason == "interrupted" and stop.signal is not None else 0
    session.processes.leave(status)
    return status


def _report(session: Session, outcome: Outcome, stop: StopRequest) -> None:
    """The last lines: why it ended, where the time went, what was reached, what to type next."""
    config, progress, run = session.config, session.progress, session.folder.path
    resume = f"nanoscope train {run} --init_from=resume"
    last = read_pointer(session.folder.checkpoints, "last")
    if outcome.reason == "non_finite":
        raise JobError(
            f"the loss is not finite at iteration {outcome.step}: training stopped, and nothing of it was saved\n"
            + (
                f"The last good checkpoint, {last}, is intact: {resume} "
                if last
                else "Nothing was saved before it: try "
            )
            + _lower_rates(config)
        )
    by = signal.Signals(stop.signal).name if stop.signal else "another process"
    endings = {
        "finished": f"finished {outcome.step} iterations",
        "eval_only": "evaluated, nothing trained",
        "patience": f"stopped at iteration {outcome.step}: no better val loss in {config.patience} evaluations",
        "max_minutes": f"stopped at iteration {outcome.step}: max_minutes={config.max_minutes:g} is over",
        "interrupted": f"stopped at iteration {outcome.step} by {by}",
    }
    session.say(f"{endings[outcome.reason]} in {short_duration(session.clock.wall_seconds)} ({_time_shares(session)})")
    if progress.best_val_loss is not None:
        session.say(f"best val loss {progress.best_val_loss:.4f} at step {progress.best_step}")
    if outcome.reason == "eval_only":
        return
    if session.processes.first and progress.step > 0 and session.saved_at != progress.step:
        kept = f"the newest whole one is {last}" if last else "there is none"
        raise JobError(f"the last checkpoint could not be saved; {kept}\nMake room, then: {resume}")
    if progress.step == 0:
        session.say("nothing was trained, so nothing was saved")
    elif outcome.reason != "finished":
        session.say(f"saved; to go on: {resume}")
    else:
        session.say(f"to see what it writes: nanoscope sample {run}")


def _lower_rates(config: TrainConfig) -> str:
    if config.recipe == "modern":
        return f"--learning_rate={config.peak_lr / 2:g} --matrix_lr={config.matrix_lr / 2:g}"
    return f"--learning_rate={min(config.peak_lr / 2, 1e-3):g}"


def _time_shares(session: Session) -> str:
    seconds = session.clock.seconds()
    total = sum(seconds.values())
    shares = sorted(((value / total, name) for name, value in seconds.items()), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f}%" for share, name in shares if share >= 0.005)
