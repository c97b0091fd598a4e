"""What happens in a run, as data: one frozen struct per event. Every view is drawn from these, whoever wrote them.

events.jsonl holds one event per line, as `encode` writes it; docs/events.md documents the format for other trainers.
Structs rather than dataclasses: msgspec validates them while it parses, in a tenth of the time of `json.loads` alone.

To add an event: a struct here, its line in console.py, a branch in own.py.
"""

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from nanoscope.errors import JobError
from nanoscope.ladder import Ladder, Place
from nanoscope.messages import Message

EVENTS_VERSION = 1
MAX_EXTRAS = 40  # names of numbers that no field of an `iter` event is for; further ones are ignored

Step = Annotated[int, Meta(ge=0, lt=10**12)]
Count = Annotated[int, Meta(ge=0, lt=2**62)]
# Beyond this nothing is meant, and squares overflow in the analysis.
LARGEST = 1e30
Number = Annotated[float, Meta(gt=-LARGEST, lt=LARGEST)]
MaybeNumber = Number | None

EndReason = Literal["finished", "eval_only", "patience", "max_minutes", "interrupted", "non_finite"]
SlowCause = Literal["asleep", "data", "checkpoint", "busy", "unknown"]
COMPLETE: tuple[EndReason, ...] = ("finished", "patience", "max_minutes", "eval_only")
"""The endings after which nothing was left to do."""


if TYPE_CHECKING:
    Words = str | Message  # a message of this session: the file gets its English
else:
    Words = str


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What all events carry."""

    t: MaybeNumber = None
    """Seconds since this session of the run began."""
    time: str | None = None
    """Wall-clock time, ISO 8601 in UTC."""


class Start(Event, frozen=True, kw_only=True, tag="start"):
    """A session begins: a new run, or one that is resumed (`first_step` above 0)."""

    version: Annotated[int, Meta(ge=0, lt=EVENTS_VERSION + 1)] = EVENTS_VERSION
    run: str = ""
    config: dict[str, Any] = {}
    nanoscope: str | None = None
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    device: str | None = None
    device_name: Words | None = None
    device_reasons: Words | None = None
    dtype: str | None = None
    compiled: bool | None = None
    processes: Count | None = None
    peak_flops: MaybeNumber = None
    """Of all processes together; 0 if unknown."""
    peak_source: Words | None = None
    data_folder: str | None = None
    dataset_fingerprint: str | None = None
    tokenizer: str | None = None
    parameters: Count | None = None
    tokens_per_step: Count | None = None
    first_step: Step = 0
    vocab_size: Count | None = None
    train_tokens: Count | None = None
    val_tokens: Count | None = None
    ladder: Ladder | None = None
    """What simple models reach on the validation split."""


class Forecast(Event, frozen=True, kw_only=True, tag="forecast"):
    """What the rest of the run is expected to take: said before its first iteration, and again if that was wrong."""

    step: Step = 0
    """Iterations done."""
    steps: Count = 0
    """Iterations still to do."""
    measured: Count = 0
    """Iterations that this rests on. 0: on nothing but a short pass through the model."""
    seconds: MaybeNumber = None
    """Of the rest of the run, with evaluations and checkpoints."""
    seconds_low: MaybeNumber = None
    seconds_high: MaybeNumber = None
    step_seconds: MaybeNumber = None
    eval_seconds: MaybeNumber = None
    checkpoint_seconds: MaybeNumber = None
    sample_seconds: MaybeNumber = None
    epochs_per_step: MaybeNumber = None
    epochs: MaybeNumber = None
    """Of the whole run: how often it reads the training split."""
    memory_bytes: Count | None = None
    """The most that training will need at once."""
    memory_available: Count | None = None


class Resume(Event, frozen=True, kw_only=True, tag="resume"):
    """The run continues from a checkpoint."""

    step: Step
    changed: dict[str, tuple[Any, Any]] = {}
    """Setting → its value before and now, for good."""
    for_session: dict[str, tuple[Any, Any]] = {}
    """Setting → the run's own value, and the one that holds for this session only."""


class Iter(Event, frozen=True, kw_only=True, tag="iter", forbid_unknown_fields=True):
    """One iteration, of those that are logged. Unknown fields are not ignored: see `IterWithExtras`."""

    step: Step
    loss: MaybeNumber
    """Null: not finite."""
    seconds: MaybeNumber = None
    """Of this iteration alone: waiting for data, forward, backward, optimizer."""
    data_seconds: MaybeNumber = None
    steps: Count | None = None
    """Iterations since the last one logged, which the next two figures are about."""
    mean_seconds: MaybeNumber = None
    max_seconds: MaybeNumber = None
    lr: MaybeNumber = None
    grad_norm: MaybeNumber = None
    tokens_per_second: MaybeNumber = None
    mfu: MaybeNumber = None
    """A fraction of 1."""
    eta_seconds: MaybeNumber = None
    process_gb: MaybeNumber = None
    """Resident memory of the training process. This and the next four are sampled now and then, not at every line."""
    cpu_share: MaybeNumber = None
    """Of all cores, used by the training process since the last sample."""
    gpu_peak_gb: MaybeNumber = None
    """The most that was allocated on the device since the last sample."""
    gpu_gb: MaybeNumber = None
    """Allocated on the device between two steps: what earlier versions sampled."""
    gpu_share: MaybeNumber = None


class IterWithExtras(Iter, frozen=True, kw_only=True, tag="iter"):
    """An iteration with numbers that no field is for, as other trainers may write them."""

    extras: dict[str, float]


