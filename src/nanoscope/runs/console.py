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
from nanoscope.messages import Joined, Text
from nanoscope.runs import events as e
from nanoscope.units import MISSING, exact_seconds, short_count, short_duration

# What explains a run to somebody who has only its console.log.
SHOWN_SETTINGS = (
    "recipe", "dataset", "max_iters", "batch_size", "gradient_accumulation_steps", "block_size", "n_layer", "n_head",
    "n_embd", "dropout", "learning_rate", "lr_scale", "decay_lr", "warmup_iters", "lr_decay_iters", "min_lr",
    "weight_decay", "grad_clip", "eval_interval", "eval_iters", "log_interval", "seed",
)  # fmt: skip
SLOW_CAUSES: dict[e.SlowCause, Text] = {
    "asleep": Text("the machine was asleep"),
    "data": Text("it waited for data"),
    "checkpoint": Text("a checkpoint was being written"),
    "busy": Text("the process got little CPU time (other programs, or swapping)"),
    "unknown": Text("cause unknown"),
}
UNITS = {"character": Text("characters"), "byte": Text("bytes"), "token": Text("tokens")}
ENDINGS: dict[e.EndReason, Text] = {
    "finished": Text("finished {step:d} iterations"),
    "eval_only": Text("evaluated at iteration {step:d} without training"),
    "patience": Text("stopped at iteration {step:d}: out of patience (val loss not improving)"),
    "max_minutes": Text("stopped at iteration {step:d}: max_minutes is over"),
    "interrupted": Text("stopped at iteration {step:d} by {signal}"),
    "non_finite": Text("stopped at iteration {step:d}: the loss is not finite"),
}
# Filled with the fields of the event.
NOTES: dict[type[e.Event], Text] = {
    e.OutOfMemory: Text(
        "note: out of memory at iteration {step:d}: micro-batches of {micro_batch:d} sequences instead of "
        "{micro_batch_before:d} from now on; tokens per iteration stay the same"
    ),
    e.Spike: Text("note: loss spike at iteration {step:d}: {loss:.4f}, usually {usual:.4f}"),
    e.SlowStep: Text("note: iteration {step:d} took {seconds:seconds2}, usually {usual:seconds4}: {cause}"),
    e.Asleep: Text(
        "note: the machine slept for {seconds:duration} during iteration {step:d}; that time is not counted"
    ),
    e.CheckpointFailed: Text("warning: checkpoint of iteration {step:d} not saved: {message}"),
    e.CheckpointSaved: Text("note: checkpoint of iteration {step:d} is saved now"),
    e.Note: Text("note: {text}"),
    e.NonFinite: Text("the loss is not finite at iteration {step:d}"),
}
PHASES = {
    "startup": Text("startup"),
    "data": Text("data"),
    "step": Text("step"),
    "eval": Text("eval"),
    "checkpoint": Text("checkpoint"),
    "sample": Text("sample"),
    "other": Text("other"),
}


def console_lines(event: e.AnyEvent, folder: str = "") -> list[str]:
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
            text = Text("sample at {step:d}: {what} (full text: {where})", step=event.step, what=what, where=where)
            return [text]
        case _:
            return [_line(event)]


