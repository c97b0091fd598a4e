"""How a run recovers from a loss that is not finite."""

from nanoscope.messages import Text
from nanoscope.runs.events import Note, Rollback
from nanoscope.training.progress import Passage
from nanoscope.training.saving import retry_save
from nanoscope.training.session import Session

MAX_ROLLBACKS = 3


def discarded(step: int, passage: Passage) -> list[Note]:
    """What becomes of the micro-batches of an iteration that was not finished."""
    if not passage.done:
        return []
    done, total = passage.done, passage.total
    text = Text(
        "iteration {step:d} was discarded after {done:d} of {total:d} micro-batches", step=step, done=done, total=total
    )
    return [Note(text=Text("{discarded}; a resumed run repeats it", discarded=text) if step else text)]


def roll_back(session: Session) -> bool:
    """After a loss that is not finite: return to the last checkpoint, halve the rates, skip the batch that broke it."""
    before = session.state
    if session.config.on_nan != "rollback" or before.rollbacks == MAX_ROLLBACKS:
        return False
    retry_save(session, last_try=True)
    session.machine.processes.wait()  # until the first one has saved
    session.go_back()
    now = session.state
    now.micro_batch, now.skipped = before.micro_batch, [*before.skipped, before.step]
    now.rollbacks, now.lr_factor = before.rollbacks + 1, before.lr_factor / 2
    session.books.reporter.emit(
        Rollback(step=before.step, to=now.step, lr_factor=now.lr_factor, count=now.rollbacks, limit=MAX_ROLLBACKS)
    )
    return True
