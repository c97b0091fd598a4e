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
from nanoscope.messages import Message, Shown, joined
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
    e.CheckpointSaved: Message("note: checkpoint of iteration {step:d} is saved now"),
    e.Note: Message("note: {text}"),
    e.NonFinite: Message("the loss is not finite at iteration {step:d}"),
}
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
            mfu = MISSING if event.mfu is None else f"{100 * event.mfu:.2f}%"
            time = MISSING if event.seconds is None else f"{1000 * event.seconds:.2f}ms"
            rate = MISSING if event.tokens_per_second is None else short_count(event.tokens_per_second)
            left = "" if event.eta_seconds is None else f", eta {short_duration(event.eta_seconds)}"
            return [f"iter {event.step}: loss {_loss(event.loss)}, time {time}, mfu {mfu}, tok/s {rate}{left}"]
        case e.Eval():
            error = "" if event.val_stderr is None else f" ± {event.val_stderr:.4f}"
            losses = f"train loss {_loss(event.train_loss)}, val loss {_loss(event.val_loss)}{error}"
            return [f"step {event.step}: {losses}, eval {exact_seconds(event.seconds)}"]
        case e.Checkpoint():
            waited = "" if event.seconds is None else f" ({event.seconds:.2f}s)"
            return [f"saving checkpoint to {PurePath(folder, event.path)}{waited}"]
        case e.Start():
            return _start_lines(event, folder)
        case e.End():
            return _end_lines(event, folder)
        case e.Sample():
            what, where = repr(event.beginning), PurePath(folder, event.path)
            text = Message("sample at {step:d}: {what} (full text: {where})", step=event.step, what=what, where=where)
            return [text]
        case _:
            return [_line(event)]


def _start_lines(event: e.Start, folder: str) -> list[Shown]:
    lines: list[Shown] = [f"nanoscope {event.nanoscope or MISSING}: {folder or event.run}"]
    if folder:
        command = f"nanoscope watch {shlex.quote(str(PurePath(folder).parent))}"
        lines.append(Message("watch in the browser: {command}", command=command))
    if event.device_reasons is not None:
        lines.append(Message("device: {reasons}", reasons=event.device_reasons))
    if event.device_name is not None:
        lines.append(
            Message(
                "hardware: {name}, peak {gflops:.4g} GFLOPS ({source})",
                name=event.device_name, gflops=event.peak_flops / 1e9, source=event.peak_source or MISSING,
            ) if event.peak_flops else Message("hardware: {name}", name=event.device_name)
        )  # fmt: skip
    if event.data_folder is not None and event.train_tokens is not None and event.val_tokens is not None:
        lines.append(
            Message(
                "data: {folder}, {train:,} train and {val:,} val tokens, vocabulary {size:d} ({tokenizer})",
                folder=event.data_folder, train=event.train_tokens, val=event.val_tokens, size=event.vocab_size or 0,
                tokenizer=event.tokenizer or Message("unknown tokenizer"),
            )
        )  # fmt: skip
    if event.ladder is not None:
        lines.append(_ladder_line(event.ladder))
    if event.parameters is not None:
        lines.append(f"number of parameters: {event.parameters / 1e6:.2f}M")
    if event.tokens_per_step is not None:
        lines.append(f"tokens per iteration will be: {event.tokens_per_step:,}")
    settings = [f"{key}={shlex.quote(str(event.config[key]))}" for key in SHOWN_SETTINGS if key in event.config]
    return [*lines, "settings: " + " ".join(settings)] if settings else lines


def _line(event: e.AnyEvent) -> Message:
    match event:
        case e.Resume():
            return _resume_line(event)
        case e.Forecast():
            return _forecast_line(event)
        case e.Rollback():
            return _rollback_line(event)
        case e.Note(level="warning"):
            return Message("warning: {text}", text=event.text)
    values = structs.asdict(event)
    if isinstance(event, e.SlowStep):
        values["cause"] = SLOW_CAUSES[event.cause]
    return Message(NOTES[type(event)].template, **values)


