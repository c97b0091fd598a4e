"""Folders of runs as training would have left them, written in a moment."""

import math
from collections.abc import Iterable
from pathlib import Path

from nanoscope.runs.console import console_lines
from nanoscope.runs.events import (
    AnyEvent,
    CheckpointFailed,
    End,
    Eval,
    Iter,
    NonFinite,
    SlowStep,
    Spike,
    Start,
    encode,
)

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked=2">'
    " '\"` \u2028\u2029 \x1b[31mred\x1b]0;title\x07"
)
STEP_SECONDS = 0.05
EVAL_SECONDS = 0.4


class EventFile:
    """Appends events to the events.jsonl of a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "events.jsonl").open("ab", buffering=0)

    def write(self, *events: AnyEvent) -> None:
        self._file.write("".join(map(encode, events)).encode())

    def close(self) -> None:
        self._file.close()


def write_events(folder: Path, events: Iterable[AnyEvent]) -> Path:
    """Both files that training writes: events.jsonl and console.log."""
    events = list(events)
    file = EventFile(folder)
    file.write(*events)
    file.close()
    lines = [line for event in events for line in console_lines(event, str(folder))]
    (folder / "console.log").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def write_run(folder: Path, steps: int = 300, *, hostile: bool = False, slow_every: int = 100) -> Path:
    """A run with 20 evaluations, its best at two thirds, a slow step now and then, notes and samples."""
    text = HOSTILE if hostile else "plain"
    file = EventFile(folder)
    file.write(*run_events(steps, text, slow_every))
    file.close()
    (folder / "samples").mkdir(exist_ok=True)
    for step in (0, steps):
        (folder / f"samples/step-{step:06d}.txt").write_text(f"ROMEO, at {step}: {text}", "utf-8")
    return folder


def run_events(steps: int, text: str, slow_every: int) -> Iterable[AnyEvent]:
    config = {"max_iters": steps, "batch_size": 12, "block_size": 64, "dataset": text, "learning_rate": 1e-3}
    yield Start(
        t=2.0, run="run", config=config, device="cpu", platform=text, parameters=795904, tokens_per_step=768,
        vocab_size=65,
    )  # fmt: skip
    t = 2.0
    best = 2 * steps // 3
    for step in range(steps + 1):
        if step % max(steps // 20, 1) == 0:
            val = 1.5 + 2.5 * math.exp(-6 * step / steps) + max(0, step - best) / steps
            t += EVAL_SECONDS
            yield Eval(
                t=t, step=step, train_loss=val - 0.1 - step / steps, val_loss=val, val_stderr=0.02, seconds=EVAL_SECONDS
            )
        if step == steps:
            break
        slow = step % slow_every == slow_every // 2
        t += STEP_SECONDS
        yield Iter(
            t=t, step=step, loss=1.0 + 3 * math.exp(-6 * step / steps) + 0.05 * math.sin(step), lr=1e-3,
            seconds=2.5 if slow else STEP_SECONDS + step % 7 / 1e4, grad_norm=1 + step % 5 / 10, mfu=0.4,
            tokens_per_second=15000.0, eta_seconds=(steps - step) * STEP_SECONDS,
        )  # fmt: skip
    yield Spike(t=t, step=steps // 2, loss=3.5, usual=2.0, score=9.0)
    yield SlowStep(t=t, step=slow_every // 2, seconds=2.5, usual=STEP_SECONDS, cause="asleep")
    yield CheckpointFailed(t=t, step=steps // 2, message=text)
    phases = {"startup": 2.0, "step": steps * STEP_SECONDS, "eval": 21 * EVAL_SECONDS, "checkpoint": 0.5}
    wall = sum(phases.values())
    yield End(t=wall, reason="finished", step=steps, wall_seconds=wall, phases=phases)


def write_sweep(folder: Path, rates: Iterable[float] = (3e-4, 1e-3, 1e-2), steps: int = 400) -> Path:
    """Runs that differ in learning rate and seed; the best rate is the middle one, and one run breaks down."""
    best = list(rates)[len(list(rates)) // 2]
    for rate in rates:
        for seed in (1, 2):
            name = f"lr{rate:g}_s{seed}"
            breaks = steps // 2 if rate == max(rates) and seed == 2 else None
            write_events(
                folder / name, sweep_events(name, rate, seed, 1.5 + 0.2 * abs(math.log10(rate / best)), steps, breaks)
            )
    return folder


def sweep_events(
    name: str, rate: float, seed: int, reached: float, steps: int, breaks: int | None
) -> Iterable[AnyEvent]:
    config = {
        "max_iters": steps,
        "batch_size": 12,
        "block_size": 64,
        "learning_rate": rate,
        "seed": seed,
        "dataset": "x",
    }
    yield Start(
        t=1.0, run=name, config=config, device="cpu", parameters=795904, tokens_per_step=768, vocab_size=65,
        train_tokens=100_000,
    )  # fmt: skip
    for step in range(0, steps + 1, 4):
        t = 1.0 + step * STEP_SECONDS
        if step == breaks:
            yield NonFinite(t=t, step=step)
            yield End(t=t, reason="non_finite", step=step)
            return
        loss = reached + 0.004 * seed + 2.5 * math.exp(-8 * step / steps)
        if step % (steps // 10) == 0:
            yield Eval(t=t, step=step, train_loss=loss - 0.05, val_loss=loss, val_stderr=0.01, seconds=EVAL_SECONDS)
        yield Iter(
            t=t, step=step, loss=loss + 0.04 * math.sin(step * seed), lr=rate * (1 - step / steps),
            seconds=STEP_SECONDS, data_seconds=0.002, grad_norm=0.5 + step % 3 / 10, mfu=0.3,
            tokens_per_second=15000.0 + step % 9,
        )  # fmt: skip
    wall = 1.0 + steps * STEP_SECONDS
    yield End(t=wall, reason="finished", step=steps, wall_seconds=wall)
