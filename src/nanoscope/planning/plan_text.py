"""A plan in words: a few lines, each about one question."""

from collections.abc import Iterator, Sequence

from nanoscope.messages import Count, Joined, Text
from nanoscope.planning.figures import Plan, TimePlan
from nanoscope.units import short_bytes

LIMITS = {
    "arithmetic": Text("arithmetic"),
    "memory": Text("memory bandwidth"),
    "overhead": Text("overhead"),
    "data": Text("data"),
}


def lines(plan: Plan) -> Iterator[Text]:
    """The whole plan; lines that belong to the one before begin with spaces."""
    mode = Text("compiled") if plan.compiled else Text("eager")
    yield Text(
        "{name} on {device}: {settings}",
        name=plan.name,
        device=plan.device_name,
        settings=Joined(", ", [plan.dtype, mode]),
    )
    yield from _work(plan)
    yield from _memory(plan)
    if plan.time is not None:
        yield from _time(plan, plan.time)
    yield from _disk(plan)
    for note in plan.notes:
        yield Text("note: {text}", text=note)
    for text in plan.advice:
        yield Text("advice: {text}", text=text)


def _work(plan: Plan) -> Iterator[Text]:
    yield Text("model: {parameters:count} parameters ({recipe})", parameters=plan.parameters, recipe=plan.recipe)
    batch = f"{plan.batch_size} × {plan.gradient_accumulation_steps}"
    yield Text(
        "tokens: {each:,} an iteration (batch_size × gradient_accumulation_steps: {batch}), {total:count} in {steps:,} "
        "iterations",
        each=plan.tokens_per_step,
        batch=batch,
        total=plan.tokens,
        steps=plan.steps + plan.done,
    )
    if plan.done:
        yield Text("  {done:,} iterations are done, {left:,} are left", done=plan.done, left=plan.steps)
    if plan.epochs is None or plan.train_tokens is None:
        yield Text("  epochs: unknown, because {data} is not prepared", data=plan.data)
    else:
        yield Text(
            "  {epochs} epochs of {data} ({tokens:count} tokens)",
            epochs=_number(plan.epochs),
            data=plan.data,
            tokens=plan.train_tokens,
        )
    if not plan.prepared and plan.time is not None and plan.time.measured:
        yield Text("  {data} is not prepared yet: measured with random tokens", data=plan.data)
    yield Text(
        "  {ratio} tokens per parameter; about 20 is usual for the lowest loss at a given amount of compute",
        ratio=_number(plan.tokens_per_parameter),
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _memory(plan: Plan) -> Iterator[Text]:
    memory = plan.memory
    sizes = {"peak": short_bytes(memory.peak_bytes), "available": short_bytes(memory.available_bytes)}
    if memory.fits and memory.measured:
        yield Text("memory: {peak} of {available}, measured", **sizes)
    elif memory.fits:
        yield Text("memory: {peak} of {available}, computed", **sizes)
    else:
        yield Text("memory: does not fit: needs {peak}, has {available}", **sizes)
    parts = {
        Text("weights"): memory.weight_bytes,
        Text("gradients"): memory.gradient_bytes,
        Text("optimizer"): memory.optimizer_bytes,
        Text("activations"): memory.activation_bytes,
        "logits": memory.logit_bytes,
        Text("the process itself"): memory.process_bytes,
    }
    listed = [Text("{part} {size}", part=part, size=short_bytes(size)) for part, size in parts.items() if size]
    yield Text("  {parts} (not all at the same moment)", parts=Joined(", ", listed))
    for split in memory.splits if len(memory.splits) > 1 else ():
        yield Text(
            "  {batch:>9}: activations {activations:>8}, logits {logits:>8}, peak {peak:>8}, {verdict}",
            batch=f"{split.batch_size} × {split.gradient_accumulation_steps}",
            activations=short_bytes(split.activation_bytes),
            logits=short_bytes(split.logit_bytes),
            peak=short_bytes(split.peak_bytes),
            verdict=Text("fits") if split.fits else Text("does not fit"),
        )


def _time(plan: Plan, time: TimePlan) -> Iterator[Text]:
    yield Text(
        "time: {seconds:duration} in all ({low:duration} to {high:duration})",
        seconds=time.seconds,
        low=time.seconds_low,
        high=time.seconds_high,
    )
    parts: list[Text] = [
        Count(
            "{n:,} iteration × {seconds:rough}",
            "{n:,} iterations × {seconds:rough}",
            plan.steps,
            seconds=time.step_seconds,
        ),
        Count(
            "{n:,} evaluation × {seconds:rough}",
            "{n:,} evaluations × {seconds:rough}",
            time.evaluations,
            seconds=time.evaluation_seconds,
        ),
    ]
    if time.startup_seconds is not None:
        parts.insert(0, Text("{seconds:rough} to start", seconds=time.startup_seconds))
    if time.checkpoint_seconds is not None:
        parts.append(
            Count(
                "at most {n:,} checkpoint × {seconds:rough}",
                "at most {n:,} checkpoints × {seconds:rough}",
                time.checkpoints,
                seconds=time.checkpoint_seconds,
            )
        )
    if time.sample_seconds is not None:
        parts.append(
            Count(
                "{n:,} sample × {seconds:rough}",
                "{n:,} samples × {seconds:rough}",
                time.samples,
                seconds=time.sample_seconds,
            )
        )
    yield Text("  {parts}", parts=Joined(" + ", parts))
    yield Text("  {speed:count} tokens/s", speed=time.tokens_per_second)
    if time.mfu is not None:
        yield Text(
            "  MFU {mfu:.1%} of {peak:,.0f} GFLOPS ({source})",
            mfu=time.mfu,
            peak=(time.mfu_peak_flops or 0) / 1e9,
            source=time.mfu_source,
        )
    if not time.measured:
        yield Text("  without start-up and checkpoints, which depend on the machine around the device")
    if time.limit is not None:
        yield Text("  limited by {limit}: {reason}", limit=LIMITS[time.limit], reason=time.limit_reason)


def _disk(plan: Plan) -> Iterator[Text]:
    disk = plan.disk
    each, all = short_bytes(disk.checkpoint_bytes), short_bytes(disk.bytes)
    if disk.free_bytes is None:
        yield Text("disk: up to {all} for checkpoints of {each}", all=all, each=each)
        return
    free = short_bytes(disk.free_bytes)
    if disk.fits:
        yield Text("disk: up to {all} for checkpoints of {each}; {free} are free", all=all, each=each, free=free)
    else:
        yield Text(
            "disk: does not fit: up to {all} for checkpoints of {each}; {free} are free", all=all, each=each, free=free
        )


def table(plans: Sequence[Plan]) -> Iterator[Text]:
    """One line for each device."""
    yield from _work(plans[0])
    width = max(len(plan.device_name) for plan in plans)
    for plan in plans:
        memory, time = plan.memory, plan.time
        needs = f"{short_bytes(memory.peak_bytes)} / {short_bytes(memory.available_bytes)}"
        told = Text("does not fit") if not memory.fits else Text("no run on such a device is known")
        if time is not None:
            told = Text(
                "{step:rough} an iteration, {seconds:duration} in all ({low:duration} to {high:duration}), "
                "MFU {mfu:.0%} assumed",
                step=time.step_seconds,
                seconds=time.seconds,
                low=time.seconds_low,
                high=time.seconds_high,
                mfu=time.mfu,
            )
        yield Text("{device}  {needs}  {told}", device=f"{plan.device_name:{width}}", needs=f"{needs:>19}", told=told)
