"""When a checkpoint is due: have it saved while training goes on, and tell how that went."""

from nanoscope.training.checkpoint import take_snapshot
from nanoscope.training.session import Session, write_config


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
    """A checkpoint that could not be written is told at once; training goes on and tries again at the next."""
    for failure in session.checkpoints.failures():
        session.say(f"warning: {failure}")
        session.record("checkpoint_failed", step=session.progress.step, message=failure)
        session.saved_at = None
