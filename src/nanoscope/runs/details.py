"""What a run of nanoscope records beyond the steps, evaluations and checkpoints that any log has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nanoscope.ladder import Ladder
from nanoscope.messages import printable
from nanoscope.runs import events as e
from nanoscope.runs.windows import WindowLosses

MAX_SETTINGS = 200
NAME_CHARACTERS = 60  # of a setting or series
TEXT_CHARACTERS = 200  # of a setting or message

Setting = str | int | float | bool
# What a run notices about itself.
NoteEvent = e.Rollback | e.OutOfMemory | e.Spike | e.SlowStep | e.Asleep | e.CheckpointFailed

# Fields of a start event that say nothing about the environment, or that a report should not pass on.
_NOT_ENVIRONMENT = ("t", "time", "version", "run", "config", "first_step", "data_folder", "device_reasons", "ladder")


@dataclass(eq=False, repr=False)
class RunDetails:
    """What a run of nanoscope records beyond the steps, evaluations and checkpoints of a `Run`."""

    start: e.Start = field(default_factory=e.Start)
    notes: list[NoteEvent] = field(default_factory=list)
    samples: list[tuple[int, str]] = field(default_factory=list)  # step and text
    windows: list[WindowLosses] = field(default_factory=list)  # of the last and the best evaluation
    batches: list[tuple[int, int]] = field(default_factory=list)  # first step of a session, and its tokens per step
    ladder: Ladder | None = None  # of the text that all evaluations were measured on
    forecast: e.Forecast | None = None  # the newest of the current session
    end: e.End | None = None  # of the current session, if it has ended
    resumes: list[e.Resume] = field(default_factory=list)  # with settings that were changed for good

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings that are safe to print."""
        return safe_settings(self.start.config)

    @property
    def environment(self) -> list[tuple[str, str]]:
        """Versions, device and sizes as text that is safe to print."""
        names = (name for name in self.start.__struct_fields__ if name not in _NOT_ENVIRONMENT)
        known = safe_settings({name: getattr(self.start, name) for name in names})
        return [(name, str(value)) for name, value in known.items()]


def safe_settings(values: Mapping[str, Any]) -> dict[str, Setting]:
    """Settings that are safe to print and to calculate with; what is neither text nor a number is left out."""
    found: dict[str, Setting] = {}
    for name, value in list(values.items())[:MAX_SETTINGS]:
        if isinstance(value, str):
            value = printable(value[:TEXT_CHARACTERS])
        elif not isinstance(value, int | float) or not abs(value) < e.LARGEST:
            continue
        found[printable(name[:NAME_CHARACTERS])] = value
    return found
