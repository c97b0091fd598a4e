"""`nanoscope.read`: the runs of a log."""

import os
import warnings
from collections.abc import Iterable
from io import BytesIO

from nanoscope.messages import Shown
from nanoscope.runs.reader import read_log, read_stream
from nanoscope.runs.run import Log

Source = str | os.PathLike[str]
"""A log file, the folder of a run (nanoscope's, W&B's, MLflow's or TensorBoard's), a `Run`, or the text of a log."""


def read(log: Source) -> Log:
    """Read a training log of any trainer that `nanoscope explain` understands.

    >>> run = nanoscope.read("train.log").runs[-1]
    >>> min(run.steps.loss), run.evals[-1].val

    `log` is a file, the folder of a run (nanoscope's, W&B's, MLflow's or TensorBoard's), a `Run`, or a string of
    several lines: the log itself.
    """
    text = os.fspath(log)
    return read_stream(BytesIO(text.encode()), "pasted text") if "\n" in text else read_log(text)


def paths_of(sources: Source | Iterable[Source]) -> list[str]:
    """What was given as one path, or as several."""
    return [os.fspath(each) for each in ([sources] if isinstance(sources, str | os.PathLike) else sources)]


def warn(text: Shown) -> None:
    """A warning about what the caller of `prepare` or `report` gave."""
    warnings.warn(str(text), stacklevel=4)
