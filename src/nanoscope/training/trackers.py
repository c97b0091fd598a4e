"""Experiment trackers, Weights & Biases and TensorBoard: a sink with a queue and a thread for each.

Training never waits for a tracker before its end, and then not for long. One that fails is left out, with a warning.
"""

import importlib
import importlib.util
import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Full, Queue, SimpleQueue
from typing import Any

import msgspec

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, UsageError
from nanoscope.files import read_json, write_atomically
from nanoscope.interrupts import skip_exit_hooks
from nanoscope.messages import Text
from nanoscope.runs.events import COMPLETE, AnyEvent, End, Eval, Iter, Note, Rollback, Start
from nanoscope.training.lock import LockLostError
from nanoscope.training.reporter import Sink
from nanoscope.training.run_folder import RunFolder

CONNECT_SECONDS = 10
QUIET_SECONDS = 2.0  # at the end of a run, before it says that it waits
WAIT_SECONDS = 30.0  # at the end of a run, for all of them
MOST_WAITING = 100_000  # events, for a tracker that hangs

NUMBERS = {
    Iter: {
        "train/batch_loss": "loss",
        "lr": "lr",
        "grad_norm": "grad_norm",
        "tokens_per_second": "tokens_per_second",
        "step_seconds": "seconds",
        "mfu": "mfu",
    },
    Eval: {
        "train/loss": "train_loss",
        "train/loss_stderr": "train_stderr",
        "val/loss": "val_loss",
        "val/loss_stderr": "val_stderr",
    },
}
"""The names that trackers show, nanoGPT's where it has one, and the fields of the event."""


def check_trackers(config: TrainConfig) -> None:
    """Refuse a tracker whose package is not installed, before anything starts."""
    for kind in wanted(config):
        found = importlib.util.find_spec(kind.package)
        if found is None or found.origin is None:  # a folder ./wandb with earlier runs is not the package
            raise UsageError(
                "{setting}=True needs the package {package}: pip install {package}, or --{setting}=False",
                setting=kind.setting,
                package=kind.package,
            )


def open_trackers(run: RunFolder, config: TrainConfig) -> list[Sink]:
    return [kind(run) for kind in wanted(config)]


def wanted(config: TrainConfig) -> list[type["Tracker"]]:
    """The trackers that the settings ask for."""
    return [kind for kind in (TensorBoard, Wandb) if getattr(config, kind.setting)]


class Tracker(Sink):
    """Passes a run's events on to a thread, the oldest first; at the end it waits for the thread, but not for long."""

    setting: str
    """Turns it on."""
    package: str

    def __init__(self, run: RunFolder) -> None:
        self.folder = run.path
        self.has_all = False
        self._queue = Queue[AnyEvent | None](MOST_WAITING)
        self._notes = SimpleQueue[Note]()  # for the run to report: the thread doesn't do so itself
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def write(self, event: AnyEvent | None, lines: Sequence[str] = ()) -> None:
        with suppress(Full):  # it hangs: if it ever goes on, it has to do without the latest events
            self._queue.put_nowait(event)

    def advance(self, step: int) -> None:
        while not self._notes.empty():
            self.reporter.emit(self._notes.get())

    def close(self) -> None:
        self.write(None)
        self._thread.join(QUIET_SECONDS)
        if self._thread.is_alive():
            text = Text(
                "waiting up to {seconds:g} s for {trackers} to finish", seconds=WAIT_SECONDS, trackers=self.package
            )
            self.reporter.emit(Note(text=text))
            self._thread.join(WAIT_SECONDS)
        if self._thread.is_alive():
            text = Text("{trackers} did not finish in time; events.jsonl has every number", trackers=self.package)
            self.reporter.emit(Note(text=text, level="warning"))
        self.advance(0)
        if not self.has_all:
            skip_exit_hooks()

    def _follow(self) -> None:
        """Runs in the thread."""
        try:
            start = self._queue.get()
            if isinstance(start, Start):  # otherwise the run could not begin
                self.open(start)
                while (event := self._queue.get()) is not None:
                    self.take(event)
                self.finish()
            self.has_all = True
        except (Exception, SystemExit) as error:
            text = Text(
                "{tracker} failed, training continues without it: {problem} Turn it off with: --{setting}=False",
                tracker=self.package,
                problem=" ".join(str(error).split())[:200].rstrip(".") + ".",
                setting=self.setting,
            )
            self._notes.put(Note(text=text, level="warning"))

    def open(self, start: Start) -> None: ...

    def take(self, event: AnyEvent) -> None: ...

    def finish(self) -> None: ...