def _resume_line(event: e.Resume) -> Message:
    changes = []
    if event.changed:
        changes.append(Message("changed for good: {changes}", changes=_changes(event.changed)))
    if event.for_session:
        changes.append(Message("for this session: {changes}", changes=_changes(event.for_session)))
    if not changes:
        return Message("resuming at iteration {step:d}", step=event.step)
    return Message("resuming at iteration {step:d} ({changes})", step=event.step, changes=joined("; ", changes))


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
    pace = Message("{steps:d} iterations of about {each:compact3}", steps=event.steps, each=event.step_seconds)
    if event.seconds is not None and event.seconds_low is not None and event.seconds_high is not None:
        pace = Message(
            "{steps:d} iterations of about {each:compact3}, {seconds:compact} in all ({low:compact} to {high:compact})",
            steps=event.steps, each=event.step_seconds, seconds=event.seconds, low=event.seconds_low,
            high=event.seconds_high,
        )  # fmt: skip
    parts = [pace]
    if event.epochs is not None and event.epochs_per_step is not None:
        parts.append(
            Message(
                "{each:.3g} epochs per iteration, {epochs:.3g} in all", each=event.epochs_per_step, epochs=event.epochs
            )
        )
    if event.memory_bytes is not None and event.memory_available is not None:
        needed, available = event.memory_bytes / 1e9, event.memory_available / 1e9
        parts.append(Message("memory {needed:.1f} of {available:.1f} GB", needed=needed, available=available))
    if event.measured:
        return Message("expected after {n:d} iterations: {parts}", n=event.measured, parts=joined("; ", parts))
    return Message("expected: {parts}", parts=joined("; ", parts))


def _rollback_line(event: e.Rollback) -> Message:
    rates: Shown = ""
    which: Shown = ""
    if event.lr_factor is not None:
        rates = Message(", learning rates × {factor:g}", factor=event.lr_factor)
    if event.count is not None and event.limit is not None:
        which = Message(" (rollback {n:d} of at most {limit:d})", n=event.count, limit=event.limit)
    elif event.count is not None:
        which = Message(" (rollback {n:d})", n=event.count)
    return Message(
        "note: the loss was not finite at iteration {step:d}: back to iteration {to:d} without that "
        "batch{rates}{which}",
        step=event.step, to=event.to, rates=rates, which=which,
    )  # fmt: skip


def _end_lines(event: e.End, folder: str) -> list[Shown]:
    signal = event.signal or Message("another process")
    ending = Message(ENDINGS[event.reason].template, step=event.step, signal=signal)
    lines: list[Shown] = [ending if event.wall_seconds is None else _with_time(ending, event, event.wall_seconds)]
    if event.best_val_loss is not None and event.reason != "eval_only":
        lines.append(
            Message("best val loss {loss:.4f} at step {step}", loss=event.best_val_loss, step=str(event.best_step))
        )
        if event.best_place is not None:
            lines.append(Message("that is {place}", place=in_words(event.best_place)))
    command = resume_command(folder, event.resume_with)
    if event.reason in ("eval_only", "non_finite"):
        return lines
    if event.reason == "finished" and event.step and event.saved_step == event.step:
        lines.append(Message("see what it writes: {command}", command=f"nanoscope sample {shlex.quote(folder)}"))
    elif event.step and event.saved_step == event.step:
        lines.append(Message("saved; resume with: {command}", command=command))
    elif not event.step:
        lines.append(Message("nothing was trained, so nothing was saved"))
    return lines


def _with_time(ending: Message, event: e.End, seconds: float) -> Message:
    """How a run ended, how long it took, and for what."""
    by_size = sorted(((each / max(seconds, 1e-9), name) for name, each in event.phases.items()), reverse=True)
    shares = joined(
        ", ",
        [
            Message("{phase} {share}", phase=PHASES.get(name, name), share=f"{100 * share:.1f}%")
            for share, name in by_size
            if share >= 0.0005
        ],
    )
    values = {"ending": ending, "seconds": seconds, "shares": Message(" ({shares})", shares=shares) if shares else ""}
    if event.reason in ("finished", "eval_only"):
        return Message("{ending} in {seconds:compact}{shares}", **values)
    return Message("{ending}, after {seconds:compact}{shares}", **values)


def resume_command(folder: str, flags: dict[str, Any]) -> str:
    """The command that continues the run in a folder."""
    words = ["train", folder, "--init_from=resume", *(f"--{key}={value}" for key, value in flags.items())]
    return shlex.join(["nanoscope", *words])


def _changes(values: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key}: {before} → {now}" for key, (before, now) in values.items())


def _loss(value: float | None) -> str:
    return "nan" if value is None else f"{value:.4f}"
