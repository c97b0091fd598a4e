"""`nanoscope.frame`: steps, evaluations and runs as DataFrames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nanoscope.api.runs import Run
from nanoscope.errors import UsageError
from nanoscope.runs.run import Evaluation, Steps

if TYPE_CHECKING:
    import pandas as pd


def frame(rows: Steps | Sequence[Evaluation] | Sequence[Run]) -> "pd.DataFrame":
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