def _start_lines(event: e.Start, folder: str) -> list[str]:
    lines = [f"nanoscope {event.nanoscope or MISSING}: {folder or event.run}"]
    if folder:
        command = f"nanoscope watch {shlex.quote(str(PurePath(folder).parent))}"
        lines.append(Text("watch in the browser: {command}", command=command))
    if event.device_reasons is not None:
        lines.append(Text("device: {reasons}", reasons=event.device_reasons))
    if event.device_name is not None:
        lines.append(
            Text(
                "hardware: {name}, peak {gflops:.4g} GFLOPS ({source})",
                name=event.device_name, gflops=event.peak_flops / 1e9, source=event.peak_source or MISSING,
            ) if event.peak_flops else Text("hardware: {name}", name=event.device_name)
        )  # fmt: skip
    if event.data_folder is not None and event.train_tokens is not None and event.val_tokens is not None:
        lines.append(
            Text(
                "data: {folder}, {train:,} train and {val:,} val tokens, vocabulary {size:d} ({tokenizer})",
                folder=event.data_folder, train=event.train_tokens, val=event.val_tokens, size=event.vocab_size or 0,
                tokenizer=event.tokenizer or Text("unknown tokenizer"),
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


def _line(event: e.AnyEvent) -> Text:
    match event:
        case e.Resume():
            return _resume_line(event)
        case e.Forecast():
            return _forecast_line(event)
        case e.Rollback():
            return _rollback_line(event)
        case e.Note(level="warning"):
            return Text("warning: {text}", text=event.text)
    values = structs.asdict(event)
    if isinstance(event, e.SlowStep):
        values["cause"] = SLOW_CAUSES[event.cause]
    return Text(NOTES[type(event)].template, **values)


def _resume_line(event: e.Resume) -> Text:
    changes = []
    if event.changed:
        changes.append(Text("changed for good: {changes}", changes=_changes(event.changed)))
    if event.for_session:
        changes.append(Text("for this session: {changes}", changes=_changes(event.for_session)))
    if not changes:
        return Text("resuming at iteration {step:d}", step=event.step)
    return Text("resuming at iteration {step:d} ({changes})", step=event.step, changes=Joined("; ", changes))


def _ladder_line(ladder: Ladder) -> Text:
    return Text(
        "to beat: guessing {guessing:.4f}; n-gram models that know the last 0 to {most:d} {units} {losses}{error} "
        "({train:,} train and {val:,} val tokens{sampled})",
        guessing=ladder.guessing, most=len(ladder.losses) - 1, units=UNITS[ladder.unit],
        losses=" ".join(f"{loss:.4f}" for loss in ladder.losses),
        error=f" ± {ladder.stderr:.4f}" if ladder.stderr else "", train=ladder.train_tokens, val=ladder.val_tokens,
        sampled=Text(" sampled") if ladder.sampled else "",
    )  # fmt: skip


def _forecast_line(event: e.Forecast) -> Text:
    pace = Text("{steps:d} iterations of about {each:rough}", steps=event.steps, each=event.step_seconds)
    if event.seconds is not None and event.seconds_low is not None and event.seconds_high is not None:
        pace = Text(
            "{steps:d} iterations of about {each:rough}, {seconds:duration} in all ({low:duration} to {high:duration})",
            steps=event.steps, each=event.step_seconds, seconds=event.seconds, low=event.seconds_low,
            high=event.seconds_high,
        )  # fmt: skip
    parts = [pace]
    if event.epochs is not None and event.epochs_per_step is not None:
        parts.append(
            Text(
                "{each:.3g} epochs per iteration, {epochs:.3g} in all", each=event.epochs_per_step, epochs=event.epochs
            )
        )
    if event.memory_bytes is not None and event.memory_available is not None:
        needed, available = event.memory_bytes / 1e9, event.memory_available / 1e9
        parts.append(Text("memory {needed:.1f} of {available:.1f} GB", needed=needed, available=available))
    if event.measured:
        return Text("expected after {n:d} iterations: {parts}", n=event.measured, parts=Joined("; ", parts))
    return Text("expected: {parts}", parts=Joined("; ", parts))


def _rollback_line(event: e.Rollback) -> Text:
    rates = which = ""
    if event.lr_factor is not None:
        rates = Text(", learning rates × {factor:g}", factor=event.lr_factor)
    if event.count is not None and event.limit is not None:
        which = Text(" (rollback {n:d} of at most {limit:d})", n=event.count, limit=event.limit)
    elif event.count is not None:
        which = Text(" (rollback {n:d})", n=event.count)
    return Text(
        "note: the loss was not finite at iteration {step:d}: back to iteration {to:d} without that "
        "batch{rates}{which}",
        step=event.step, to=event.to, rates=rates, which=which,
    )  # fmt: skip


def _end_lines(event: e.End, folder: str) -> list[str]:
    signal = event.signal or Text("another process")
    ending = Text(ENDINGS[event.reason].template, step=event.step, signal=signal)
    lines: list[str] = [ending if event.wall_seconds is None else _with_time(ending, event, event.wall_seconds)]
    if event.best_val_loss is not None and event.reason != "eval_only":
        lines.append(
            Text("best val loss {loss:.4f} at step {step}", loss=event.best_val_loss, step=str(event.best_step))
        )
        if event.best_place is not None:
            lines.append(Text("that is {place}", place=in_words(event.best_place)))
    command = resume_command(folder, event.resume_with)
    if event.reason in ("eval_only", "non_finite"):
        return lines
    if event.reason == "finished" and event.step and event.saved_step == event.step:
        lines.append(Text("see what it writes: {command}", command=f"nanoscope sample {shlex.quote(folder)}"))
    elif event.step and event.saved_step == event.step:
        lines.append(Text("saved; resume with: {command}", command=command))
    elif not event.step:
        lines.append(Text("nothing was trained, so nothing was saved"))
    return lines


def _with_time(ending: Text, event: e.End, seconds: float) -> Text:
    """How a run ended, how long it took, and for what."""
    by_size = sorted(((each / max(seconds, 1e-9), name) for name, each in event.phases.items()), reverse=True)
    shares = Joined(
        ", ",
        [
            Text("{phase} {share}", phase=PHASES.get(name, name), share=f"{100 * share:.1f}%")
            for share, name in by_size
            if share >= 0.0005
        ],
    )
    whole = event.reason in ("finished", "eval_only")
    if shares and whole:
        return Text("{ending} in {seconds:duration} ({shares})", ending=ending, seconds=seconds, shares=shares)
    if shares:
        return Text("{ending}, after {seconds:duration} ({shares})", ending=ending, seconds=seconds, shares=shares)
    if whole:
        return Text("{ending} in {seconds:duration}", ending=ending, seconds=seconds)
    return Text("{ending}, after {seconds:duration}", ending=ending, seconds=seconds)


def resume_command(folder: str, flags: dict[str, Any]) -> str:
    """The command that continues the run in a folder."""
    words = ["train", folder, "--init_from=resume", *(f"--{key}={value}" for key, value in flags.items())]
    return shlex.join(["nanoscope", *words])


def _changes(values: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key}: {before} → {now}" for key, (before, now) in values.items())


def _loss(value: float | None) -> str:
    return "nan" if value is None else f"{value:.4f}"
