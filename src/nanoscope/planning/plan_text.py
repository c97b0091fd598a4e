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
    "sample": Message("samples"),
}


def lines(plan: Plan) -> Iterator[Message]:
    """The whole plan; lines that belong to the one before begin with spaces."""
    mode = [] if plan.compiled is None else [Message("compiled") if plan.compiled else Message("eager")]
    settings = joined(", ", [plan.dtype, *mode])
    yield Message("{name} on {device}: {settings}", name=plan.name, device=plan.device_name, settings=settings)
    yield from _work(plan)
    memory, time, disk = plan.memory, plan.time, plan.disk
    sizes = {"peak": short_bytes(memory.peak_bytes), "available": short_bytes(memory.available_bytes)}
    if not memory.fits:
        yield Message("memory: does not fit: needs {peak}, has {available}", **sizes)
    elif plan.measured:
        yield Message("memory: {peak} of {available}, measured", **sizes)
    else:
        yield Message("memory: {peak} of {available}, computed", **sizes)
    for split in memory.splits:
        yield Message(
            "  {batch:>9}  {peak:>8}  {verdict}",
            batch=f"{split.batch_size} × {split.gradient_accumulation_steps}",
            peak=short_bytes(split.peak_bytes),
            verdict=Message("fits") if split.fits else Message("does not fit"),
        )
    if time is not None:
        yield Message(
            "time: {seconds:compact} in all ({low:compact} to {high:compact})",
            seconds=time.seconds,
            low=time.seconds_low,
            high=time.seconds_high,
        )
        for part in time.parts:
            yield Message(
                "  {times:>9,} × {seconds:compact3}  {phase}",
                times=part.times,
                seconds=part.seconds,
                phase=PHASES[part.phase],
            )
        yield Message("  {speed:count} tokens/s", speed=time.tokens_per_second)
        if time.mfu is not None and time.peak_flops is not None:
            yield Message(
                "  MFU {mfu:.1%} of {peak:,.0f} GFLOPS ({source})",
                mfu=time.mfu,
                peak=time.peak_flops / 1e9,
                source=time.peak_source,
            )
    size, needed = short_bytes(disk.checkpoint_bytes), short_bytes(disk.bytes)
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


def table(plans: Sequence[Plan]) -> Iterator[Message]:
    """One line for each device."""
    yield from _work(plans[0])
    width = max(len(plan.device_name) for plan in plans)
    for plan in plans:
        needs = f"{short_bytes(plan.memory.peak_bytes)} / {short_bytes(plan.memory.available_bytes)}"
        told = Message("no run on such a device is known") if plan.memory.fits else Message("does not fit")
        if plan.time is not None:
            told = Message(
                "{seconds:compact} in all ({low:compact} to {high:compact})",
                seconds=plan.time.seconds,
                low=plan.time.seconds_low,
                high=plan.time.seconds_high,
            )
        yield Message(
            "{device}  {needs}  {told}", device=f"{plan.device_name:{width}}", needs=f"{needs:>19}", told=told
        )
