"""What a run does about trouble: less memory at once, back to the last checkpoint; and what it says about it."""

from dataclasses import asdict

import torch

from nanoscope.data.loader import Batch
from nanoscope.errors import JobError
from nanoscope.hardware.memory import NO_ROOM_FOR_ONE, release
from nanoscope.training.guards import CAUSES, SlowStepWatch, SpikeWatch
from nanoscope.training.pace import short_duration
from nanoscope.training.saving import wait_for_saves
from nanoscope.training.session import Session, go_back

MAX_ROLLBACKS = 3


def split_batches(batches: list[Batch], most: int) -> list[Batch]:
    """The same sequences in micro-batches of at most so many."""
    if all(len(tokens) <= most for tokens, _ in batches):
        return batches
    return [part for batch in batches for part in zip(*(torch.split(half, most) for half in batch), strict=True)]


def halve_micro_batch(session: Session, step: int) -> None:
    """Go on with micro-batches of half the size and twice as many: an iteration's tokens stay the same."""
    before = session.micro_batch
    if before == 1:
        raise NO_ROOM_FOR_ONE
    if session.processes.world > 1:  # the others would wait for this one's gradients
        raise JobError(f"out of memory at iteration {step}\nUse a --batch_size smaller than {before}.")
    session.progress.micro_batch = session.loader.micro_batch = before // 2
    release(session.device)
    session.say(
        f"note: out of memory at iteration {step}: micro-batches of {before // 2} sequences instead of {before} from "
        "now on; an iteration's tokens stay the same"
    )
    session.record("out_of_memory", step=step, micro_batch_before=before, micro_batch=before // 2)


def roll_back(session: Session, bad_step: int) -> bool:
    """After a loss that is not finite: back to the last checkpoint, with lower rates, past the batch that broke it."""
    if session.config.on_nan != "rollback" or session.progress.rollbacks == MAX_ROLLBACKS:
        return False
    wait_for_saves(session)
    session.processes.wait()  # until the first one has saved
    before = session.progress
    go_back(session)
    now = session.progress
    now.skipped = [*before.skipped, bad_step]
    now.rollbacks, now.lr_factor = before.rollbacks + 1, before.lr_factor / 2
    session.say(
        f"note: the loss was not finite at iteration {bad_step}: back to iteration {now.step}, its batch left out, "
        f"rates × {now.lr_factor:g} (rollback {now.rollbacks} of at most {MAX_ROLLBACKS})"
    )
    session.record("rollback", step=bad_step, to=now.step, lr_factor=now.lr_factor, count=now.rollbacks)
    return True


def tell_spike(session: Session, spikes: SpikeWatch, step: int, loss: float) -> None:
    spike = spikes.notice(loss)
    if spike is not None:
        session.say(f"note: the loss jumped at iteration {step}: {loss:.4f}, where {spike.usual:.4f} is usual")
        session.record("spike", step=step, **asdict(spike))


def tell_slow_step(session: Session, slow_steps: SlowStepWatch, step: int, seconds: float, data_seconds: float) -> None:
    slow = slow_steps.notice(seconds, data_seconds, saving=session.checkpoints.busy)
    if slow_steps.asleep > 60:
        session.say(f"note: the machine slept for {short_duration(slow_steps.asleep)}; that time is not counted")
        session.record("asleep", step=step, seconds=slow_steps.asleep)
    if slow is not None:
        times = f"{short_duration(seconds)}, {seconds / slow.usual:.0f} times the usual"
        session.say(f"note: iteration {step} took {times}: {CAUSES[slow.cause]}")
        session.record("slow_step", step=step, **asdict(slow))
