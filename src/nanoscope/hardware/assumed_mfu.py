"""Which MFU a run may reach elsewhere, from runs that are known (assumed_mfu.toml). Imports no torch."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import geometric_mean
from typing import Literal

from nanoscope.hardware.peaks import KnownDevice
from nanoscope.messages import Count, Text

Family = Literal["datacentre", "consumer", "turing", "plain"]

NEAR = 4  # times as many parameters, or a quarter: such models use a device about equally well
ALIKE = (
    1.4  # by which runs of like models on like devices differ from each other: A100 and H100, tiny Shakespeare's two
)
UNLIKE = 2.0  # by which others do: a model of another size, a device of another family
EAGER = 1.5, 1.3  # how many times compiling is as fast (nanoGPT's README: 250 → 135 ms; torchbench: 1.55), give or take
GROWTH = 0.2  # power of the parameters: from 10.7M to 124M and 561M it is 0.17 to 0.34 on an A100, an H100 and a 4090
HIGHEST = 0.85  # nothing known goes beyond 0.73
DATA_CENTRE = ("A100", "A30", "H100", "H200", "GH200", "B100", "B200", "GB200", "Instinct")


@dataclass(frozen=True)
class KnownRun:
    family: Family
    device: str
    parameters: float
    compiled: bool
    mfu: float
    source: str


@dataclass(frozen=True)
class AssumedMfu:
    """A share of the peak with the range that it is expected in, and the runs that it rests on."""

    low: float
    expected: float
    high: float
    basis: Text
    sources: tuple[str, ...]


@cache
def known_runs() -> tuple[KnownRun, ...]:
    text = (resources.files("nanoscope.hardware") / "assumed_mfu.toml").read_text("utf-8")
    return tuple(KnownRun(**row) for row in tomllib.loads(text)["run"])


def family_of(device: KnownDevice) -> Family | None:
    """The devices that this one behaves like; None where no run of any is known (Apple, TPU)."""
    if device.kind != "cuda":
        return None
    if device.bf16_tflops is None:
        return "plain" if device.fp16_tflops is None else "turing"
    return "datacentre" if any(word in device.name.split() for word in DATA_CENTRE) else "consumer"


def assumed_mfu(
    device: KnownDevice, parameters: float, compiled: bool, runs: Sequence[KnownRun] | None = None
) -> AssumedMfu | None:
    """The MFU of a model of this size; None where nothing is known.

    The nearest runs count: of the same family if there are any, and there those of the size nearest to this one. Every
    way in which they differ from the run in question widens the range. `parameters` are those that multiply a token.
    """
    family, runs = family_of(device), known_runs() if runs is None else runs
    if family is None or not runs:
        return None
    alike = [run for run in runs if run.family == family]
    same_mode = [run for run in alike or runs if run.compiled == compiled]
    nearest = _nearest(same_mode or alike or runs, parameters)
    same_size = _distance(nearest[0], parameters) <= math.log(NEAR)
    spread = ALIKE if alike and same_size else UNLIKE
    reached = [run.mfu * (parameters / run.parameters) ** GROWTH for run in nearest]
    low, expected, high = min(reached) / spread, geometric_mean(reached), max(reached) * spread
    if not same_mode:
        times, doubt = EAGER
        change = times if compiled else 1 / times
        low, expected, high = low * change / doubt, expected * change, high * change * doubt
    basis = _basis(bool(alike), same_size, bool(same_mode), nearest)
    sources = tuple(run.source for run in nearest)
    return AssumedMfu(low, min(expected, HIGHEST), min(high, HIGHEST), basis, sources)


def _nearest(runs: Sequence[KnownRun], parameters: float) -> list[KnownRun]:
    """The runs of models whose size is near, or as near as the nearest."""
    reach = max(min(_distance(run, parameters) for run in runs) + math.log(1.5), math.log(NEAR) / 2)
    return [
        run for run in sorted(runs, key=lambda run: _distance(run, parameters)) if _distance(run, parameters) <= reach
    ]


def _distance(run: KnownRun, parameters: float) -> float:
    return abs(math.log(run.parameters / parameters))


def _basis(alike: bool, same_size: bool, same_mode: bool, runs: Sequence[KnownRun]) -> Text:
    n, devices = len(runs), ", ".join(sorted({run.device for run in runs}))
    if not alike:
        return Count("{n} run on another device: {devices}", "{n} runs on other devices: {devices}", n, devices=devices)
    if not same_size:
        return Count("{n} run of another size on {devices}", "{n} runs of other sizes on {devices}", n, devices=devices)
    if not same_mode:  # compiled instead of eager, or the reverse
        return Count(
            "{n} run in the other mode on {devices}", "{n} runs in the other mode on {devices}", n, devices=devices
        )
    return Count("{n} such run on {devices}", "{n} such runs on {devices}", n, devices=devices)
