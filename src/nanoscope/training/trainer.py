"""The training loop: next batch, forward, backward, step, log. Read this file first.

Each passage is timed under its own phase, so that the time of an iteration is never the time of something else.
"""

import gc
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.generation.sampler import Sampling, generate_text
from nanoscope.hardware.device import synchronize
from nanoscope.hardware.memory import is_out_of_memory
from nanoscope.model.flops import mfu
from nanoscope.optim.groups import clip_gradients
from nanoscope.optim.schedule import learning_rate
from nanoscope.training.guards import SlowStepWatch, SpikeWatch
from nanoscope.training.recovery import halve_micro_batch, roll_back, split_batches, tell_slow_step, tell_spike
from nanoscope.training.saving import save, save_at_the_end, tell_saves, wait_for_saves
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest


@dataclass(frozen=True)
class Outcome:
    """How a run ended: finished, interrupted, max_minutes, patience, eval_only or non_finite."""

    reason: str
    step: int


def train(session: Session, stop: StopRequest) -> Outcome:
    """Train until max_iters, or until there is a reason to stop. What was reached is saved."""
    config, clock, progress, pace = session.config, session.clock, session.progress, session.pace
    on_cpu = session.device.type == "cpu"
    spikes, slow_steps = SpikeWatch(), SlowStepWatch()
    first_bad = torch.full((), -1, device=session.device)  # first iteration whose loss was not finite
    gc.collect()
    gc.freeze()  # what start-up made lives as long as the run: looking through it again and again finds nothing
    clock.enter("other")
    if config.on_nan == "rollback" and session.saved_at is None:
        save(session)  # there is always a place to go back to

    while True:
        progress = session.progress  # another one after a rollback
        step = progress.step
        lr = learning_rate(step, config) * progress.lr_factor
        if due_for_evaluation(step, config) and progress.evaluated_at != step:
            evaluate(session, stop, lr)
        if config.sample_interval and step and step % config.sample_interval == 0:
            sample(session)
        if reason := reason_to_stop(session, stop, first_bad):
            (bad_step,) = session.processes.highest(int(first_bad.item()))
            if reason != "non_finite" or not roll_back(session, bad_step):
                break
            first_bad.fill_(-1)
            continue

        logged = step % config.log_interval == 0
        if logged and not on_cpu:
            synchronize(session.device)  # so that this iteration's time is its own
        with clock.phase("data") as waiting:
            batches = session.loader.next()
        progress.step, progress.sequences = step + 1, session.loader.sequences_read
        if step in progress.skipped:
            continue
        with clock.phase("step") as stepping:
            loss, grad_norm = optimizer_step(session, batches, step, lr, first_bad)
            if logged:
                synchronize(session.device)
        seconds = waiting.seconds + stepping.seconds
        pace.step(seconds)

        if logged:
            (mean_loss,) = session.processes.sum([loss.item()])
            if session.logbook is not None and math.isfinite(mean_loss):
                session.logbook.iteration(
                    step, mean_loss, seconds, waiting.seconds, lr, None if grad_norm is None else float(grad_norm),
                    mfu(pace.tokens_per_second, session.flops_per_token, session.peak_flops),
                    pace, progress.best_val_loss,
                )  # fmt: skip
                tell_spike(session, spikes, step, mean_loss)
        tell_slow_step(session, slow_steps, step, seconds, waiting.seconds)
        tell_saves(session)
        if session.logbook is not None:
            session.logbook.view.update(progress.step)

    return finish(session, stop, reason, bad_step)


def due_for_evaluation(step: int, config: TrainConfig) -> bool:
    if step == 0 and config.recipe == "modern" and not config.eval_only:
        return False  # its output layer begins at zero: the loss is the logarithm of the vocabulary's size
    return step % config.eval_interval == 0 or step == config.max_iters


def optimizer_step(
    session: Session, batches: list[Batch], step: int, lr: float, first_bad: Tensor
) -> tuple[Tensor, Tensor | None]:
    """One update. Returns this process's share of the mean loss, and the gradient norm before clipping.

    A loss or gradient that is not finite is noted in `first_bad`; then the weights are left as they are.
    """
    config, optimizer, scaler, processes = session.config, session.optimizer, session.scaler, session.processes
    total = gradients(session, batches, step)
    grad_norm = None
    if config.grad_clip > 0:
        scaler.unscale_(optimizer)
        grad_norm = clip_gradients(session.parameters, config.grad_clip)
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_scale", 1.0)

    # float16 overflows in passing, which is what the scaler is for: there only the loss is a sign of trouble.
    signs = total if grad_norm is None or scaler.is_enabled() else total + grad_norm
    first_bad.copy_(torch.where(torch.isfinite(signs) | (first_bad >= 0), first_bad, step))
    if session.device.type != "cpu" or not processes.any(first_bad.item() >= 0)[0]:
        session.checkpoints.copied()  # from here on weights change
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total, grad_norm


