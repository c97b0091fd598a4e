import math

from nanoscope.findings.analyse import analyse
from nanoscope.runs.run import Evaluation, Run, Traits
from nanoscope.views.charts import HEIGHT, loss_chart, step_time_chart
from nanoscope.words.language import Language

ENGLISH = Language("en")
BLANK = "⠀"


def run_of(losses: list[float], times: list[float] | None = None) -> Run:
    run = Run("generic", Traits())
    for step, loss in enumerate(losses):
        run.steps.extend([step], [loss], [times[step] if times else 0.1], *[[math.nan]] * 4)
    return run


def drawn(chart: list[str]) -> list[str]:
    return [line.split("┤")[1] for line in chart if "┤" in line]


def test_a_falling_loss_is_drawn_from_the_upper_left_to_the_lower_right():
    rows = drawn(loss_chart(run_of([4 - step / 40 for step in range(100)]), 60, ENGLISH))
    assert len(rows) == HEIGHT
    half = len(rows[0]) // 2
    assert [bool(part.strip(BLANK)) for part in (rows[0][:half], rows[0][half:])] == [True, False]
    assert [bool(part.strip(BLANK)) for part in (rows[-1][:half], rows[-1][half:])] == [False, True]


def test_the_steep_beginning_does_not_flatten_the_rest():
    losses = [11.0] * 2 + [4 - step / 100 for step in range(100)]
    chart = loss_chart(run_of(losses), 60, ENGLISH)
    assert "4.00" in chart[1] or "3.9" in chart[1]


def test_validation_losses_are_marked():
    run = run_of([4 - step / 100 for step in range(100)])
    run.evals = [Evaluation(step, 3.5 - step / 200) for step in (0, 50, 99)]
    chart = loss_chart(run, 60, ENGLISH)
    assert chart[0] == "loss (o validation)"
    assert "".join(drawn(chart)).count("o") == 3


def test_slow_steps_are_marked_above_the_others():
    times = [0.168 + step % 3 / 1000 for step in range(100)]
    times[0], times[50] = 12.5, 5.9
    run = run_of([4 - step / 100 for step in range(100)], times)
    chart = step_time_chart(run, analyse(run), 60, ENGLISH)
    assert chart[0] == "step time (x slow step), logarithmic"
    assert "x" in drawn(chart)[0]
    assert "".join(drawn(chart)).count("x") == 2
    assert "x" not in drawn(chart)[-1]


def test_small_losses_differ_on_their_axis():
    chart = loss_chart(run_of([0.0013 - step / 1e6 for step in range(100)]), 60, ENGLISH)
    labels = [line.split("┤")[0].strip() for line in chart if "┤" in line]
    assert (labels[0], labels[-1]) == ("0.0013", "0.0012")


def test_too_few_or_no_finite_values_give_no_chart():
    few = run_of([4.0, 3.0])
    assert loss_chart(few, 60, ENGLISH) == []
    assert step_time_chart(few, analyse(few), 60, ENGLISH) == []
    assert loss_chart(run_of([math.inf] * 50), 60, ENGLISH) == []


def test_a_constant_loss_is_a_flat_line():
    rows = drawn(loss_chart(run_of([2.0] * 50), 60, ENGLISH))
    assert sum(bool(row.strip(BLANK)) for row in rows) == 1


def test_very_many_steps_are_drawn_from_a_sample():
    run = run_of([])
    for step in range(200_000):
        run.steps.extend([step], [4 - step / 100_000], [0.1], *[[math.nan]] * 4)
    chart = loss_chart(run, 60, ENGLISH)
    first, last = map(int, chart[-1].split())
    assert first < 20_000
    assert last > 190_000
