"""`nanoscope.read`: a log as arrays, and as DataFrames where pandas is installed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nanoscope.api.sources import Source, read_source
from nanoscope.errors import UsageError
from nanoscope.runs.run import ConfigValue, LoggedError
from nanoscope.runs.run import Log as ReadLog
from nanoscope.runs.run import Run as ReadRun

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def read(log: Source) -> "Log":
    """Read a training log of any trainer that `nanoscope explain` understands.

    >>> log = nanoscope.read("train.log")
    >>> run = log.runs[-1]
    >>> run.steps.loss.min(), run.evals.val_loss[-1]

    `log` is a file, the folder of a run (nanoscope's, W&B's, MLflow's or TensorBoard's), a `Run`, or a string of
    several lines: the log itself.
    """
    return Log(read_source(log))


class Columns:
    """Arrays of equal length. NaN: the log doesn't say; inf: the log says that the number was not finite."""

    def __len__(self) -> int:
        return len(self._columns()["step"])

    def __repr__(self) -> str:
        names = ", ".join(name for name, column in self._columns().items() if not np.isnan(column).all())
        return f"{type(self).__name__}({len(self)}: {names})"

    def frame(self) -> "pd.DataFrame":
        """A pandas DataFrame, indexed by step."""
        try:
            import pandas as pd
        except ImportError:
            raise UsageError("frame() needs pandas: pip install pandas. The arrays work without it.") from None
        return pd.DataFrame(self._columns()).set_index("step")

    def _columns(self) -> "dict[str, NDArray[Any]]":
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False, eq=False)
class Steps(Columns):
    """The iterations of a run that the log has."""

    step: "NDArray[np.int64]"
    loss: "NDArray[np.float64]"
    seconds: "NDArray[np.float64]"
    """The time of one iteration."""
    lr: "NDArray[np.float64]"
    grad_norm: "NDArray[np.float64]"
    tokens_per_second: "NDArray[np.float64]"
    mfu: "NDArray[np.float64]"
    """A fraction of 1."""


@dataclass(frozen=True, repr=False, eq=False)
class Evals(Columns):
    """The evaluations of a run."""

    step: "NDArray[np.int64]"
    val_loss: "NDArray[np.float64]"
    val_stderr: "NDArray[np.float64]"
    train_loss: "NDArray[np.float64]"
    seconds: "NDArray[np.float64]"


class LoggedRun:
    """One training run, according to a log."""

    def __init__(self, run: ReadRun) -> None:
        self._run = run

    @cached_property
    def steps(self) -> Steps:
        read = self._run.steps
        return Steps(
            np.array(read.step, np.int64), np.array(read.loss), np.array(read.time_s), np.array(read.lr),
            np.array(read.grad_norm), np.array(read.tok_s), np.array(read.mfu_pct) / 100,
        )  # fmt: skip

    @cached_property
    def evals(self) -> Evals:
        evals = self._run.evals
        columns = [[getattr(e, name) for e in evals] for name in ("val", "stderr", "train_loss", "seconds")]
        step = np.array([e.step for e in evals], dtype=np.int64)
        return Evals(step, *(np.array(column, dtype=np.float64) for column in columns))

    @property
    def config(self) -> dict[str, ConfigValue]:
        """The settings that the log mentions."""
        return dict(self._run.config)

    @property
    def resumed_at(self) -> list[int]:
        """The steps at which it was resumed."""
        return list(self._run.resumed_at)

    @property
    def finished(self) -> bool:
        """Whether the log says that the run is complete."""
        return self._run.said_finished

    @property
    def eval_metric(self) -> str:
        """What `evals.val_loss` is: 'loss', or 'bpb' for bits per byte."""
        return self._run.evals[-1].metric if self._run.evals else "loss"

    def __repr__(self) -> str:
        return f"<LoggedRun: {len(self._run.steps)} steps, {len(self._run.evals)} evaluations>"


class Log:
    """All that was read from one source; `runs` in order of appearance."""

    def __init__(self, log: ReadLog) -> None:
        self._log = log
        self.runs = tuple(LoggedRun(run) for run in log.runs)

    @property
    def source(self) -> str:
        return self._log.source

    @property
    def format(self) -> str:
        """The trainer that wrote it: 'nanoscope', 'nanogpt', …, 'generic' if unknown, 'none' if nothing was found."""
        return self._log.format

    @property
    def errors(self) -> list[LoggedError]:
        """Errors that the log reports: their line, kind and message."""
        return list(self._log.errors)

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[LoggedRun]:
        return iter(self.runs)

    def __getitem__(self, index: int) -> LoggedRun:
        return self.runs[index]

    def __repr__(self) -> str:
        return f"<Log of {self.source}: format {self.format}, {len(self)} run{'' if len(self) == 1 else 's'}>"
