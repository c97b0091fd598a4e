"""The losses of a run as curves with their noise: what the verdicts on learning look at."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from nanoscope.estimates import median, scatter
from nanoscope.findings.declared import RunProgress, Schedule
from nanoscope.findings.evidence import Points, in_blocks, noise_of
from nanoscope.messages import Epoch
from nanoscope.runs.run import Evaluation, Run

MEASURE_BOTH = ("nanogpt", "nanoscope", "lecture-gpt")  # formats of trainers that evaluate both splits alike
# Shares of the loss, where too few evaluations show their own noise.
LEAST_EVAL_NOISE, MOST_EVAL_NOISE, MOST_UNREST = 0.001, 0.004, 0.03


def numbered(run: Run, steps: Sequence[int]) -> Sequence[int]:
    """The steps of a run, as epochs where it counts those."""
    return [Epoch(step) for step in steps] if run.unit == "epoch" else steps


def _unrest(values: Sequence[float]) -> float:
    """The noise that few values show for sure: learning curves bend upwards, so a bend downwards is none of theirs."""
    bends = (a - 2 * b + c for a, b, c in zip(values, values[1:], values[2:], strict=False))
    return max(0.0, -min(bends, default=0.0)) / math.sqrt(6)


@dataclass(eq=False, repr=False)
class Curve:
    """The finite training losses of a run."""

    steps: Sequence[int]
    values: "array[float]"

    @classmethod
    def of_training(cls, run: Run) -> "Curve":
        steps, losses = numbered(run, run.steps.step), run.steps.loss
        if all(map(math.isfinite, losses)):
            return cls(steps, losses)
        kept = [index for index, loss in enumerate(losses) if math.isfinite(loss)]
        return cls(numbered(run, array("q", (steps[i] for i in kept))), array("d", (losses[i] for i in kept)))

    def around(self, step: int) -> float | None:
        """The training loss when the run was at a step: the median of the lines before it, of at least three."""
        last = bisect_right(self.steps, step)
        near = self.values[max(0, last - 10) : last]
        return median(near) if len(near) >= 3 else None

    @cached_property
    def end(self) -> float:
        """The median of the last lines."""
        return median(self.values[-max(1, min(len(self.values) // 10, 50)) :])

    @cached_property
    def noise(self) -> float | None:
        """The scatter of single lines around their own trend."""
        return scatter(self.values[len(self.values) // 2 :]) if len(self.values) >= 8 else None

    @cached_property
    def points(self) -> Points:
        return in_blocks(self.steps, self.values)


@dataclass(eq=False, repr=False)
class Evidence:
    """All that is known about how a run learns."""

    run: Run
    progress: RunProgress
    schedule: Schedule | None = None

    @cached_property
    def curve(self) -> Curve:
        return Curve.of_training(self.run)

    @cached_property
    def evals(self) -> list[Evaluation]:
        """Those that are finite, of the metric printed last, with rising steps."""
        evals: list[Evaluation] = []
        for e in self.run.evals:
            is_later = not evals or e.step > evals[-1].step
            if is_later and math.isfinite(e.val) and e.metric == self.run.evals[-1].metric:
                evals.append(e)
        return evals

    @cached_property
    def vocabulary(self) -> int | None:
        said = self.run.config.get("vocab_size")
        return said if isinstance(said, int) and said > 1 else None

    @property
    def uniform(self) -> float | None:
        """The loss of guessing."""
        return math.log(self.vocabulary, 2 if self.run.loss_in_bits else math.e) if self.vocabulary else None

    @property
    def warming_up(self) -> bool:
        return self.schedule is not None and self.schedule.stage == "warmup"

    @cached_property
    def val(self) -> Points:
        """The validation losses. Their noise is printed, or seen in their scatter, or assumed."""
        values = [e.val for e in self.evals]
        return Points(numbered(self.run, [e.step for e in self.evals]), values, self._eval_noise(values))

    def _eval_noise(self, values: list[float]) -> float:
        size = abs(median(values)) if values else 0.0
        printed = [e.stderr for e in self.evals if e.stderr is not None]
        seen = noise_of(values)
        if printed:
            return min(median(printed), seen) if seen is not None else median(printed)
        if seen is not None:
            return seen
        if len(values) < 5:
            return MOST_EVAL_NOISE * size
        few = min(max(2 * scatter(values[-5:]), LEAST_EVAL_NOISE * size), MOST_EVAL_NOISE * size)
        return max(few, min(_unrest(values[1:]), MOST_UNREST * size))

    @property
    def losses_measured_alike(self) -> bool:
        """Whether the training loss of an evaluation is measured like the validation loss.

        Others print a mean over the steps before it, with dropout, which lies above it in a healthy run.
        """
        return self.run.format in MEASURE_BOTH and self.run.unit == "step"

    @property
    def has_stderr(self) -> bool:
        return len(self.evals) >= 2 and all(e.stderr is not None for e in self.evals[-2:])

    def train_at(self, evaluation: Evaluation) -> float | None:
        """The training loss that can be held against an evaluation; None for none, or one in other units."""
        if evaluation.metric != "loss":
            return None
        if evaluation.train_loss is not None:
            return evaluation.train_loss if math.isfinite(evaluation.train_loss) else None
        return self.curve.around(evaluation.step)

    @property
    def first_step(self) -> int | None:
        steps = [*self.run.steps.step[:1], *(e.step for e in self.evals[:1])]
        return min(steps) if steps else None

    @property
    def last_step(self) -> int:
        return max([*self.run.steps.step[-1:], *(e.step for e in self.evals[-1:])], default=0)

    @property
    def trained(self) -> int:
        """Steps from the first line to the last."""
        steps = self.run.steps.step
        return steps[-1] - steps[0] if steps else 0

    @property
    def covered(self) -> float:
        """The share of the run up to its last line that this log shows."""
        first, last = self.first_step, self.last_step
        return 1.0 if first is None or last <= 0 else (last - first) / last

    @property
    def from_scratch(self) -> bool:
        """Whether the log shows the run from its first steps."""
        first = self.first_step
        if first is None or self.run.begins_with_resume:
            return False
        steps = self.run.steps.step
        if len(steps) > 2:  # an evaluation above the first line of an excerpt may have no number of its own
            return steps[0] <= max(1, steps[1] - steps[0])
        return first <= 1