def gradients(session: Session, batches: list[Batch], step: int) -> Tensor:
    """Forward and backward over all micro-batches: with smaller ones, from now on, where memory does not suffice."""
    while True:
        try:
            return forward_backward(session, split_batches(batches, session.micro_batch), step)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Only here has the exception let go of what it held.
        session.optimizer.zero_grad(set_to_none=True)
        halve_micro_batch(session, step)


def forward_backward(session: Session, batches: list[Batch], step: int) -> Tensor:
    """The gradients of this process's share of the mean loss; returns that share."""
    seed_step(session, step)
    total = torch.zeros((), device=session.device)
    for number, (tokens, targets) in enumerate(batches, start=1):
        if isinstance(session.model, DistributedDataParallel):  # gradients meet once, after the last micro-batch
            session.model.require_backward_grad_sync = number == len(batches)
        share = len(tokens) / session.config.sequences_per_step
        with session.autocast():
            loss = session.model(
                tokens.to(session.device, non_blocking=True), targets.to(session.device, non_blocking=True)
            )
        # DDP averages over the processes, each of which holds only its own part of the mean: hence × world.
        session.scaler.scale(loss * (share * session.processes.world)).backward()
        total += loss.detach() * share
    return total


def seed_step(session: Session, step: int) -> None:
    """Dropout depends on seed, iteration and process alone: a resumed run needs no random state to be the same."""
    if session.config.dropout > 0 or session.config.ngram_dropout > 0:
        mixed = (session.config.seed * 1_000_003 + step) * 1_000_003 + session.processes.rank
        torch.manual_seed(mixed % 2**63)


def evaluate(session: Session, stop: StopRequest, lr: float) -> None:
    """Estimate both losses, note the best, and save where the configuration says so."""
    config, progress = session.config, session.progress
    with session.clock.phase("eval") as timed:
        found = session.evaluator.evaluate(session.plain_model, abandoned=lambda: stop.requested)
    if found is None:  # the person wants to stop: what is half measured is not told
        return
    session.pace.extra("eval", timed.seconds)
    val_loss = found["val"].loss
    best = math.isfinite(val_loss) and (progress.best_val_loss is None or val_loss < progress.best_val_loss)
    if best:
        progress.best_val_loss, progress.best_step, progress.evaluations_since_best = (
            val_loss,
            progress.step,
            0,
        )
    else:
        progress.evaluations_since_best += 1
    progress.evaluated_at = progress.step
    if session.logbook is not None:
        session.logbook.evaluation(progress.step, found, timed.seconds, best, lr)
    if (
        progress.step > 0
        and math.isfinite(val_loss)
        and (best or config.always_save_checkpoint)
        and not config.eval_only
    ):
        save(session, best=best)


def sample(session: Session) -> None:
    """Let the model write a little, into samples/ and as one line."""
    tokenizer = session.dataset.tokenizer
    if not session.processes.first or tokenizer is None:
        return
    with session.clock.phase("sample") as timed, session.autocast():
        settings = Sampling(max_new_tokens=200, seed=session.config.seed)
        text = generate_text(session.plain_model, tokenizer, "\n", settings)
        file = session.folder.samples / f"step-{session.progress.step:06d}.txt"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            session.say(f"warning: the sample could not be written to {file}: {error.strerror}")
    session.pace.extra("sample", timed.seconds)
    session.say(f"sample at {session.progress.step}: {' '.join(text.split())[:80]!r} (all of it: {file})")
    session.record("sample", step=session.progress.step, seconds=timed.seconds, path=f"samples/{file.name}")


def reason_to_stop(session: Session, stop: StopRequest, first_bad: Tensor) -> str | None:
    config, step = session.config, session.progress.step
    # Asking a GPU for a number makes it wait: there a loss that is not finite is noticed at the next line.
    look = session.device.type == "cpu" or step % config.log_interval == 0 or step == config.max_iters
    bad = look and first_bad.item() >= 0
    over_time = config.max_minutes > 0 and session.clock.wall_seconds >= 60 * config.max_minutes
    bad, asked, over_time = session.processes.any(bad, stop.requested, over_time)
    reasons = {
        "non_finite": bad,
        "eval_only": config.eval_only,
        "finished": step >= config.max_iters,
        "patience": 0 < config.patience <= session.progress.evaluations_since_best,
        "interrupted": asked,
        "max_minutes": over_time,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def finish(session: Session, stop: StopRequest, reason: str, bad_step: int) -> Outcome:
    """Save what is not saved yet, wait until it is on disk, and close the books."""
    progress = session.progress
    session.loader.close()
    if reason not in ("eval_only", "non_finite") and progress.step > 0:
        save_at_the_end(session, stop)
    wait_for_saves(session)
    step = bad_step if reason == "non_finite" else progress.step
    if reason == "non_finite":
        session.record("non_finite", step=step)
    session.record(
        "end",
        reason=reason,
        step=step,
        wall_seconds=session.clock.wall_seconds,
        phases=session.clock.seconds(),
    )
    return Outcome(reason, step)
