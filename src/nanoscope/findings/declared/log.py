"""How much of a run a log holds, and how far the run is."""

from typing import Literal

from nanoscope.findings.declared.base import Finding
from nanoscope.messages import Message, Said, sentences
from nanoscope.runs.run import ErrorKind

NEARLY_ALL = 0.95  # of the steps: a run that prints every k-th step ends before its last one
MOST_NAMES = 8  # of columns that are not used


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
    end_unclear: bool = False  # a line says that training is over, and the counter contradicts it
    steps_are_lines: bool = False  # the log does not number its steps

    def text(self) -> Said:
        return sentences(
            self.begins_mid_run
            and bool(self.first_step)
            and Message("The log begins at step {first_step:plain}, in the middle of the run."),
            self.steps_are_lines
            and Message("The log doesn't number its steps, so each of its lines is counted as one."),
            self.time_unclear
            and Message("The printed times of the steps contradict the clock of the lines, so no step time is named."),
            self.end_unclear
            and Message("The log says that training is over, but the last step is before the planned end."),
            bool(self.resumed_at) and Message("The run was resumed at step {resumed_at:steps}."),
            self.elided and Message("Steps are missing from the middle of the log."),
            self.duplicates_dropped > 0
            and Message(
                "{n} line was a repetition and was counted once.",
                "{n} lines were repetitions and were counted once.",
                n=self.duplicates_dropped,
            ),
            self.rejoined_lines > 0
            and Message(
                "{n} record was broken over several lines and put together again.",
                "{n} records were broken over several lines and put together again.",
                n=self.rejoined_lines,
            ),
        )


class Reading(Finding):
    """Which values of the log's records were read and used, and which columns were not."""

    understood: tuple[str, ...]
    ignored: tuple[str, ...]

    def text(self) -> Said:
        if not self.ignored:
            return None
        more = ", …" if len(self.ignored) > MOST_NAMES else ""
        return Message("Not used from this log: {names}.", names=", ".join(self.ignored[:MOST_NAMES]) + more)


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

    @property
    def complete(self) -> bool:
        """Whether it is over and has done all of its steps."""
        total, last = self.total_steps, self.last_step
        return total is not None and last is not None and bool(self.finished) and last >= NEARLY_ALL * total

    def text(self) -> Said:
        return sentences(
            self._end() if self.finished else self._place(),
            self._tokens(),
            self.tokens_per_parameter is not None
            and Message("That is {tokens_per_parameter:significant2} tokens per parameter."),
        )

    def _end(self) -> Message:
        if self.unit == "epoch":
            if self.complete:
                return Message("Finished: all {total_steps:number} epochs are done.")
            return Message("Finished at epoch {last_step:plain}.")
        if self.complete:
            return Message("Finished: all {total_steps:number} steps are done.")
        if self.total_steps:
            return Message("Finished early, at step {last_step:plain} of {total_steps:plain}.")
        return Message("Finished at step {last_step:plain}.")

    def _place(self) -> Said:
        if self.last_step is None:
            return None
        if self.total_steps is None or self.steps_left is None:
            epoch, step = Message("At epoch {last_step:plain}."), Message("At step {last_step:plain}.")
            return epoch if self.unit == "epoch" else step
        share = self.last_step / max(self.total_steps, 1)
        if self.unit == "epoch":
            return Message("At epoch {last_step:plain} of {total_steps:plain} ({share:percent}).", share=share)
        return Message("At step {last_step:plain} of {total_steps:plain} ({share:percent}).", share=share)

    def _tokens(self) -> Said:
        if self.passes_over_data is None:
            return None if self.tokens_seen is None else Message("{tokens_seen:large} tokens read.")
        if self.passes_over_data >= 1:
            return Message("{tokens_seen:large} tokens read: the data {passes_over_data:significant2} times over.")
        return Message("{tokens_seen:large} tokens read: {passes_over_data:percent} of the data.")
