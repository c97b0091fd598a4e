"""Two small charts of a run: its losses, and the times of its steps."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from nanoscope.findings.analyse import Analysis
from nanoscope.messages import NO_BREAK_SPACE
from nanoscope.runs.run import Run
from nanoscope.views.terminal_page import columns
from nanoscope.words.language import Language

HEIGHT = 6  # rows of braille, four dots each
MANY = 20_000  # records: of more than these, every k-th is drawn
LABEL_COLUMNS = 9
SLOW_MARK, VALIDATION_MARK = "x", "o"
LEFT_TO_RIGHT_MARK = "\u200e"  # a row that begins with an Arabic label is still a chart

Points = Sequence[tuple[float, float]]


def loss_chart(run: Run, width: int, language: Language) -> list[str]:
    """Training loss as a line, validation loss as marks; no lines if there are too few values."""
    train = stretch_medians(_records(run.steps.step, run.steps.loss), width)
    # Bits per byte do not fit the scale of a loss.
    validation = [(float(e.step), e.val) for e in run.evals if math.isfinite(e.val) and e.metric == "loss"]
    if len(train) < 5 and len(validation) < 3:
        return []
    title = language.say("loss")
    if validation:
        title += language.say(" ({mark} validation)", mark=VALIDATION_MARK)
    stride = 1 + len(validation) // (width // 4)  # more marks would hide the line
    return [title, *_draw(*_without_start(train, validation[::stride]), VALIDATION_MARK, width, _loss_label)]


def step_time_chart(run: Run, analysis: Analysis, width: int, language: Language) -> list[str]:
    """Normal steps as a line, slow ones as marks, on a logarithmic scale if they are far apart."""
    slow = {step.step: step.time_s for step in analysis.slow_steps if 0 < step.time_s < math.inf}
    normal = [p for p in _records(run.steps.step, run.steps.time_s) if p[0] not in slow and p[1] > 0]
    line, marks = stretch_medians(normal, width), [(float(step), time_s) for step, time_s in slow.items()]
    values = [y for _, y in (*line, *marks)]
    if len(line) < 5:
        return []
    title = language.say("step time")
    if marks:
        title += language.say(" ({mark} slow step)", mark=SLOW_MARK)
    far_apart = max(values) >= 10 * min(values)
    if far_apart:
        title += language.say(", logarithmic")
        line, marks = ([(x, math.log10(y)) for x, y in points] for points in (line, marks))
    chart = _draw(line, marks, SLOW_MARK, width, lambda y: _time_label(10.0**y if far_apart else y, language))
    return [title, *chart]


def _records(steps: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    stride = 1 + len(steps) // MANY
    pairs = zip(steps[::stride], values[::stride], strict=True)
    return [(float(x), y) for x, y in pairs if math.isfinite(y)]


def _without_start(train: Points, validation: Points) -> tuple[Points, Points]:
    """Drop the steep beginning, which would make the rest a flat line."""
    points = sorted([*train, *validation])
    cap = max(y for _, y in points[len(points) // 20 :])
    return [p for p in train if p[1] <= cap], [p for p in validation if p[1] <= cap]


def stretch_medians(points: Points, width: int) -> list[tuple[float, float]]:
    """At most two points per column, each the median of its stretch."""
    size = max(1, math.ceil(len(points) / (2 * width))) | 1  # odd: of two middle values the upper would be too high
    stretches = [points[start : start + size] for start in range(0, len(points), size)]
    return [(s[len(s) // 2][0], sorted(y for _, y in s)[len(s) // 2]) for s in stretches]


def _loss_label(loss: float) -> str:
    return f"{loss:.2f}" if abs(loss) >= 0.1 else f"{loss:.2g}"


def _time_label(seconds: float, language: Language) -> str:
    """A label of the axis: one unit and three digits, because the column is narrow."""
    unit, count = ("ms", seconds * 1e3) if seconds < 1 else ("s", seconds)
    label = language.unit(unit).replace("{n}", f"{count:.3g}").replace(NO_BREAK_SPACE, " ")
    return LEFT_TO_RIGHT_MARK + language.isolate(label) if language.right_to_left else label


def _draw(line: Points, marks: Points, mark: str, width: int, label: Callable[[float], str]) -> list[str]:
    from plotille import Canvas

    xs, ys = zip(*line, *marks, strict=True)
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    margin = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    ends = label(high), label(low)
    gutter = max(LABEL_COLUMNS, *map(columns, ends))
    across = width - gutter - 2
    canvas = Canvas(
        across, HEIGHT, xmin=left, xmax=right + (right - left or 1) / across, ymin=low - margin, ymax=high + margin
    )
    for (x0, y0), (x1, y1) in pairwise(line):
        canvas.line(x0, y0, x1, y1)
    for x, y in marks:
        canvas.point(x, y, marker=mark)
    labels = [ends[0], *[""] * (HEIGHT - 2), ends[1]]
    rows = canvas.plot().splitlines()
    drawn = [" " * (gutter - columns(text)) + f"{text} ┤{row}" for text, row in zip(labels, rows, strict=True)]
    return [*drawn, " " * (gutter + 2) + f"{left:.0f}".ljust(across - len(f"{right:.0f}")) + f"{right:.0f}"]
