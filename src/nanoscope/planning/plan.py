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

from nanoscope.child import ChildError
from nanoscope.errors import UsageError
from nanoscope.hardware.device import set_up_device
from nanoscope.hardware.memory import available_bytes
from nanoscope.hardware.peaks import KnownDevice, all_devices, named_device
from nanoscope.messages import Message, Shown
from nanoscope.model import build_model
from nanoscope.model.flops import flops_per_token
from nanoscope.model.flops import mfu as model_mfu
from nanoscope.planning.memory import TrainingMemory, training_memory
from nanoscope.planning.request import Request, understand
from nanoscope.planning.rig import Figures, Rig
from nanoscope.runs.events import Forecast
from nanoscope.training.forecast import FORWARD_SHARE, SMALLER_MODEL, warnings
from nanoscope.training.memory import MUCH, PROCESS_BYTES
from nanoscope.training.pace import Pace, left_to_do
from nanoscope.version import __version__

SCHEMA = "nanoscope.plan/3"
HERE = re.compile(r"auto|cpu|mps|cuda(:[0-9]+)?")  # torch's names
SECONDS = 6.0  # of steps that are measured
LONGEST_SHARE = 0.8  # of them for a micro-batch
# On another device: ten public runs reached from 17 to 73 % of the peak (benchmarks/LOG.md).
USUAL_MFU, HIGH_MFU, LOW_MFU = 0.35, 0.75, 0.15
CUDA_BYTES = 600 << 20  # of device memory that CUDA and its libraries take before the first tensor
MACOS_SHARE = 2 / 3  # of the memory that a Mac lets its GPU use


Counted = Callable[[int], TrainingMemory]  # of a micro-batch size
Fields = dict[str, Any]  # of a plan


class Split(msgspec.Struct, frozen=True):
    """The sequences of a step in micro-batches of some size."""

    batch_size: int
    gradient_accumulation_steps: int
    peak_bytes: int
    fits: bool
    """With a tenth of the memory to spare."""


class Part(msgspec.Struct, frozen=True):
    """Of the time: so many times so many seconds. `phase` is 'startup', 'step', 'eval', 'checkpoint' or 'sample'."""

    phase: str
    times: int
    seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    nanoscope: str = __version__
    name: str
    device: str
    device_name: str
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
    fits: bool
    peak_bytes: int
    available_bytes: int
    splits: list[Split]
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
    notes: list[Shown]
    advice: list[Shown]


def encoded(plans: Plan | list[Plan]) -> str:
    """A plan, or plans for several devices, as one JSON document."""
    content = {"schema": SCHEMA, "nanoscope": __version__, "plans": plans} if isinstance(plans, list) else plans
    return msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=1).decode() + "\n"


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
    process, available = PROCESS_BYTES * (choice.type == "cpu"), available_bytes(torch.device(choice.device))
    found, compiled = memory(request, counted, process, available), choice.compile
    if found["fits"]:
        report(Message("measuring {seconds:.0f} seconds of real steps in a process of their own", seconds=seconds))
        try:
            from_scratch, limit = replace(config, init_from="scratch"), LONGEST_SHARE * seconds
            with closing(Rig(from_scratch, str(data.folder or ""), data.vocab_size, limit)) as rig:
                figures, compiled = rig.measure(seconds), rig.facts.used["compile"]
            process = max(figures.peak_bytes - counted(figures.micro_batch).peak, 0)
            found = memory(request, counted, process, available) | time_here(request, figures)
            if data.folder is None:
                notes.append(Message("{data} is not prepared yet: measured with random tokens", data=data.name))
        except ChildError as error:
            if not error.out_of_memory:
                raise
            found["fits"] = False
    device = {"device": choice.device, "device_name": choice.device_name, "dtype": choice.dtype}
    return _plan(request, counted, found | device, compiled=compiled, notes=notes)


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
    available = round(device.memory_gb * 2**30 * (MACOS_SHARE if on_mac else 1))
    found = memory(request, counted, 0 if on_mac else CUDA_BYTES, available)
    peak = None if on_mac else device.flops(dtype)
    if peak and found["fits"]:
        found |= time_elsewhere(request, peak)
    return _plan(
        request,
        counted,
        found | {"device": device.kind, "device_name": device.label, "dtype": dtype},
        compiled=None if config.compile == "auto" else config.compile,
        notes=[] if peak else [Message("no run on such a device is known")],
    )


