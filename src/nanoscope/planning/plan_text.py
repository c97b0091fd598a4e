"""A plan in words: a few lines, each about one question."""

from collections.abc import Iterator, Sequence

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
    mode = [] if plan.compiled is None else [Message("compiled") if plan.compiled else Message("eager")]
    settings = joined(", ", [plan.dtype, *mode])
    yield Message("{name} on {device}: {settings}", name=plan.name, device=plan.device_name, settings=settings)
    yield from _work(plan)
    sizes = {"peak": short_bytes(plan.peak_bytes), "available": short_bytes(plan.available_bytes)}
    if not plan.fits:
        yield Message("memory: does not fit: needs {peak}, has {available}", **sizes)
    elif plan.measured:
        yield Message("memory: {peak} of {available}, measured", **sizes)
    else:
        yield Message("memory: {peak} of {available}, computed", **sizes)
    for split in plan.splits:
        yield Message(
            "  {batch:>9}  {peak:>8}  {verdict}",
            batch=f"{split.batch_size} × {split.gradient_accumulation_steps}",
            peak=short_bytes(split.peak_bytes),
            verdict=Message("fits") if split.fits else Message("does not fit"),
        )
    if plan.seconds is not None:
        yield Message("time: {range}", range=_range(plan))
        for part in plan.parts:
            yield Message(
                "  {times:>9,} × {seconds:compact3}  {phase}",
                times=part.times,
                seconds=part.seconds,
                phase=PHASES[part.phase],
            )
        yield Message("  {speed:count} tokens/s", speed=plan.tokens_per_second)
    if plan.mfu is not None and plan.peak_flops is not None:
        yield Message(
            "  MFU {mfu:.1%} of {peak:,.0f} GFLOPS ({source})",
            mfu=plan.mfu,
            peak=plan.peak_flops / 1e9,
            source=plan.peak_source,
        )
    size, needed = short_bytes(plan.checkpoint_bytes), short_bytes(plan.disk_bytes)
    yield Message("disk: up to {all} for checkpoints of {each}", all=needed, each=size)
    for note in plan.notes:
        yield Message("note: {text}", text=note)
    for text in plan.advice:
        yield Message("advice: {text}", text=text)


def _work(plan: Plan) -> Iterator[Message]:
    yield Message("model: {parameters:count} parameters ({recipe})", parameters=plan.parameters, recipe=plan.recipe)
    total, steps = plan.tokens, plan.steps + plan.done
    yield Message(
        "tokens: {each:,} an iteration, {total:count} in {steps:,} iterations",
        each=plan.tokens_per_step,
        total=total,
        steps=steps,
    )
    if plan.done:
        yield Message("  {done:,} iterations are done, {left:,} are left", done=plan.done, left=plan.steps)
    if plan.epochs is None:
        yield Message("  epochs: unknown, because {data} is not prepared", data=plan.data)
    else:
        epochs, tokens = _number(plan.epochs), plan.train_tokens
        yield Message(
            "  {epochs} epochs of {data} ({tokens:count} tokens)", epochs=epochs, data=plan.data, tokens=tokens
        )
    yield Message(
        "  {ratio} tokens per parameter; about 20 is usual for the lowest loss at a given amount of compute",
        ratio=_number(total / plan.parameters),
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _range(plan: Plan) -> Message:
    return Message(
        "{seconds:compact} in all ({low:compact} to {high:compact})",
        seconds=plan.seconds,
        low=plan.seconds_low,
        high=plan.seconds_high,
    )


def table(plans: Sequence[Plan]) -> Iterator[Message]:
    """One line for each device."""
    yield from _work(plans[0])
    width = max(len(str(plan.device_name)) for plan in plans)
    for plan in plans:
        needs = f"{short_bytes(plan.peak_bytes)} / {short_bytes(plan.available_bytes)}"
        told = Message("no run on such a device is known") if plan.fits else Message("does not fit")
        told = told if plan.seconds is None else _range(plan)
        yield Message(
            "{device}  {needs}  {told}", device=f"{plan.device_name!s:{width}}", needs=f"{needs:>19}", told=told
        )
