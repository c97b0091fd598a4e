"""The training loop: next batch, forward, backward, step, log. Read this file first.

Each part is timed under its own phase, so that the time of an iteration is never the time of something else.
"""

import gc
import math

from nanoscope.generation.sampler import Sampling, generate_text
from nanoscope.messages import Text
from nanoscope.model.flops import mfu
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.events import End, EndReason, Eval, Iter, NonFinite, Note, Sample
from nanoscope.training.forecast import SAMPLE_TOKENS
from nanoscope.training.guards import SlowStepWatch, SpikeWatch
from nanoscope.training.machine_metrics import MachineMetrics
from nanoscope.training.pace import evaluation_due
from nanoscope.training.progress import Passage
from nanoscope.training.recovery import discarded, roll_back
from nanoscope.training.resume import flags_to_continue, out_of_patience
from nanoscope.training.saving import retry_save, save, save_at_the_end
from nanoscope.training.session import Session
from nanoscope.training.stopping import StopRequest
from nanoscope.training.window_losses import keep_window_losses


def train(session: Session, stop: StopRequest) -> End:
    """Train until max_iters, or until there is a reason to stop. What was reached is saved."""
    config, machine, engine = session.config, session.machine, session.engine
    reporter, clock, pace = session.books.reporter, session.books.clock, session.books.pace
    spikes, slow_steps, metrics = SpikeWatch(), SlowStepWatch(), MachineMetrics(machine.device)
    gc.freeze()  # start-up's objects live as long as the run: there is no point in checking them again and again
    clock.enter("other")
    reporter.advance(session.state.step)
    if config.on_nan == "rollback" and session.checkpoints.saved_step is None:
        save(session)  # so that there is always a place to return to

    while True:
        state = session.state  # a rollback replaces it
        step = state.step
        lr = learning_rate(step, config) * state.lr_factor
        if evaluation_due(step, config) and state.evaluated_at != step:
            evaluate(session, stop)
        if config.sample_interval and step and step % config.sample_interval == 0 and not stop.requested:
            sample(session)
        if reason := reason_to_stop(session, stop):
            break

        with clock.phase("data") as waiting:
            batches = session.loader.next()
        if step in state.skipped:
            advance(session)
            continue
        passage = Passage(session, stop, "step")
        with clock.phase("step") as stepping, passage:
            done = engine.step(batches, step, lr, abandoned=passage)
        if done is None:  # someone wants to stop: half an iteration is discarded, and repeated by a resumed run
            reporter.emit(*discarded(step, passage))
            continue
        if not done.finite:  # at once: nothing may be saved after that
            if roll_back(session):
                continue
            reason = "non_finite"
            break
        advance(session)
        seconds = waiting.seconds + stepping.seconds
        pace.add("step", seconds)

        if step % config.log_interval == 0:
            steps, mean_seconds, max_seconds = pace.since_last_line()
            speed = pace.tokens_per_second
            iteration = Iter(
                step=step,
                loss=done.loss,
                seconds=seconds,
                data_seconds=waiting.seconds,
                steps=steps,
                mean_seconds=mean_seconds,
                max_seconds=max_seconds,
                lr=lr,
                grad_norm=done.grad_norm,
                tokens_per_second=speed,
                mfu=mfu(speed, engine.flops_per_token, machine.peak[0]),
                eta_seconds=pace.eta_seconds(step + 1),
                **metrics.sample(),
            )
            reporter.emit(iteration, *spikes.notice(step, done.loss))
        reporter.emit(*slow_steps.notice(step, seconds, waiting.seconds), *pace.revised_forecast(state.step))
        retry_save(session)
        reporter.advance(state.step)

    return finish(session, stop, reason)


def advance(session: Session) -> None:
    """One more iteration is done."""
    session.state.step, session.state.sequences = session.state.step + 1, session.loader.sequences_read


def evaluate(session: Session, stop: StopRequest) -> None:
    """Estimate both losses, keep track of the best, and save if the configuration says so."""
    config, state, books = session.config, session.state, session.books
    passage = Passage(session, stop, "eval")
    with books.clock.phase("eval") as timed, passage:
        found = session.evaluator.evaluate(session.engine.plain_model, abandoned=passage)
    if found is None:  # someone wants to stop: half an evaluation is not reported
        return
    train, val = found["train"], found["val"]
    finite = math.isfinite(val.loss)
    best = finite and not session.read_only and (state.best_val_loss is None or val.loss < state.best_val_loss)
    books.pace.add_evaluation(state.step, timed.seconds, best=best)
    state.evaluated_at = state.step
    state.evaluations_since_best += 1
    if best:
        state.best_val_loss, state.best_step, state.evaluations_since_best = val.loss, state.step, 0
        session.best_stderr = val.stderr if math.isfinite(val.stderr) else None
    evaluation = Eval(
        step=state.step,
        train_loss=train.loss,
        train_stderr=train.stderr,
        val_loss=val.loss,
        val_stderr=val.stderr if math.isfinite(val.stderr) else None,  # one window has none
        windows=val.windows,
        seconds=timed.seconds,
        best=best,
    )
    books.reporter.emit(evaluation)
    if not session.read_only:
        keep_window_losses(session, val, best)
    if state.step > 0 and finite and (best or config.always_save_checkpoint) and not config.eval_only:
        save(session, best=best)


def sample(session: Session) -> None:
    """Let the model write a short text, into samples/ and as one line."""
    tokenizer, step, books = session.dataset.tokenizer, session.state.step, session.books
    if not session.machine.processes.first or tokenizer is None:
        return
    with books.clock.phase("sample") as timed, session.machine.sampling():
        settings = Sampling(max_new_tokens=SAMPLE_TOKENS, seed=session.config.seed)
        text = generate_text(session.engine.plain_model, tokenizer, "\n", settings)
        file = session.folder.samples / f"step-{step:06d}.txt"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            problem = Text("can't write the sample to {file}: {reason}", file=file, reason=error.strerror)
            books.reporter.emit(Note(text=problem, level="warning"))
    books.pace.add("sample", timed.seconds)
    beginning = " ".join(text.split())[:80]
    books.reporter.emit(Sample(step=step, seconds=timed.seconds, path=f"samples/{file.name}", beginning=beginning))


def reason_to_stop(session: Session, stop: StopRequest) -> EndReason | None:
    config, step = session.config, session.state.step
    over_time = config.max_minutes > 0 and session.books.clock.wall_seconds >= 60 * config.max_minutes
    asked, over_time = session.machine.processes.any(stop.requested, over_time)
    reasons: dict[EndReason, bool] = {
        "eval_only": config.eval_only,
        "finished": step >= config.max_iters,
        "patience": out_of_patience(session.state, config),
        "interrupted": asked,
        "max_minutes": over_time,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def finish(session: Session, stop: StopRequest, reason: EndReason) -> End:
    """Save what is not saved yet, and report the end."""
    state, books, step = session.state, session.books, session.state.step
    session.loader.close()
    retry_save(session, last_try=True)
    if reason == "non_finite":
        books.reporter.emit(NonFinite(step=step))
    elif reason != "eval_only" and step > 0:
        save_at_the_end(session, stop)
    end = End(
        reason=reason,
        step=step,
        wall_seconds=books.clock.wall_seconds,
        phases=books.clock.seconds(),
        signal=stop.signal_name if reason == "interrupted" else None,
        best_val_loss=state.best_val_loss,
        best_step=state.best_step,
        best_place=session.best_place,
        saved_step=session.checkpoints.saved_step,
        resume_with=flags_to_continue(session.config, session.for_session, reason),
    )
    books.reporter.emit(end)
    return end
