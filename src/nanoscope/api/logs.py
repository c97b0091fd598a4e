"""`nanoscope.read`: the runs of a log. `nanoscope.frame`: what is read, and runs, as DataFrames."""

import os
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from nanoscope.errors import UsageError
from nanoscope.runs.reader import read_log, read_stream
from nanoscope.runs.run import Evaluation, Log, Steps

if TYPE_CHECKING:
    import pandas as pd

    from nanoscope.api.runs import Run

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


def frame(rows: "Steps | Sequence[Evaluation] | Sequence[Run]") -> "pd.DataFrame":
    """A pandas DataFrame of the steps or the evaluations of a run, or of runs with their settings.

    >>> nanoscope.frame(run.steps), nanoscope.frame(run.evals), nanoscope.frame(nanoscope.list_runs())
    """
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("frame() needs pandas: pip install pandas. The arrays work without it.") from None
    if isinstance(rows, Steps):
        return pd.DataFrame(vars(rows)).set_index("step")
    table: list[dict[str, Any]] = [vars(row) if isinstance(row, Evaluation) else row.row() for row in rows]
    return pd.DataFrame(table).set_index("step" if rows and isinstance(rows[0], Evaluation) else "name")
