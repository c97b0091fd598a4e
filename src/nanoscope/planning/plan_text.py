"""A plan in words: a few lines, each about one question."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from nanoscope.messages import Message, joined
from nanoscope.planning.plan import Plan
from nanoscope.units import short_bytes

PHASES = {
    "startup": Message("start-up"),
    "step": Message("iterations"),
    "eval": Message("evaluations"),
    "checkpoint": Message("checkpoints, at most"),
}


def lines(plan: Plan) -> Iterator[Message]:
    """The whole plan; lines that belong to the one before begin with spaces."""
    known = _known(plan)
    mode = [] if plan.compiled is None else [Message("compiled") if plan.compiled else Message("eager")]
    yield Message("{name} on {device_name}: {settings}", **known, settings=joined(", ", [plan.dtype, *mode]))
    yield from _work(plan)
    if not plan.fits:
        yield Message("memory: does not fit: needs {peak}, has {available}", **known)
    elif plan.measured:
        yield Message("memory: {peak} of {available}, measured", **known)
    else:
        yield Message("memory: {peak} of {available}, computed", **known)
    for split in plan.splits:
        yield Message(
            "  {batch:>9}  {peak:>8}  {verdict}",
            batch=f"{split.batch_size} × {split.gradient_accumulation_steps}",
            peak=short_bytes(split.peak_bytes),
            verdict=Message("fits") if split.fits else Message("does not fit"),
        )
    if plan.seconds is not None:
        yield Message("time: {range}", range=_range(known))
        for part in plan.parts:
            name = PHASES[part.phase]
            yield Message("  {times:>9,} × {seconds:compact3}  {name}", **asdict(part), name=name)
        yield Message("  {tokens_per_second:count} tokens/s", **known)
    if plan.mfu is not None and plan.peak_flops is not None:
        gflops = plan.peak_flops / 1e9
        yield Message("  MFU {mfu:.1%} of {gflops:,.0f} GFLOPS ({peak_source})", **known, gflops=gflops)
    yield Message("disk: up to {all} for checkpoints of {each}", **known)
    for note in plan.notes:
        yield Message("note: {text}", text=note)
    for text in plan.advice:
        yield Message("advice: {text}", text=text)


def _known(plan: Plan) -> dict[str, Any]:
    """Its fields, and what follows from them."""
    return {
        **asdict(plan),
        "iterations": plan.steps + plan.done,
        "ratio": plan.tokens / plan.parameters,
        "peak": short_bytes(plan.peak_bytes),
        "available": short_bytes(plan.available_bytes),
        "each": short_bytes(plan.checkpoint_bytes),
        "all": short_bytes(plan.disk_bytes),
    }


def _work(plan: Plan) -> Iterator[Message]:
    known = _known(plan)
    yield Message("model: {parameters:count} parameters ({recipe})", **known)
    yield Message("tokens: {tokens_per_step:,} an iteration, {tokens:count} in {iterations:,} iterations", **known)
    if plan.done:
        yield Message("  {done:,} iterations are done, {steps:,} are left", **known)
    if plan.epochs is None:
        yield Message("  epochs: unknown, because {data} is not prepared", **known)
    else:
        yield Message("  {epochs:significant} epochs of {data} ({train_tokens:count} tokens)", **known)
    yield Message(
        "  {ratio:significant} tokens per parameter; about 20 is usual for the lowest loss at a given amount of "
        "compute",
        **known,
    )


def _range(known: dict[str, Any]) -> Message:
    return Message("{seconds:compact} in all ({seconds_low:compact} to {seconds_high:compact})", **known)


def table(plans: Sequence[Plan]) -> Iterator[Message]:
    """One line for each device."""
    yield from _work(plans[0])
    width = max(len(str(plan.device_name)) for plan in plans)
    for plan in plans:
        known = _known(plan)
        why = Message("no run on such a device is known") if plan.fits else Message("does not fit")
        yield Message(
            "{device}  {needs}  {told}",
            device=f"{plan.device_name!s:{width}}",
            needs=f"{'{peak} / {available}'.format(**known):>19}",
            told=why if plan.seconds is None else _range(known),
        )
