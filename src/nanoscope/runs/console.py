"""The console lines of events.

`console_lines` is the only place that decides how an event reads in a terminal and in console.log. The lines of
iterations, evaluations and checkpoints keep nanoGPT's shape in every language, and any reader of logs understands them;
the others are texts, which console.log has in English and the terminal in the user's language.
"""

import shlex
from pathlib import PurePath
from typing import Any

from msgspec import structs

from nanoscope.ladder import Ladder, in_words
from nanoscope.messages import Message, Shown, bracketed, joined
from nanoscope.runs import events as e
from nanoscope.units import MISSING, exact_seconds, short_count, short_duration

# What explains a run to somebody who has only its console.log.
SHOWN_SETTINGS = (
    "recipe", "dataset", "max_iters", "batch_size", "gradient_accumulation_steps", "block_size", "n_layer", "n_head",
    "n_embd", "dropout", "learning_rate", "lr_scale", "decay_lr", "warmup_iters", "lr_decay_iters", "min_lr",
    "weight_decay", "grad_clip", "eval_interval", "eval_iters", "log_interval", "seed",
)  # fmt: skip
SLOW_CAUSES: dict[e.SlowCause, Message] = {
    "asleep": Message("the machine was asleep"),
    "data": Message("it waited for data"),
    "checkpoint": Message("a checkpoint was being written"),
    "busy": Message("the process got little CPU time (other programs, or swapping)"),
    "unknown": Message("cause unknown"),
}
UNITS = {"character": Message("characters"), "byte": Message("bytes"), "token": Message("tokens")}
ENDINGS: dict[e.EndReason, Message] = {
    "finished": Message("finished {step:d} iterations"),
    "eval_only": Message("evaluated at iteration {step:d} without training"),
    "patience": Message("stopped at iteration {step:d}: out of patience (val loss not improving)"),
    "max_minutes": Message("stopped at iteration {step:d}: max_minutes is over"),
    "interrupted": Message("stopped at iteration {step:d} by {signal}"),
    "non_finite": Message("stopped at iteration {step:d}: the loss is not finite"),
}
# Filled with the fields of the event.
NOTES: dict[type[e.Event], Message] = {
    e.Sample: Message("sample at {step:d}: {what} (full text: {where})"),
    e.Rollback: Message(
        "note: the loss was not finite at iteration {step:d}: back to iteration {to:d} without that batch, learning "
        "rates × {lr_factor:g} (rollback {count:d} of at most {limit:d})"
    ),
    e.OutOfMemory: Message(
        "note: out of memory at iteration {step:d}: micro-batches of {micro_batch:d} sequences instead of "
        "{micro_batch_before:d} from now on; tokens per iteration stay the same"
    ),
    e.Spike: Message("note: loss spike at iteration {step:d}: {loss:.4f}, usually {usual:.4f}"),
    e.SlowStep: Message("note: iteration {step:d} took {seconds:seconds2}, usually {usual:seconds4}: {cause}"),
    e.Asleep: Message(
        "note: the machine slept for {seconds:compact} during iteration {step:d}; that time is not counted"
    ),
    e.CheckpointFailed: Message("warning: checkpoint of iteration {step:d} not saved: {message}"),
    e.NonFinite: Message("the loss is not finite at iteration {step:d}"),
}
LEVELS = {"note": Message("note: {text}"), "warning": Message("warning: {text}")}
PHASES = {
    "startup": Message("startup"),
    "data": Message("data"),
    "step": Message("step"),
    "eval": Message("eval"),
    "checkpoint": Message("checkpoint"),
    "sample": Message("sample"),
    "other": Message("other"),
}


def console_lines(event: e.AnyEvent, folder: str = "") -> list[Shown]:
    """What the console shows of an event; `folder` is the run's."""
    match event:
        case e.Iter():
            time, mfu = _written("{:.2f}ms", event.seconds, 1000), _written("{:.2f}%", event.mfu, 100)
            rate = MISSING if event.tokens_per_second is None else short_count(event.tokens_per_second)
            left = "" if event.eta_seconds is None else f", eta {short_duration(event.eta_seconds)}"
            return [f"iter {event.step}: loss {_loss(event.loss)}, time {time}, mfu {mfu}, tok/s {rate}{left}"]
        case e.Eval():
            error = "" if event.val_stderr is None else f" ± {event.val_stderr:.4f}"
            losses = f"train loss {_loss(event.train_loss)}, val loss {_loss(event.val_loss)}{error}"
            return [f"step {event.step}: {losses}, eval {exact_seconds(event.seconds)}"]
        case e.Checkpoint():
            return [f"saving checkpoint to {PurePath(folder, event.path)} ({exact_seconds(event.seconds)})"]
        case e.Start():
            return _start_lines(event, folder)
        case e.End():
            return _end_lines(event, folder)
        case e.Resume():
            return [_resume_line(event)]
        case e.Forecast():
            return [_forecast_line(event)]
        case e.Note():
            return [_filled(LEVELS[event.level], event)]
        case e.Sample():
            return [_filled(NOTES[e.Sample], event, what=repr(event.beginning), where=PurePath(folder, event.path))]
        case e.SlowStep():
            return [_filled(NOTES[e.SlowStep], event, cause=SLOW_CAUSES[event.cause])]
        case _:
            return [_filled(NOTES[type(event)], event)]


def _filled(message: Message, event: e.AnyEvent, **values: object) -> Message:
    return Message(message.template, **{**structs.asdict(event), **values})


def _present(*lines: object) -> list[Shown]:
    """The lines that there are."""
    return [line for line in lines if line and isinstance(line, Message | str)]


