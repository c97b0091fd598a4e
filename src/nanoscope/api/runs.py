"""`nanoscope.train`, `sweep` and what they return: runs on disk."""

import gc
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.errors import JobError
from nanoscope.files import RUNS
from nanoscope.messages import on_terminal
from nanoscope.runs import listing
from nanoscope.runs.summary import RunSummary, State, summary_of
from nanoscope.suggest import did_you_mean_run
from nanoscope.training.phases import PhaseClock
from nanoscope.training.resume import NothingToTrainError, resolve_and_make_ready
from nanoscope.training.stopping import SIGNALS
from nanoscope.views.closing import closing_lines

if TYPE_CHECKING:
    from nanoscope.api.explaining import Explanation
    from nanoscope.api.models import Model


def train(preset: str | os.PathLike[str] = "laptop", **settings: Any) -> "Run":
    """Train a GPT in this process and return the run, when it has ended.

    >>> run = nanoscope.train("laptop", dataset="shakespeare", max_iters=500)
    >>> run.best_val_loss

    `preset` is the name of a preset, a TOML file, nanoGPT's config/*.py, or the folder of a run. The settings are those
    of `nanoscope train --help`. Ctrl-C (in a notebook: interrupt) stops, saves and returns the run; a second one raises
    KeyboardInterrupt. Wrong settings raise `UsageError`, a run that fails raises `JobError`.
    """
    clock = PhaseClock()
    resolved = resolve_and_make_ready(words_of(preset, settings))

    from nanoscope.training.launch import train_run

    with _undone():
        try:
            trained, end = train_run(resolved, clock, closing_lines)
        except NothingToTrainError as reason:
            return Run(reason.folder)
    if end.signal not in (None, "SIGINT"):
        signal.raise_signal(signal.Signals[end.signal])  # everything is saved; whoever sent it wants the process to end
    return Run(trained.folder.path)


def sweep(preset: str | os.PathLike[str] = "laptop", *, jobs: int = 1, **settings: Any) -> "list[Run]":
    """Train one run for each combination of settings, and return the finished ones, the best first.

    >>> best = nanoscope.sweep("laptop", learning_rate=[1e-3, 1e-2], seed=[1, 2, 3])[0]

    A list holds the values of a setting. The same call again resumes the sweep, as `nanoscope sweep` does.
    """
    from nanoscope.training.sweep import plan_sweep, run_sweep

    planned = plan_sweep(words_of(preset, settings))
    run_sweep(planned, jobs, lambda text: print(on_terminal(text)))
    return [Run(run.folder) for run in planned.ranked()]


def words_of(preset: str | os.PathLike[str], settings: Mapping[str, Any]) -> list[str]:
    """The words of a command that has this preset and these settings."""
    texts = {
        key: f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else value
        for key, value in settings.items()
    }
    return [os.fspath(preset), *(f"--{key}={text}" for key, text in texts.items())]


@contextmanager
def _undone() -> Iterator[None]:
    """Undo what training changes in a process that is expected to end with it."""
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if main else {}
    try:
        yield
    finally:
        gc.unfreeze()
        for number, handler in handlers.items():
            if handler is not None:  # it was not installed from Python
                signal.signal(number, handler)


def list_runs(folder: str | os.PathLike[str] = RUNS) -> "list[Run]":
    """The runs in a folder and in the folders below it: live ones first, then the newest.

    >>> best = min(nanoscope.list_runs(), key=lambda run: run.best_val_loss or float("inf"))
    """
    root = Path(folder)
    if not root.is_dir():
        raise JobError("There is no folder {root}.", root=root)
    return [Run(run.folder) for run in listing.list_runs(root)]


class Run(os.PathLike[str]):
    """A run of nanoscope on disk, whether it is finished, stopped or still training.

    >>> run = nanoscope.Run("runs/laptop")
    >>> run.step, run.best_val_loss
    >>> run.resume(max_iters=4000)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / "events.jsonl").is_file():
            hint = did_you_mean_run(self.folder)
            raise JobError(
                "{folder} is not a run of nanoscope: it has no events.jsonl.{hint}\n"
                "To train one with a config file of nanoGPT: nanoscope train config/CONFIG.py",
                folder=self.folder,
                hint=hint,
            )

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def config(self) -> TrainConfig:
        """The settings of the run."""
        return resolve([str(self.folder)]).config

    @property
    def summary(self) -> RunSummary:
        """How it is doing at this moment: `state`, `step`, `total`, `loss`, `best`, `eta_seconds`, …"""
        return summary_of(self.folder, self.folder.resolve().name)

    @property
    def state(self) -> State:
        """'starting', 'live', 'stalled', 'finished', 'stopped', 'failed' or 'unreadable'."""
        return self.summary.state

    @property
    def step(self) -> int:
        """How many iterations are done."""
        return self.summary.step or 0

    @property
    def best_val_loss(self) -> float | None:
        """The lowest validation loss so far; None before the first evaluation."""
        return self.summary.best

    def row(self) -> dict[str, Any]:
        """What `nanoscope.frame` shows of it: how it is doing, and its settings."""
        seen = self.summary
        return listing.run_json(seen, ()) | seen.settings

    def explain(self, *, lang: str | None = None) -> "Explanation":
        """What happened, as `nanoscope.explain` says it."""
        from nanoscope.api.explaining import explain

        return explain(self, lang=lang)

    def resume(self, **settings: Any) -> "Run":
        """Train on from the last checkpoint, for example with a larger `max_iters`."""
        return train(self, init_from="resume", **settings)

    def load(self, checkpoint: str = "best", *, device: str = "auto", dtype: str = "auto") -> "Model":
        """The model of a checkpoint: 'best', 'last' or a name such as 'step-000500'."""
        from nanoscope.api.models import load

        return load(self, checkpoint=checkpoint, device=device, dtype=dtype)

    def __repr__(self) -> str:
        seen = self.summary
        return f"<Run {self.folder}: {seen.state}, step {seen.step} of {seen.total}, best val loss {seen.best}>"
