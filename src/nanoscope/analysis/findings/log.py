"""How much of a run a log holds, and how far the run is."""

from typing import Literal

from nanoscope.analysis.findings.base import Finding
from nanoscope.messages import Message
from nanoscope.runs.run import ErrorKind


class LogSummary(Finding):
    """How much of the run the log holds, and what had to be ignored or repaired."""

    steps_logged: int
    first_step: int | None
    last_step: int | None
    duplicates_dropped: int  # lines printed twice, or once per rank
    rejoined_lines: int  # records that a terminal had wrapped
    resumed_at: tuple[int, ...]  # steps
    begins_mid_run: bool  # the log starts after the run did
    elided: bool  # steps are missing from the middle
    time_unclear: bool = False  # the printed times contradict the clock
    steps_are_lines: bool = False  # the log does not number its steps


class Reading(Finding):
    """Which values of the log's records were read and used, and which columns were not."""

    understood: tuple[str, ...]
    ignored: tuple[str, ...]


ERRORS: dict[ErrorKind, Message] = {
    "out_of_memory": Message("Line {line:plain}: memory ran out. {message:line}"),
    "killed": Message("Line {line:plain}: the system ended the run. {message:line}"),
    "interrupted": Message("Line {line:plain}: the run was stopped before its end. {message:line}"),
    "exception": Message("Line {line:plain}: the program stopped with an error. {message:line}"),
}


class LogError(Finding):
    """An error that the log shows (of the log, not of one run)."""

    line: int
    kind: ErrorKind
    message: str

    def text(self) -> Message:
        return ERRORS[self.kind]


class RunProgress(Finding):
    """How far the run is. `total_steps` is None if neither the log nor the user gives it."""

    last_step: int | None
    total_steps: int | None
    steps_left: int | None
    finished: bool | None
    tokens_per_step: int | None
    tokens_seen: int | None
    passes_over_data: float | None  # if the log says how many tokens there are
    tokens_per_parameter: float | None = None
    unit: Literal["step", "epoch"] = "step"  # what the step numbers count
