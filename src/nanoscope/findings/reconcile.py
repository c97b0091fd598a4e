"""Numbers of a log held against each other, before anything is said: what does not fit is a finding.

Only what can be checked by arithmetic, and only where both sides are known: silence is better than a false alarm.
"""

from typing import Literal

from nanoscope.findings.declared import RunProgress
from nanoscope.findings.declared.base import Finding
from nanoscope.findings.progress import set_tokens_in_step, tokens_from_speed, train_tokens
from nanoscope.findings.timing import NormalStep
from nanoscope.messages import Message, Said
from nanoscope.runs.run import Run


class Mismatch(Finding):
    """Two figures of a log that cannot both be right, or that together show a setting that was hardly meant."""

    kind: Literal["step_of_data", "tokens_and_time", "beyond_total"]
    value: float
    other: float
    share: float  # value / other
    setting: str | None = None  # the setting that explains it, with its value
    setting_value: float | None = None

    def text(self) -> Said:
        match self.kind:
            case "step_of_data" if self.setting is not None:
                return Message(
                    "Each step reads {value:number} tokens, {share:percent} of the training data ({other:number} "
                    "tokens): {setting} is still {setting_value:plain}."
                )
            case "step_of_data":
                return Message(
                    "Each step reads {value:number} tokens, {share:percent} of the training data ({other:number} "
                    "tokens)."
                )
            case "beyond_total":
                return Message(
                    "The log has reached {value:number}, beyond its total of {other:number}: one of the two numbers "
                    "counts something else, so nothing is said about the time remaining."
                )
            case "tokens_and_time" if self.share < 1:
                return Message(
                    "Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                    "the printed tokens/s may be those of one device or one micro-batch."
                )
            case "tokens_and_time":
                return Message(
                    "Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                    "there may be more devices or micro-batches than the log says."
                )


LARGE_STEP = 0.1  # of the training data, that one step reads
FAR_OFF = 0.25  # tokens a second × seconds against tokens: beyond rounding and overhead
ENOUGH_STEPS = 5


def reconcile(run: Run, progress: RunProgress, normal: NormalStep | None) -> tuple[Mismatch, ...]:
    """What does not fit, most important first."""
    found = (_step_of_data(run, progress), _beyond_total(run, progress), _tokens_and_time(run, progress, normal))
    return tuple(mismatch for mismatch in found if mismatch is not None)


def _step_of_data(run: Run, progress: RunProgress) -> Mismatch | None:
    """One step that reads a large part of the training data."""
    data, step = train_tokens(run), progress.tokens_per_step
    if not data or not step or step < LARGE_STEP * data:
        return None
    accumulation = run.config.get("gradient_accumulation_steps")
    if isinstance(accumulation, int) and accumulation > 1:
        return Mismatch("step_of_data", step, data, step / data, "gradient_accumulation_steps", accumulation)
    return Mismatch("step_of_data", step, data, step / data)


def _beyond_total(run: Run, progress: RunProgress) -> Mismatch | None:
    """A run that has gone beyond its own total: one of the two numbers means something else."""
    last, total = run.last_step, progress.total_steps
    if last is None or not total or last <= total or progress.finished:
        return None
    return Mismatch("beyond_total", last, total, last / total)


def _tokens_and_time(run: Run, progress: RunProgress, normal: NormalStep | None) -> Mismatch | None:
    """Printed tokens a second that do not make the tokens of a step in the time of a step."""
    tokens, product = progress.tokens_per_step if set_tokens_in_step(run) else None, tokens_from_speed(run)
    if normal is None or not tokens or not product or normal.steps < ENOUGH_STEPS:
        return None  # a speed that is a mean of many steps does not fit the time of one, and need not
    if abs(product / tokens - 1) <= FAR_OFF:
        return None
    return Mismatch("tokens_and_time", product, tokens, product / tokens)
