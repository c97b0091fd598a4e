"""The plan of a run on a device that is not here: figures.py filled from elsewhere.py instead of from measurements."""

import math
from dataclasses import replace

from nanoscope.hardware.peaks import KnownDevice
from nanoscope.messages import Joined, Text
from nanoscope.planning.advice import smaller
from nanoscope.planning.elsewhere import Elsewhere, Range, Times, elsewhere
from nanoscope.planning.figures import Plan, TimePlan
from nanoscope.planning.memory import training_memory
from nanoscope.planning.plan import Process, common, disk_plan, memory_plan, splits
from nanoscope.planning.request import Request
from nanoscope.training.pace import Pace, left_to_do

EVALUATED = 1 / 3  # of the arithmetic of training a token: a forward pass without a backward pass


def plan_elsewhere(request: Request, device: KnownDevice) -> Plan:
    """Plan for a device of the table."""
    config = request.config
    found = elsewhere(config, request.shape, device)
    counted = {
        size: training_memory(request.shape, replace(config, compile=found.compiled), size, device.kind, found.dtype)
        for size in sorted({*splits(config), found.largest_micro_batch or 1})
    }
    memory = memory_plan(config, counted, Process(found.process_bytes), found.available_bytes, measured=False)
    saves = math.ceil(left_to_do(config, request.done).checkpoint)
    disk = disk_plan(config, found.memory.weights + found.memory.optimizer, saves, free=None)
    notes: list[str] = []
    if found.times.step_s is None:
        notes.append(
            Text(
                "no run on such a device is known, so no MFU is assumed; an iteration takes at least {seconds:rough}",
                seconds=found.times.least_s,
            )
        )
    advice: list[str] = []
    if not memory.fits:
        advice.append(smaller(memory))
    return Plan(
        **common(request, found.memory.parameters),
        device=device.kind,
        device_name=device.label,
        here=False,
        dtype=found.dtype,
        compiled=found.compiled,
        threads=None,
        memory=memory,
        time=_time(request, found) if memory.fits else None,
        disk=disk,
        notes=notes,
        advice=advice,
    )


def _time(request: Request, found: Elsewhere) -> TimePlan | None:
    """Without start-up and checkpoints, which depend on the machine around the device."""
    step, used = found.times.step_s, found.times.mfu
    if step is None or used is None:
        return None
    config = request.config
    left = left_to_do(config, request.done)

    def evaluation(seconds: float) -> float:
        return EVALUATED * seconds * request.eval_windows / config.sequences_per_step

    def whole(seconds: float) -> float:
        return Pace(config, step=seconds, eval=evaluation(seconds)).eta_seconds(request.done) or 0.0

    sources = Joined("; ", used.sources)
    return TimePlan(
        step_seconds=step.expected,
        tokens_per_second=config.tokens_per_step / step.expected,
        mfu=used.expected,
        mfu_peak_flops=found.peak_flops,
        mfu_source=Text("assumed: {basis}: {sources}", basis=used.basis, sources=sources),
        evaluation_seconds=evaluation(step.expected),
        evaluations=left.eval,
        checkpoint_seconds=None,
        checkpoints=math.ceil(left.checkpoint),
        sample_seconds=None,
        samples=left.sample,
        startup_seconds=None,
        seconds=whole(step.expected),
        seconds_low=whole(step.low),
        seconds_high=whole(step.high),
        measured=False,
        limit=found.times.limit,
        limit_reason=_reason(found.times),
    )


def _reason(times: Times) -> Text:
    def seconds(part: Range | None) -> float:
        return part.expected if part else 0.0

    return Text(
        "of an iteration, arithmetic takes {arithmetic:rough} at that MFU, moving data {moving:rough}, starting "
        "operations {starting:rough}; these overlap",
        arithmetic=seconds(times.arithmetic_s),
        moving=seconds(times.memory_s),
        starting=seconds(times.overhead_s),
    )
