"""What a run of nanoscope records beyond the steps, evaluations and checkpoints that any log has."""

from array import array
from dataclasses import dataclass, field
from typing import Any

from nanoscope.ladder import Ladder
from nanoscope.messages import printable
from nanoscope.runs import events as e
from nanoscope.runs.windows import WindowLosses

MAX_SETTINGS = 200
NAME_CHARACTERS = 60  # of a setting or series
TEXT_CHARACTERS = 200  # of a setting or message

Setting = tuple[str, str]
# What a run notices about itself.
NoteEvent = e.Rollback | e.OutOfMemory | e.Spike | e.SlowStep | e.Asleep | e.CheckpointFailed

# Fields of a start event that say nothing about the environment, or that a report should not pass on.
_NOT_ENVIRONMENT = ("t", "time", "version", "run", "config", "first_step", "data_folder", "device_reasons", "ladder")


@dataclass(eq=False, repr=False)
class RunDetails:
    """What a run of nanoscope records beyond the steps, evaluations and checkpoints of a `Run`."""

    start: e.Start = field(default_factory=e.Start)
    notes: list[NoteEvent] = field(default_factory=list)
    # The estimates of the time left. A step that was repeated after a resume is listed twice.
    eta_steps: "array[int]" = field(default_factory=lambda: array("q"))
    eta_seconds: "array[float]" = field(default_factory=lambda: array("d"))
    samples: list[tuple[int, str]] = field(default_factory=list)  # step and text
    windows: list[WindowLosses] = field(default_factory=list)  # of the last and the best evaluation
    batches: list[tuple[int, int]] = field(default_factory=list)  # first step of a session, and its tokens per step
    ladder: Ladder | None = None  # of the text that all evaluations were measured on
    forecast: e.Forecast | None = None  # the newest of the current session
    end: e.End | None = None  # of the last session that has ended
    resumes: list[e.Resume] = field(default_factory=list)  # with settings that were changed for good

    @property
    def config(self) -> list[Setting]:
        """The settings as text that is safe to print."""
        return _settings(self.start.config)

    @property
    def environment(self) -> list[Setting]:
        """Versions, device and sizes as text that is safe to print."""
        names = (name for name in self.start.__struct_fields__ if name not in _NOT_ENVIRONMENT)
        return _settings({name: getattr(self.start, name) for name in names})


def _settings(values: dict[str, Any]) -> list[Setting]:
    scalars = [(name, value) for name, value in values.items() if isinstance(value, str | int | float)]
    return [
        (printable(name[:NAME_CHARACTERS]), printable(str(value)[:TEXT_CHARACTERS]))
        for name, value in scalars[:MAX_SETTINGS]
    ]
