"""When a run of a sweep is given up."""

import math

import pytest

from nanoscope.runs.run import Evaluation
from nanoscope.training.hopeless import reason_to_give_up


def evals(level: float, until: int = 100, stderr: float | None = 0.01) -> list[Evaluation]:
    return [Evaluation(step, level + 10 / step, None, "loss", None, stderr) for step in range(10, until + 1, 10)]


OTHERS = [evals(level) for level in (1.0, 1.1, 1.2, 1.3)]


def test_a_run_above_the_median_of_the_others_at_the_same_step_is_hopeless() -> None:
    reason = reason_to_give_up(evals(1.5, until=60), 100, OTHERS, 4)
    assert reason == "at step 60 its best validation loss was 1.6667, the median of 4 other runs 1.3167"


@pytest.mark.parametrize(
    ("run", "others", "finished", "why"),
    [
        (evals(1.14, until=60), OTHERS, 4, "better than the median"),
        (evals(1.16, until=60), OTHERS, 4, "worse by less than its error"),
        (evals(1.5, until=40), OTHERS, 4, "not half-way yet"),
        (evals(1.5, until=60), OTHERS, 3, "too few are finished"),
        (evals(1.5, until=60), [*OTHERS[:3], evals(1.0, until=50)], 4, "too few have come as far"),
        ([], OTHERS, 4, "nothing evaluated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_in_doubt_a_run_goes_on(run: list[Evaluation], others: list[list[Evaluation]], finished: int, why: str) -> None:
    assert reason_to_give_up(run, 100, others, finished) is None


def test_runs_that_broke_count_as_bad_ones() -> None:
    broken = [Evaluation(100, math.inf, None, "loss", None, None)]
    assert reason_to_give_up(evals(1.5), 100, [broken] * 4, 4) is None
