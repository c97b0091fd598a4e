"""The figures of a plan, as `plan --json` prints them (docs/plan.md). Texts in them are in English there."""

import msgspec

from nanoscope.planning.limits import Limit
from nanoscope.version import __version__

SCHEMA = "nanoscope.plan/1"


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The same sequences an iteration in other micro-batches."""

    batch_size: int
    gradient_accumulation_steps: int
    activation_bytes: int
    logit_bytes: int
    peak_bytes: int
    fits: bool


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parts are not all there at the same moment; the peak is the most at any."""

    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    logit_bytes: int
    process_bytes: int
    peak_bytes: int
    available_bytes: int
    fits: bool
    """With a tenth to spare."""
    measured: bool
    splits: list[Split]


class TimePlan(msgspec.Struct, frozen=True, kw_only=True):
    step_seconds: float
    tokens_per_second: float
    mfu: float | None
    mfu_peak_flops: float | None
    mfu_source: str
    evaluation_seconds: float
    evaluations: int
    checkpoint_seconds: float | None
    checkpoints: int
    sample_seconds: float | None
    samples: int
    startup_seconds: float | None
    seconds: float
    """Of the whole command, without what is None above."""
    seconds_low: float
    seconds_high: float
    measured: bool
    limit: Limit | None = None
    limit_reason: str = ""


class DiskPlan(msgspec.Struct, frozen=True, kw_only=True):
    checkpoint_bytes: int
    bytes: int
    """With the checkpoint that is being written."""
    free_bytes: int | None
    fits: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    nanoscope: str = __version__
    name: str
    device: str
    device_name: str
    here: bool
    dtype: str
    compiled: bool
    threads: int | None
    recipe: str
    parameters: int
    batch_size: int
    gradient_accumulation_steps: int
    tokens_per_step: int
    done: int
    steps: int
    tokens: int
    """Of the whole run, with what is done."""
    tokens_per_parameter: float
    data: str
    prepared: bool
    vocab_size: int
    train_tokens: int | None
    epochs: float | None
    memory: MemoryPlan
    time: TimePlan | None
    """None if it does not fit, or if nothing is known of the speed of the device."""
    disk: DiskPlan
    notes: list[str] = []
    advice: list[str] = []

    @property
    def fits(self) -> bool:
        return self.memory.fits

    def encoded(self) -> str:
        """The plan as a JSON document."""
        return _json(self)


def encoded_list(plans: list[Plan]) -> str:
    """Plans for several devices as one JSON document."""
    return _json({"schema": SCHEMA, "nanoscope": __version__, "plans": plans})


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content, enc_hook=str), indent=1).decode() + "\n"
