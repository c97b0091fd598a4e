"""When a checkpoint is due: have it saved while training goes on, and tell how that went."""

from nanoscope.training.checkpoint import take_snapshot
from nanoscope.training.introduction import write_config
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest

LAST_TRIES = 20  # every half a minute: ten minutes to make room


def save(session: Session, *, best: bool = False) -> None:
    """Have the state saved while training goes on: copied during the next forward pass, then written."""
    session.saved_at = session.progress.step
    if not session.processes.first:
        return
    write_config(session, if_missing=True)
    with session.clock.phase("checkpoint") as timed:
        snapshot = take_snapshot(
            session.plain_model, session.optimizer, session.progress, scaler=session.scaler.state_dict(),
            tokenizer=session.dataset.tokenizer,
            run={"seed": session.config.seed, "dataset_fingerprint": session.dataset.fingerprint},
        )  # fmt: skip
        target = session.checkpoints.save(snapshot, best=best)
    session.pace.extra("checkpoint", timed.seconds)
    session.say(f"saving checkpoint to {target} (in background)")
    path = target.relative_to(session.folder.path).as_posix()
    session.record("checkpoint", step=session.progress.step, path=path, seconds=timed.seconds, best=best)


def wait_for_saves(session: Session) -> None:
    with session.clock.phase("checkpoint"):
        session.checkpoints.wait()
    tell_saves(session)


def tell_saves(session: Session) -> None:
    """A checkpoint that could not be written is told at once, and again when it could: training goes on meanwhile."""
    for news in session.checkpoints.news():
        session.say(f"{'note' if news.saved else 'warning'}: {news.message}")
        session.record("checkpoint_saved" if news.saved else "checkpoint_failed", step=news.step, message=news.message)
        if news.saved and session.saved_at is None:
            session.saved_at = news.step
        elif not news.saved and session.saved_at == news.step:
            session.saved_at = None


def save_at_the_end(session: Session, stop: StopRequest) -> None:
    """The last checkpoint is what a run was for: where there is no room for it, room is waited for."""
    progress = session.progress
    wait_for_saves(session)
    for left in reversed(range(1 if stop.requested else LAST_TRIES)):
        if session.saved_at == progress.step:
            return
        save(session, best=progress.best_step == progress.step)
        wait_for_saves(session)
        if session.saved_at != progress.step and left:
            session.say(f"trying again in {session.checkpoints.RETRY_SECONDS:g} s, {left} times (Ctrl-C gives up)")
            with session.clock.phase("checkpoint"):
                if stop.wait(session.checkpoints.RETRY_SECONDS):
                    return