class Eval(Event, frozen=True, kw_only=True, tag="eval"):
    """Both losses over fixed windows, with their standard errors."""

    step: Step
    train_loss: MaybeNumber = None
    train_stderr: MaybeNumber = None
    val_loss: MaybeNumber
    """Null: not finite."""
    val_stderr: MaybeNumber = None
    windows: Count | None = None
    seconds: MaybeNumber = None
    best: bool = False


class Checkpoint(Event, frozen=True, kw_only=True, tag="checkpoint"):
    """A checkpoint was written; `seconds` is how long training waited for it."""

    step: Step
    path: str = ""
    """From the run's folder."""
    seconds: MaybeNumber = None
    best: bool = False


class CheckpointFailed(Event, frozen=True, kw_only=True, tag="checkpoint_failed"):
    step: Step
    message: Words


class Sample(Event, frozen=True, kw_only=True, tag="sample"):
    step: Step
    seconds: MaybeNumber = None
    path: str = ""
    """From the run's folder."""
    beginning: str = ""


class Rollback(Event, frozen=True, kw_only=True, tag="rollback"):
    """After a loss that was not finite: back to a checkpoint, with lower rates, without the batch that broke it."""

    step: Step
    to: Step
    lr_factor: MaybeNumber = None
    count: Count | None = None
    limit: Count | None = None


class OutOfMemory(Event, frozen=True, kw_only=True, tag="out_of_memory"):
    """Memory ran out, and training continues with smaller micro-batches."""

    step: Step
    micro_batch_before: Count
    micro_batch: Count


class Spike(Event, frozen=True, kw_only=True, tag="spike"):
    """The loss jumped; `score` is how many times the usual spread it lies above the usual loss."""

    step: Step
    loss: Number
    usual: Number
    score: MaybeNumber = None


class SlowStep(Event, frozen=True, kw_only=True, tag="slow_step"):
    step: Step
    seconds: Number
    usual: Number
    cause: SlowCause = "unknown"


class Asleep(Event, frozen=True, kw_only=True, tag="asleep"):
    """The machine was suspended."""

    step: Step
    seconds: Number


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """Anything else worth a line."""

    text: Words
    level: Literal["note", "warning"] = "note"


class NonFinite(Event, frozen=True, kw_only=True, tag="non_finite"):
    """The loss was not finite, and training stopped there."""

    step: Step


class End(Event, frozen=True, kw_only=True, tag="end"):
    """A session is over."""

    reason: EndReason
    step: Step
    wall_seconds: MaybeNumber = None
    phases: dict[str, Number] = {}
    """Seconds by phase; they add up to the wall time."""
    signal: str | None = None
    best_val_loss: MaybeNumber = None
    best_step: Step | None = None
    best_place: Place | None = None
    """Where the best validation loss stands among the rungs of the ladder."""
    saved_step: Step | None = None
    """Of the newest checkpoint."""
    resume_with: dict[str, Any] = {}
    """Settings to type on a resume, so that it continues as this session did, and further."""


AnyEvent = (
    Start | Resume | Forecast | Iter | Eval | Checkpoint | CheckpointFailed | Sample | Rollback
    | OutOfMemory | Spike | SlowStep | Asleep | Note | NonFinite | End
)  # fmt: skip


class NewerVersionError(JobError):
    """The events were written by a nanoscope that this one is too old for."""


_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_ITER_FIELDS = frozenset(("event", *Iter.__struct_fields__))
_DAMAGED = (msgspec.DecodeError, UnicodeError, RecursionError)


def decode(line: str | bytes) -> AnyEvent | None:
    """The event of one line; None if the line is torn, damaged or no event of this version."""
    try:
        return _DECODER.decode(line)
    except _DAMAGED:
        return _decode_leniently(line)


def decode_lines(lines: bytes) -> list[AnyEvent | None]:
    """The events of whole lines, None for those that are none. NewerVersionError as for one line."""
    with suppress(*_DAMAGED):
        found: list[AnyEvent | None] = [*_DECODER.decode_lines(lines)]
        if len(found) == lines.count(b"\n"):
            return found
    return [decode(line) for line in lines.split(b"\n")[:-1]]


def _decode_leniently(line: str | bytes) -> AnyEvent | None:
    """For what other trainers write, a few times slower: fields of their own, NaN and Infinity, a loss of 1e38."""
    try:
        record = _finite(json.loads(line))
        if not isinstance(record, dict):
            return None
        kind, version = record.get("event"), record.get("version")
        if kind == "start" and isinstance(version, int) and version > EVENTS_VERSION:
            raise NewerVersionError(
                "this run was written by a newer nanoscope (events version {version}; this one reads up to {known})\n"
                "Update nanoscope: pip install --upgrade nanoscope",
                version=version,
                known=EVENTS_VERSION,
            )
        if kind != "iter":
            return cast(AnyEvent, msgspec.convert(record, AnyEvent))
        known = {name: record.pop(name) for name in _ITER_FIELDS & record.keys()}
        extras = {name: value for name, value in record.items() if type(value) in (int, float)}
        return msgspec.convert({**known, "extras": extras} if extras else known, IterWithExtras if extras else Iter)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors too
        return None


def _finite(value: Any) -> Any:
    """The same with null for every number that is not finite or beyond `Number`."""
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


def encode(event: AnyEvent) -> str:
    """The event as a line of events.jsonl."""
    record: dict[str, Any] = msgspec.to_builtins(event, enc_hook=str)  # a Text is English there
    return msgspec.json.encode(_plain(record)).decode() + "\n"


def _plain(value: Any) -> Any:
    """The bytes of a file name that is no text are not JSON; of a number, six digits are enough."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
