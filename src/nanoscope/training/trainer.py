"""The training loop: next batch, forward, backward, step, log. Read this file first.

Each part is timed under its own phase, so that the time of an iteration is never the time of something else.
"""

import gc
import math
from contextlib import nullcontext, suppress

from nanoscope.files import write_atomically
from nanoscope.generation.sampler import Sampling, generate_text
from nanoscope.hardware.device import autocast
from nanoscope.model.checkpoint import find_checkpoint
from nanoscope.runs.events import End, EndReason, Eval, NonFinite, Note, Rollback, Sample
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Data
from nanoscope.training.forecast import SAMPLE_TOKENS
from nanoscope.training.resume import flags_to_continue, update_records
from nanoscope.training.run import Run
from nanoscope.training.stopping import StopRequest

MAX_ROLLBACKS = 3


def train(run: Run, engine: Engine, data: Data, stop: StopRequest) -> End:
    """Train until max_iters, or until there is a reason to stop. What was reached is saved."""
    gc.freeze()  # start-up's objects live as long as the run: there is no point in checking them again and again
    run.clock.enter("other")
    run.reporter.advance(run.state.step)
    if run.config.on_nan == "rollback" and run.checkpoints.saved_step is None:
        run.save(engine)  # so that there is always a place to return to

    while True:
        step = run.state.step
        if run.evaluation_due():
            evaluate(run, engine, data, stop)
        if run.sample_due() and not stop.requested:
            sample(run, engine)
        if reason := run.reason_to_stop(stop):
            break

        with run.clock.phase("data") as waiting:
            batches = data.loader.next()
        if step in run.state.skipped:
            run.advance(data.loader.sequences_read)
            continue
        with run.clock.phase("step"):
            done = engine.step(batches, step, run.rate(step), abandoned=run.progress(stop, "step"))
        run.note_micro_batch(engine.micro_batch)
        if done is None:  # someone wants to stop: half an iteration is discarded, and repeated by a resumed run
            continue
        if not done.finite:  # at once: nothing may be saved after that
            if roll_back(run, engine, data):
                continue
            reason = "non_finite"
            break
        run.report_step(step, done, waiting.seconds, engine.flops_per_token)
        run.advance(data.loader.sequences_read)
        run.retry_save(engine)

    return finish(run, engine, data, stop, reason)


def evaluate(run: Run, engine: Engine, data: Data, stop: StopRequest) -> None:
    """Estimate both losses, keep track of the best, and save if the configuration says so."""
    config, state = run.config, run.state
    with run.clock.phase("eval") as timed:
        found = data.evaluator.evaluate(engine.plain_model, abandoned=run.progress(stop, "eval"))
    if found is None:  # someone wants to stop: half an evaluation is not reported
        return
    train, val = found["train"], found["val"]
    finite = math.isfinite(val.loss)
    best = finite and not run.read_only and (state.best_val_loss is None or val.loss < state.best_val_loss)
    run.pace.add("eval", timed.seconds)
    state.evaluated_at = state.step
    state.evaluations_since_best += 1
    if best:
        state.best_val_loss, state.best_step, state.evaluations_since_best = val.loss, state.step, 0
        run.best_stderr = val.stderr
    evaluation = Eval(
        step=state.step,
        train_loss=train.loss,
        train_stderr=train.stderr,
        val_loss=val.loss,
        val_stderr=val.stderr,
        windows=len(val.losses),
        seconds=timed.seconds,
        best=best,
    )
    run.reporter.emit(evaluation)
    if not run.read_only:
        run.keep_window_losses(data.evaluator, val, best)
    if state.step > 0 and finite and (best or config.always_save_checkpoint) and not config.eval_only:
        run.save(engine)


def sample(run: Run, engine: Engine) -> None:
    """Let the model write a short text, into samples/ and as one line."""
    if not run.processes.first or run.tokenizer is None:
        return
    choice = engine.machine.choice
    precision = nullcontext() if choice.type == "cpu" else autocast(choice)  # all weights, converted for each token
    with run.clock.phase("sample") as timed, precision:
        settings = Sampling(max_new_tokens=SAMPLE_TOKENS, seed=run.config.seed)
        text = generate_text(engine.plain_model, run.tokenizer, "\n", settings)
        file = run.folder.path / f"samples/step-{run.state.step:06d}.txt"
        with suppress(OSError):  # a disk that is full is reported with the next checkpoint
            write_atomically(file, text)
    run.pace.add("sample", timed.seconds)
    beginning = " ".join(text.split())[:80]
    path = f"samples/{file.name}"
    run.reporter.emit(Sample(step=run.state.step, seconds=timed.seconds, path=path, beginning=beginning))


def roll_back(run: Run, engine: Engine, data: Data) -> bool:
    """After a loss that is not finite: return to the last checkpoint, halve the rates, skip the batch that broke it."""
    before = run.state
    if run.config.on_nan != "rollback" or before.rollbacks == MAX_ROLLBACKS:
        return False
    run.processes.wait()  # until the first one has saved
    checkpoint, problems = find_checkpoint(run.folder.path)
    run.reporter.emit(*(Note(text=problem) for problem in problems))
    engine.restore(checkpoint)
    update_records(checkpoint, run.config, run.evaluation)
    now = run.state = checkpoint.progress
    run.checkpoints.saved_step = now.step
    data.seek(now)
    now.micro_batch, now.skipped = before.micro_batch, [*before.skipped, before.step]
    now.rollbacks, now.lr_factor = before.rollbacks + 1, before.lr_factor / 2
    run.reporter.emit(
        Rollback(step=before.step, to=now.step, lr_factor=now.lr_factor, count=now.rollbacks, limit=MAX_ROLLBACKS)
    )
    return True


def finish(run: Run, engine: Engine, data: Data, stop: StopRequest, reason: EndReason) -> End:
    """Save what is not saved yet, and report the end."""
    state = run.state
    data.close()
    if reason == "non_finite":
        run.reporter.emit(NonFinite(step=state.step))
    elif reason != "eval_only" and state.step > 0:
        run.save_at_the_end(engine, stop)
    end = End(
        reason=reason,
        step=state.step,
        wall_seconds=run.clock.wall_seconds,
        phases=run.clock.seconds(),
        signal=stop.signal_name if reason == "interrupted" else None,
        best_val_loss=state.best_val_loss,
        best_step=state.best_step,
        best_place=run.best_place,
        saved_step=run.checkpoints.saved_step,
        resume_with=flags_to_continue(run.config, run.for_session, reason),
    )
    run.reporter.emit(end)
    return end
