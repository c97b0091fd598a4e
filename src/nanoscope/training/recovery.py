"""How a run recovers: from too little memory, and from a loss that is not finite."""

import torch
from torch import Tensor

from nanoscope.data.loader import Batch
from nanoscope.errors import JobError
from nanoscope.hardware.memory import SequenceTooLargeError, is_out_of_memory, release
from nanoscope.messages import Text
from nanoscope.runs.events import Note, OutOfMemory, Rollback
from nanoscope.training.progress import Passage
from nanoscope.training.saving import retry_save
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest

MAX_ROLLBACKS = 3


def forward_backward(session: Session, batches: list[Batch], step: int, stop: StopRequest) -> Tensor | None:
    """`Learner.forward_backward`, with smaller micro-batches from now on if memory runs out."""
    while True:
        batches = split_batches(batches, session.micro_batch)
        try:
            with Passage(session, stop, "step", len(batches)) as passage:
                loss = session.learner.forward_backward(batches, step, passage)
            if loss is None and passage.done:
                session.books.reporter.emit(Note(text=discarded(step, passage)))
            return loss
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Here, not above: the exception holds on to tensors.
        session.learner.zero_grad()
        halve_micro_batch(session)


def discarded(step: int, passage: Passage) -> Text:
    done, total = passage.done, passage.total
    text = Text(
        "iteration {step:d} was discarded after {done:d} of {total:d} micro-batches", step=step, done=done, total=total
    )
    return Text("{discarded}; a resumed run repeats it", discarded=text) if step else text


def split_batches(batches: list[Batch], most: int) -> list[Batch]:
    """Return the same sequences in micro-batches of at most `most`."""
    if all(len(tokens) <= most for tokens, _ in batches):
        return batches
    return [part for batch in batches for part in zip(*(torch.split(half, most) for half in batch), strict=True)]


def halve_micro_batch(session: Session) -> None:
    """Continue with micro-batches of half the size and twice as many: the tokens per iteration stay the same."""
    before, step = session.micro_batch, session.state.step
    if before == 1:
        raise SequenceTooLargeError
    if session.machine.processes.world > 1:  # the others would wait for this one's gradients
        raise JobError(
            "out of memory at iteration {step}\nUse a --batch_size smaller than {before}.", step=step, before=before
        )
    session.state.micro_batch = session.loader.micro_batch = before // 2
    release(session.machine.device)
    session.books.reporter.emit(OutOfMemory(step=step, micro_batch_before=before, micro_batch=before // 2))


def roll_back(session: Session) -> bool:
    """After a loss that is not finite: return to the last checkpoint, halve the rates, skip the batch that broke it."""
    before = session.state
    if session.config.on_nan != "rollback" or before.rollbacks == MAX_ROLLBACKS:
        return False
    retry_save(session, last_try=True)
    session.machine.processes.wait()  # until the first one has saved
    session.go_back()
    now = session.state
    now.skipped = [*before.skipped, before.step]
    now.rollbacks, now.lr_factor = before.rollbacks + 1, before.lr_factor / 2
    session.books.reporter.emit(
        Rollback(step=before.step, to=now.step, lr_factor=now.lr_factor, count=now.rollbacks, limit=MAX_ROLLBACKS)
    )
    return True
