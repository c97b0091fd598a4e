"""What a run will take: memory for each batch split, time, disk, and what to change where that is too much.

Memory is counted on fake tensors (memory.py). If it fits this machine, a few seconds of real steps are measured in a
child process (rig.py) and correct it; time on another device follows from its peak and an assumed MFU. The whole
run is forecast as `train` forecasts it (training/pace.py).
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import torch
from msgspec import structs

from nanoscope.child import ChildError
from nanoscope.errors import UsageError
from nanoscope.hardware.device import peak_flops, set_up_device
from nanoscope.hardware.memory import available_bytes
from nanoscope.hardware.peaks import KnownDevice, all_devices, named_device
from nanoscope.messages import Message, Shown
from nanoscope.model import build_model
from nanoscope.model.flops import flops_per_token, mfu
from nanoscope.planning.memory import TrainingMemory, training_memory
from nanoscope.planning.request import Request, understand
from nanoscope.planning.rig import Figures, Rig
from nanoscope.training.forecast import FORWARD_SHARE, SMALLER_MODEL, save_seconds, warnings
from nanoscope.training.memory import MUCH, PROCESS_BYTES
from nanoscope.training.pace import Pace, left_to_do
from nanoscope.version import __version__

SCHEMA = "nanoscope.plan/3"
HERE = re.compile(r"auto|cpu|mps|cuda(:[0-9]+)?")  # torch's names
SECONDS = 4.0  # of steps that are measured, and at most as much of an evaluation
LONGEST_SHARE = 0.8  # of them for a micro-batch
# On another device: ten public runs reached from 17 to 73 % of the peak (benchmarks/LOG.md).
USUAL_MFU, HIGH_MFU, LOW_MFU = 0.35, 0.75, 0.15
CUDA_BYTES = 600 << 20  # of device memory that CUDA and its libraries take before the first tensor
MACOS_SHARE = 2 / 3  # of the memory that a Mac lets its GPU use


Counted = Callable[[int], TrainingMemory]  # of a micro-batch size


class Split(msgspec.Struct, frozen=True):
    """The sequences of a step in micro-batches of some size."""

    batch_size: int
    gradient_accumulation_steps: int
    peak_bytes: int
    fits: bool
    """With a tenth of the memory to spare."""


class Part(msgspec.Struct, frozen=True):
    """Of the time: so many times so many seconds. `phase` is 'startup', 'step', 'eval' or 'checkpoint'."""

    phase: str
    times: int
    seconds: float


class Plan(msgspec.Struct, kw_only=True):
    schema: str = SCHEMA
    nanoscope: str = __version__
    name: str
    device: str
    device_name: Shown
    dtype: str
    compiled: bool | None
    """None: it is not known of another device."""
    measured: bool = False
    """Else computed: for another device, or because it does not fit."""
    recipe: str
    parameters: int
    tokens_per_step: int
    done: int
    steps: int
    """That are left."""
    tokens: int
    """Of the whole run, with what is done."""
    data: str
    train_tokens: int | None
    epochs: float | None
    fits: bool = False
    peak_bytes: int = 0
    available_bytes: int
    splits: list[Split] = []
    """The configured one, and others for the same sequences a step."""
    seconds: float | None = None
    """Of the whole command; None if it does not fit, or if nothing is known of the speed of the device."""
    seconds_low: float | None = None
    seconds_high: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    peak_flops: float | None = None
    peak_source: Shown = ""
    parts: list[Part] = []
    checkpoint_bytes: int
    disk_bytes: int
    """At most: also with the best checkpoint, and the one that is being written."""
    notes: list[Shown] = []
    advice: list[Shown] = []


def plan_for(words: Sequence[str], report: Callable[[Message], None] = lambda text: None) -> Plan:
    """The plan of a run: for this machine, unless --device names another one."""
    request = understand(words)
    if HERE.fullmatch(request.config.device):
        return plan_here(request, report)
    return plan_elsewhere(request, named_device(request.config.device))


def plans_everywhere(words: Sequence[str]) -> list[Plan]:
    """One plan for each device that is known."""
    request = understand(words)
    return [plan_elsewhere(request, device) for device in all_devices() if device.kind != "tpu"]


def plan_here(request: Request, report: Callable[[Message], None], seconds: float = SECONDS) -> Plan:
    config, data = request.config, request.data
    choice, notes = set_up_device(
        config.device, config.dtype, config.compile, training=True, planned_steps=config.max_iters
    )
    report(Message("counting the memory of an iteration"))
    counted = partial(training_memory, request.shape, config, device_type=choice.type, dtype=choice.dtype)
    plan = outline(
        request,
        counted,
        PROCESS_BYTES * (choice.type == "cpu"),
        available_bytes(torch.device(choice.device)),
        device=choice.device,
        device_name=choice.device_name,
        dtype=choice.dtype,
        compiled=choice.compile,
        notes=notes,
    )
    if plan.fits:
        report(Message("measuring {seconds:.0f} seconds of real steps in a process of their own", seconds=seconds))
        try:
            from_scratch, limit = replace(config, init_from="scratch"), LONGEST_SHARE * seconds
            with closing(Rig(from_scratch, str(data.folder or ""), data.vocab_size, limit)) as rig:
                figures, facts = rig.measure(seconds), rig.facts
        except ChildError as error:
            if not error.out_of_memory:
                raise
            plan.fits = False
        else:
            plan.compiled = facts.used["compile"]
            fit(plan, request, counted, max(figures.peak_bytes - counted(figures.micro_batch).peak, 0))
            plan.fits = plan.fits and facts.used["batch_size"] == config.batch_size
            plan.peak_flops, plan.peak_source = peak_flops(choice)
            add_measured_time(plan, request, figures, facts.startup)
            if data.folder is None:
                notes.append(Message("{data} is not prepared yet: measured with random tokens", data=data.name))
    if not plan.fits:
        plan.advice = [smaller(plan)]
    return plan


def plan_elsewhere(request: Request, device: KnownDevice) -> Plan:
    """Plan for a device of the table. Nothing is measured."""
    if device.kind == "tpu":
        raise UsageError(
            "nanoscope does not train on TPUs; {device} is known only for logs of other trainers", device=device.name
        )
    config, on_mac = request.config, device.kind == "mps"
    usual = "bfloat16" if device.bf16_tflops else "float16" if device.fp16_tflops else "float32"
    dtype = config.dtype if config.dtype != "auto" else "float32" if on_mac else usual
    counted = partial(training_memory, request.shape, config, device_type=device.kind, dtype=dtype)
    peak = None if on_mac else device.flops(dtype)
    plan = outline(
        request,
        counted,
        0 if on_mac else CUDA_BYTES,
        round(device.memory_gb * 2**30 * (MACOS_SHARE if on_mac else 1)),
        device=device.kind,
        device_name=device.label,
        dtype=dtype,
        compiled=None if config.compile == "auto" else config.compile,
        notes=[] if peak else [Message("no run on such a device is known")],
    )
    if peak and plan.fits:
        add_assumed_time(plan, request, peak)
    if not plan.fits:
        plan.advice = [smaller(plan)]
    return plan


def outline(request: Request, counted: Counted, process: int, available: int, **device: Any) -> Plan:
    """What follows from the settings and the device, without the time."""
    config, data, size = request.config, request.data, counted(request.config.batch_size)
    tokens, saves = config.max_iters * config.tokens_per_step, left_to_do(config, request.done)["checkpoint"]
    kept = min(saves, config.keep_checkpoints + 2) if config.keep_checkpoints else saves
    plan = Plan(
        name=request.name,
        recipe=request.shape.recipe,
        parameters=size.parameters,
        tokens_per_step=config.tokens_per_step,
        done=request.done,
        steps=config.max_iters - request.done,
        tokens=tokens,
        data=data.name,
        train_tokens=data.train_tokens,
        epochs=tokens / data.train_tokens if data.train_tokens else None,
        available_bytes=available,
        checkpoint_bytes=size.checkpoint,
        disk_bytes=kept * size.checkpoint,
        **device,
    )
    fit(plan, request, counted, process)
    return plan


def fit(plan: Plan, request: Request, counted: Counted, process: int) -> None:
    """What was counted, with what the process takes besides, against what there is."""
    size, sequences, most = request.config.batch_size, request.config.sequences_per_step, MUCH * plan.available_bytes
    peaks = {each: counted(each).peak + process for each in range(1, sequences + 1) if sequences % each == 0}
    splits = [Split(each, sequences // each, peak, peak <= most) for each, peak in peaks.items()]
    largest = max((split.batch_size for split in splits if split.fits), default=size)
    near = {size // 4, size // 2, size, 2 * size, 4 * size, largest}
    plan.splits = [split for split in splits if split.batch_size in near]
    plan.peak_bytes, plan.fits = peaks[size], peaks[size] <= most


def add_measured_time(plan: Plan, request: Request, found: Figures, startup: float) -> None:
    plan.measured = True
    seconds = {
        "step": found.step,
        "eval": request.eval_windows * found.window,
        "checkpoint": save_seconds(plan.checkpoint_bytes),
    }
    forecast = Pace(request.config, None, **seconds).forecast(request.done, measured=found.steps)
    plan.seconds, plan.seconds_low, plan.seconds_high = (
        startup + (each or 0.0) for each in (forecast.seconds, forecast.seconds_low, forecast.seconds_high)
    )
    plan.parts = [Part("startup", 1, startup)]
    _add_speed(plan, request, seconds)
    epochs_per_step = plan.tokens_per_step / (plan.train_tokens or math.inf)
    plan.advice = [*warnings(request.config, structs.replace(forecast, epochs_per_step=epochs_per_step))]


def add_assumed_time(plan: Plan, request: Request, peak: float) -> None:
    """At the usual share of the peak; the range is from the highest to the lowest."""
    config, flops = request.config, _flops(request) * request.config.tokens_per_step
    evaluation = FORWARD_SHARE * request.eval_windows / config.sequences_per_step  # in steps
    steps = [flops / (share * peak) for share in (USUAL_MFU, HIGH_MFU, LOW_MFU)]
    plan.seconds, plan.seconds_low, plan.seconds_high = (
        Pace(config, None, step=step, eval=evaluation * step).eta_seconds(request.done) for step in steps
    )
    plan.peak_flops = peak
    plan.peak_source = Message("assumed: public runs reached {low:.0%} to {high:.0%}", low=LOW_MFU, high=HIGH_MFU)
    _add_speed(plan, request, {"step": steps[0], "eval": evaluation * steps[0]})


def _flops(request: Request) -> int:
    """Of a token."""
    with torch.device("meta"):
        return flops_per_token(request.shape, build_model(request.shape).multiplied_parameters())


def _add_speed(plan: Plan, request: Request, seconds: Mapping[str, float]) -> None:
    """What follows from the seconds of each phase."""
    left = left_to_do(request.config, request.done)
    plan.parts = [*plan.parts, *(Part(phase, left[phase], each) for phase, each in seconds.items() if left[phase])]
    plan.tokens_per_second = plan.tokens_per_step / seconds["step"]
    plan.mfu = mfu(plan.tokens_per_second, _flops(request), plan.peak_flops)


def smaller(plan: Plan) -> Message:
    """What to use where the plan doesn't fit."""
    fitting = [split for split in plan.splits if split.fits]
    if not fitting:
        return Message("use a smaller model, such as {flags}", flags=SMALLER_MODEL)
    size, times = fitting[-1].batch_size, fitting[-1].gradient_accumulation_steps
    return Message("use {flags}", flags=f"--batch_size={size} --gradient_accumulation_steps={times}")