def memory(request: Request, counted: Counted, process: int, available: int) -> Fields:
    """What was counted, with what the process takes besides, against what there is."""
    size, sequences = request.config.batch_size, request.config.sequences_per_step
    peaks = {each: counted(each).peak + process for each in range(1, sequences + 1) if sequences % each == 0}
    possible = [Split(each, sequences // each, peak, peak <= MUCH * available) for each, peak in peaks.items()]
    largest = max((split.batch_size for split in possible if split.fits), default=size)
    near = {size // 4, size // 2, size, 2 * size, 4 * size, largest}
    splits = [split for split in possible if split.batch_size in near]
    fits = peaks[size] <= MUCH * available
    return {"peak_bytes": peaks[size], "available_bytes": available, "fits": fits, "splits": splits}


def time_here(request: Request, found: Figures) -> Fields:
    evaluation = request.eval_windows * found.eval / found.eval_windows
    seconds = {"step": found.step, "eval": evaluation, "checkpoint": found.checkpoint, "sample": found.sample}
    mfu = model_mfu(request.config.tokens_per_step / found.step, found.flops_per_token, found.peak_flops)
    known = {"measured": True, "mfu": mfu, "peak_flops": found.peak_flops, "peak_source": found.peak_source}
    return _time(request, seconds, found.steps, found.startup) | known


def time_elsewhere(request: Request, peak_flops: float) -> Fields:
    """At the usual share of the peak; the range is from the highest to the lowest."""
    config, shape = request.config, request.shape
    with torch.device("meta"):
        flops = flops_per_token(shape, build_model(shape).multiplied_parameters()) * config.tokens_per_step
    step = flops / (USUAL_MFU * peak_flops)
    seconds = {"step": step, "eval": FORWARD_SHARE * step * request.eval_windows / config.sequences_per_step}
    source = Message("assumed: public runs reached {low:.0%} to {high:.0%}", low=LOW_MFU, high=HIGH_MFU)
    return _time(request, seconds) | {"mfu": USUAL_MFU, "peak_flops": peak_flops, "peak_source": source}


def _time(
    request: Request, seconds: Mapping[str, float | None], steps: int = 0, startup: float | None = None
) -> Fields:
    """From the seconds of each phase, which rest on so many measured steps, or on the usual MFU."""
    config, begin = request.config, startup or 0.0
    forecast = Pace(config, None, **seconds).forecast(request.done, measured=steps)
    whole, low, high = forecast.seconds or 0.0, forecast.seconds_low or 0.0, forecast.seconds_high or 0.0
    if not steps:
        low, high = (whole * USUAL_MFU / mfu for mfu in (HIGH_MFU, LOW_MFU))
        high = min(high, 60 * config.max_minutes or math.inf)
    left = left_to_do(config, request.done)
    phases = [("startup", 1, startup), *((phase, times, seconds.get(phase)) for phase, times in left.items())]
    return {
        "seconds": begin + whole,
        "seconds_low": begin + low,
        "seconds_high": begin + high,
        "tokens_per_second": config.tokens_per_step / (seconds["step"] or math.inf),
        "parts": [Part(phase, times, each) for phase, times, each in phases if times and each is not None],
    }


def _plan(request: Request, counted: Counted, found: Fields, **fields: Any) -> Plan:
    config, data, size = request.config, request.data, counted(request.config.batch_size)
    tokens = config.max_iters * config.tokens_per_step
    saves = left_to_do(config, request.done)["checkpoint"]
    kept = min(saves, config.keep_checkpoints + 2) if config.keep_checkpoints else saves
    return Plan(
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
        checkpoint_bytes=size.checkpoint,
        disk_bytes=kept * size.checkpoint,
        advice=advice(request, found),
        **found,
        **fields,
    )


def advice(request: Request, found: Fields) -> list[Shown]:
    """What would help, only where something does."""
    if not found["fits"]:
        fitting = [split for split in found["splits"] if split.fits]
        if not fitting:
            return [Message("use a smaller model, such as {flags}", flags=SMALLER_MODEL)]
        size, times = fitting[-1].batch_size, fitting[-1].gradient_accumulation_steps
        return [Message("use {flags}", flags=f"--batch_size={size} --gradient_accumulation_steps={times}")]
    if not found.get("measured"):
        return []
    config, tokens = request.config, request.data.train_tokens
    expected = Forecast(
        step=request.done,
        seconds=found["seconds"],
        step_seconds=config.tokens_per_step / found["tokens_per_second"],
        epochs_per_step=config.tokens_per_step / (tokens or math.inf),
    )
    return [*warnings(config, expected)]
