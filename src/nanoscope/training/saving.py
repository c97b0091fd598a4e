"""When a checkpoint is due: save it, report it, and try again later if it could not be saved."""

import time

from nanoscope.checkpoint_files import checkpoint_name
from nanoscope.messages import Count, Text
from nanoscope.runs.events import Checkpoint, CheckpointFailed, CheckpointSaved, Note
from nanoscope.training.checkpoint import SaveError, Snapshot, take_snapshot
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest

LAST_TRIES = 20  # every 30 s: ten minutes to make room


def save(session: Session, *, best: bool = False) -> None:
    """Save the current state. If that fails, training continues, and `retry_save` tries again from a copy."""
    session.checkpoints.unsaved = None  # a newer state takes its place
    _save_now(session, best, retry=True)


def retry_save(session: Session, *, last_try: bool = False) -> None:
    """Try again to save what could not be saved. Called after every iteration; does something every 30 s.

    `last_try`: try at once, and forget it if that fails.
    """
    writer = session.checkpoints
    if writer.unsaved is None or (not last_try and time.monotonic() < writer.retry_at):
        return
    step = writer.unsaved.step
    with session.books.clock.phase("checkpoint"):
        failure = _write(session, writer.unsaved)
    writer.retry_at = time.monotonic() + writer.RETRY_SECONDS
    if failure is None:
        session.books.reporter.emit(CheckpointSaved(step=step))
    if failure is None or last_try:
        writer.unsaved = None


def save_at_the_end(session: Session, stop: StopRequest) -> None:
    """Save the last checkpoint, which is what the run was for. If the disk is full, wait for room."""
    state, seconds = session.state, session.checkpoints.RETRY_SECONDS
    for left in reversed(range(1 if stop.requested else LAST_TRIES)):
        if session.checkpoints.saved_step == state.step or _save_now(session, state.best_step == state.step):
            return
        if left:
            text = Count(
                "trying again in {seconds:g} s, once (Ctrl-C gives up)",
                "trying again in {seconds:g} s, {n} times (Ctrl-C gives up)",
                left,
                seconds=seconds,
            )
            session.books.reporter.emit(Note(text=text))
            with session.books.clock.phase("checkpoint"):
                if stop.wait(seconds):
                    return


def _save_now(session: Session, best: bool, *, retry: bool = False) -> bool:
    """Save the current state and report it; returns whether it is saved. `retry`: if not, keep a copy of it."""
    if not session.machine.processes.first:
        return True
    session.write_config(if_missing=True)
    with session.books.clock.phase("checkpoint") as timed:
        snapshot = take_snapshot(
            session.engine.plain_model,
            session.engine.optimizer,
            session.state,
            scaler=session.engine.scaler.state_dict(),
            tokenizer=session.dataset.tokenizer,
            best=best,
            run={
                "seed": session.config.seed,
                "dataset_fingerprint": session.dataset.fingerprint,
                "evaluation": session.evaluation,
            },
            settings=session.settings,
        )
        failure = _write(session, snapshot)
    if failure is not None:
        if retry and _keep_copy(session, snapshot):
            seconds = session.checkpoints.RETRY_SECONDS
            failure = Text("{failure}; trying again every {seconds:g} s", failure=failure, seconds=seconds)
        session.books.reporter.emit(CheckpointFailed(step=snapshot.step, message=failure))
        return False
    if snapshot.step > 0:  # before training there is no optimizer state, so that takes less
        session.books.pace.add("checkpoint", timed.seconds)
    path = f"{session.folder.checkpoints.name}/{checkpoint_name(snapshot.step)}"
    session.books.reporter.emit(Checkpoint(step=snapshot.step, path=path, seconds=timed.seconds, best=best))
    return True


def _write(session: Session, snapshot: Snapshot) -> str | None:
    """Returns why it could not be saved."""
    try:
        session.checkpoints.save(snapshot)
    except SaveError as error:
        return str(error)
    return None


def _keep_copy(session: Session, snapshot: Snapshot) -> bool:
    writer = session.checkpoints
    try:
        writer.unsaved, writer.retry_at = snapshot.copy(), time.monotonic() + writer.RETRY_SECONDS
    except (RuntimeError, MemoryError):  # no memory for a copy: the next save will have to do
        return False
    return True