class Wandb(Tracker):
    """Weights & Biases. A resumed run is the same run there, which ignores the steps it has."""

    ADDRESS = "wandb: {address}"
    setting, package = "wandb_log", "wandb"

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run)
        self._exit_code = 1
        path, known = run.path / "trackers.json", ""
        with suppress(OSError, ValueError, LookupError, TypeError, JobError):
            known = str(read_json(path)["wandb"]["id"])
        self.id = os.environ.get("WANDB_RUN_ID") or known or secrets.token_hex(4)
        with suppress(OSError, LockLostError):  # at worst, a resumed run is another run there
            write_atomically(path, msgspec.json.encode({"wandb": {"id": self.id}}))

    def open(self, start: Start) -> None:
        self._wandb = wandb = importlib.import_module("wandb")
        settings = wandb.Settings(console="off", silent=True, init_timeout=CONNECT_SECONDS)
        wandb.setup(settings)  # so that it asks nobody to log in
        self._run = wandb.init(
            project=start.config.get("wandb_project") or os.environ.get("WANDB_PROJECT") or "nanoscope",
            name=start.config.get("wandb_run_name") or os.environ.get("WANDB_NAME") or start.run,
            id=self.id,
            resume="allow",
            reinit="create_new",  # the program that called us may have a run of its own
            dir=str(self.folder),
            config=run_settings(start),
            allow_val_change=True,
            settings=settings,
        )
        if self._run.url:
            self._notes.put(Note(text=Text(self.ADDRESS, address=self._run.url)))

    def take(self, event: AnyEvent) -> None:
        match event:
            case Iter() | Eval():
                self._run.log(scalars(event), step=event.step)
            case End():
                self._exit_code = 0 if event.reason in COMPLETE else 1

    def finish(self) -> None:
        self._run.finish(exit_code=self._exit_code)
        if self._wandb.run is None:  # else the program that called us goes on with it
            self._wandb.teardown()


class TensorBoard(Tracker):
    """Event files in the folder tensorboard/, one for each session and each rollback."""

    setting, package = "tensorboard", "tensorboardX"

    def open(self, start: Start) -> None:
        self._package, self._settings = importlib.import_module("tensorboardX"), run_settings(start)
        self._continue_at(start.first_step)

    def _continue_at(self, step: int) -> None:
        """Hide what other files have of later steps. The evaluation at this one is not repeated."""
        self._writer = self._package.SummaryWriter(
            str(self.folder / "tensorboard"), purge_step=step and step + 1, filename_suffix=f".{step}"
        )

    def take(self, event: AnyEvent) -> None:
        match event:
            case Rollback():
                self._writer.close()
                self._continue_at(event.to)
            case Iter() | Eval():
                for name, value in scalars(event).items():
                    self._writer.add_scalar(name, value, event.step)
            case End(best_val_loss=float(best)):  # the settings and what they reached, for the table of hyperparameters
                for summary in self._package.summary.hparams(self._settings, {"best_val_loss": best}):
                    self._writer.file_writer.add_summary(summary)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


def scalars(event: Iter | Eval) -> dict[str, float]:
    """The numbers of an iteration or evaluation, by the names that trackers show. MFU is in percent there."""
    values = {name: getattr(event, field) for name, field in NUMBERS[type(event)].items()}
    if isinstance(event, Eval) and event.best:
        values["best_val_loss"] = event.val_loss
    return {name: 100 * value if name == "mfu" else value for name, value in values.items() if value is not None}


def run_settings(start: Start) -> dict[str, Any]:
    """The configuration of a run, and what it runs on."""
    facts = msgspec.structs.asdict(start).items()
    return {**start.config, **{name: fact for name, fact in facts if isinstance(fact, str | int)}}