def _start_lines(event: e.Start, folder: str) -> list[Shown]:
    settings = [f"{key}={shlex.quote(str(event.config[key]))}" for key in SHOWN_SETTINGS if key in event.config]
    name, peak = event.device_name, event.peak_flops
    return _present(
        f"nanoscope {event.nanoscope or MISSING}: {folder or event.run}",
        folder
        and Message(
            "watch in the browser: {command}", command=f"nanoscope watch {shlex.quote(str(PurePath(folder).parent))}"
        ),
        event.device_reasons and Message("device: {reasons}", reasons=event.device_reasons),
        name and not peak and Message("hardware: {name}", name=name),
        peak
        and Message(
            "hardware: {name}, peak {gflops:.4g} GFLOPS ({source})",
            name=name,
            gflops=peak / 1e9,
            source=event.peak_source,
        ),
        event.data_folder
        and Message(
            "data: {folder}, {train:,} train and {val:,} val tokens, vocabulary {size:d} ({tokenizer})",
            folder=event.data_folder,
            train=event.train_tokens,
            val=event.val_tokens,
            size=event.vocab_size,
            tokenizer=event.tokenizer or Message("unknown tokenizer"),
        ),
        event.ladder and _ladder_line(event.ladder),
        event.parameters and f"number of parameters: {event.parameters / 1e6:.2f}M",
        event.tokens_per_step and f"tokens per iteration will be: {event.tokens_per_step:,}",
        settings and f"settings: {' '.join(settings)}",
    )


def _resume_line(event: e.Resume) -> Message:
    changed, for_session = event.changed, event.for_session
    changes = joined(
        "; ",
        [
            changed and Message("changed for good: {changes}", changes=_changes(changed)),
            for_session and Message("for this session: {changes}", changes=_changes(for_session)),
        ],
    )
    if not changes:
        return Message("resuming at iteration {step:d}", step=event.step)
    return Message("resuming at iteration {step:d} ({changes})", step=event.step, changes=changes)


def _ladder_line(ladder: Ladder) -> Message:
    return Message(
        "to beat: guessing {guessing:.4f}; n-gram models that know the last 0 to {most:d} {units} {losses}{error} "
        "({train:,} train and {val:,} val tokens{sampled})",
        guessing=ladder.guessing, most=len(ladder.losses) - 1, units=UNITS[ladder.unit],
        losses=" ".join(f"{loss:.4f}" for loss in ladder.losses),
        error=f" ± {ladder.stderr:.4f}" if ladder.stderr else "", train=ladder.train_tokens, val=ladder.val_tokens,
        sampled=Message(" sampled") if ladder.sampled else "",
    )  # fmt: skip


def _forecast_line(event: e.Forecast) -> Message:
    pace = Message(
        "{steps:d} iterations of about {each:compact3}, {seconds:compact} in all ({low:compact} to {high:compact})",
        steps=event.steps, each=event.step_seconds, seconds=event.seconds, low=event.seconds_low,
        high=event.seconds_high,
    )  # fmt: skip
    epochs = Message(
        "{each:.3g} epochs per iteration, {epochs:.3g} in all", each=event.epochs_per_step, epochs=event.epochs
    )
    needed, available = (event.memory_bytes or 0) / 1e9, (event.memory_available or 0) / 1e9
    memory = Message("memory {needed:.1f} of {available:.1f} GB", needed=needed, available=available)
    parts = joined("; ", [pace, epochs, available and memory])
    if event.measured:
        return Message("expected after {n:d} iterations: {parts}", n=event.measured, parts=parts)
    return Message("expected: {parts}", parts=parts)


def _end_lines(event: e.End, folder: str) -> list[Shown]:
    best = event.best_val_loss is not None and event.reason != "eval_only"
    resumable = event.reason not in ("eval_only", "non_finite")
    saved = resumable and event.step and event.saved_step == event.step
    is_over = event.reason == "finished"
    return _present(
        _ending(event),
        best
        and Message("best val loss {loss:.4f} at step {step}", loss=event.best_val_loss, step=str(event.best_step)),
        best and event.best_place and Message("that is {place}", place=in_words(event.best_place)),
        saved
        and is_over
        and Message("see what it writes: {command}", command=f"nanoscope sample {shlex.quote(folder)}"),
        saved
        and not is_over
        and Message("saved; resume with: {command}", command=resume_command(folder, event.resume_with)),
        resumable and not event.step and Message("nothing was trained, so nothing was saved"),
    )


def _ending(event: e.End) -> Message:
    """How a run ended, how long it took, and for what."""
    signal, wall = event.signal or Message("another process"), event.wall_seconds or 0.0
    by_size = sorted(((each / max(wall, 1e-9), name) for name, each in event.phases.items()), reverse=True)
    shares = (
        Message("{phase} {share}", phase=PHASES.get(name, name), share=f"{100 * share:.1f}%")
        for share, name in by_size
        if share >= 0.0005
    )
    values = {
        "ending": Message(ENDINGS[event.reason].template, step=event.step, signal=signal),
        "seconds": wall,
        "shares": bracketed(*shares) or "",
    }
    if event.reason in ("finished", "eval_only"):
        return Message("{ending} in {seconds:compact}{shares}", **values)
    return Message("{ending}, after {seconds:compact}{shares}", **values)


def resume_command(folder: str, flags: dict[str, Any]) -> str:
    """The command that continues the run in a folder."""
    words = ["train", folder, "--init_from=resume", *(f"--{key}={value}" for key, value in flags.items())]
    return shlex.join(["nanoscope", *words])


def _changes(values: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key}: {before} → {now}" for key, (before, now) in values.items())


def _written(pattern: str, value: float | None, factor: float) -> str:
    return MISSING if value is None else pattern.format(factor * value)


def _loss(value: float | None) -> str:
    return "nan" if value is None else f"{value:.4f}"
