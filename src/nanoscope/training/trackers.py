"""Experiment trackers, Weights & Biases and TensorBoard: a sink with a queue and a thread for each.

Training never waits for a tracker before its end, and then not for long. One that fails is left out, with a warning.
A resumed run gives a tracker what it hasn't got from events.jsonl.
"""

import importlib
import importlib.util
import os
import secrets
import shlex
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from queue import Full, Queue, SimpleQueue
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, UsageError
from nanoscope.files import read_json, write_atomically
from nanoscope.interrupts import skip_exit_hooks
from nanoscope.messages import Text
from nanoscope.runs.events import COMPLETE, AnyEvent, End, Eval, Iter, Note, Rollback, Start, decode
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
        self.run, self.folder = run, run.path
        self.unread = 0, run.events.stat().st_size if run.events.exists() else 0
        """The part of events.jsonl, in bytes, that earlier sessions wrote and the tracker has not got."""
        self.has_all = False
        self._queue = Queue[AnyEvent | None](MOST_WAITING)
        self.notes = SimpleQueue[Note]()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def write(self, event: AnyEvent | None, lines: Sequence[str] = ()) -> None:
        with suppress(Full):  # it hangs: if it ever goes on, it has to do without the latest events
            self._queue.put_nowait(event)

    def advance(self, step: int) -> None:
        while not self.notes.empty():
            self.reporter.emit(self.notes.get())

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
            self.notes.put(Note(text=text, level="warning"))
        self.advance(0)
        if not self.has_all:
            skip_exit_hooks()

    def _follow(self) -> None:
        """Runs in the thread."""
        try:
            event = self._queue.get()
            if not isinstance(event, Start):
                return  # the run could not begin
            self.open(event)
            first, end = self.unread
            for line in (self.folder / "events.jsonl").read_bytes()[first:end].splitlines() if end else []:
                if (earlier := decode(line)) is not None:
                    self.take(earlier)
            while event is not None:
                self.take(event)
                event = self._queue.get()
            self.finish()
            self.has_all = True
        except (Exception, SystemExit) as error:
            text = Text(
                "{tracker} failed, training continues without it: {problem} Turn it off with: --{setting}=False",
                tracker=self.package,
                problem=_brief(error),
                setting=self.setting,
            )
            self.notes.put(Note(text=text, level="warning"))

    def open(self, start: Start) -> None: ...

    def take(self, event: AnyEvent) -> None: ...

    def finish(self) -> None: ...


class Wandb(Tracker):
    """Weights & Biases. A resumed run is the same run there; without a login or network it is logged offline."""

    ADDRESS = "wandb: {address}"
    setting, package = "wandb_log", "wandb"

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run)
        self._exit_code = 1
        self._saved = Saved()
        with suppress(OSError, ValueError, LookupError, TypeError, JobError):
            self._saved = msgspec.convert(read_json(run.path / "trackers.json")["wandb"], Saved)
        if self._saved.read <= self.unread[1]:  # otherwise somebody has deleted events.jsonl
            self.unread = self._saved.read, self.unread[1]
        self._saved.id = os.environ.get("WANDB_RUN_ID") or self._saved.id or secrets.token_hex(4)
        self._save()

    def close(self) -> None:
        super().close()
        self._save()

    def _save(self) -> None:
        with suppress(OSError, LockLostError):  # at worst, a resumed run gives it everything again
            if self.has_all:
                self._saved.read = self.run.events.stat().st_size
            write_atomically(self.run.path / "trackers.json", msgspec.json.encode({"wandb": self._saved}))

    def open(self, start: Start) -> None:
        self._wandb = importlib.import_module("wandb")
        try:
            self._run = self._init(start)
        except Exception as error:
            self._wandb.teardown()  # otherwise the id counts as in use
            self._run = self._init(start, mode="offline")
            place = shlex.quote(os.path.relpath(self._run.settings.sync_dir))
            text = Text(
                "wandb logs offline: {problem} Upload later with: {command}",
                problem=_brief(error),
                command=f"wandb login && wandb sync {place}",
            )
            self.notes.put(Note(text=text, level="warning"))
        else:
            if self._run.url:
                self.notes.put(Note(text=Text(self.ADDRESS, address=self._run.url)))
        self._run.define_metric("iter")
        self._run.define_metric("*", step_metric="iter")

    def _init(self, start: Start, **options: Any) -> Any:
        settings = self._wandb.Settings(console="off", silent=True, init_timeout=CONNECT_SECONDS)
        self._wandb.setup(settings)  # so that it asks nobody to log in
        return self._wandb.init(
            project=start.config.get("wandb_project") or os.environ.get("WANDB_PROJECT") or "nanoscope",
            name=start.config.get("wandb_run_name") or os.environ.get("WANDB_NAME") or start.run,
            id=self._saved.id,
            resume="allow",
            reinit="create_new",  # the program that called us may have a run of its own
            dir=str(self.folder),
            config=run_settings(start),
            allow_val_change=True,
            settings=settings,
            **options,
        )

    def take(self, event: AnyEvent) -> None:
        match event:
            case Iter() | Eval():
                self._run.log({"iter": event.step, **scalars(event), "_timestamp": seconds_since_1970(event)})
                if isinstance(event, Eval) and event.best:
                    self._run.summary.update({"best_val_loss": event.val_loss, "best_step": event.step})
            case End():
                self._exit_code = 0 if event.reason in COMPLETE else 1

    def finish(self) -> None:
        self._run.finish(exit_code=self._exit_code)
        if self._wandb.run is None:  # else the program that called us goes on with it
            self._wandb.teardown()


class Saved(msgspec.Struct):
    """What trackers.json keeps of wandb."""

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{0,128}$")] = ""
    read: Annotated[int, Meta(ge=0)] = 0


class TensorBoard(Tracker):
    """An event file in the folder tensorboard/. A resumed run writes all of it again."""

    setting, package = "tensorboard", "tensorboardX"

    def open(self, start: Start) -> None:
        self._settings = run_settings(start)
        self._tensorboardx = importlib.import_module("tensorboardX")
        self._protocol = importlib.import_module("tensorboardX.proto.event_pb2")
        files = importlib.import_module("tensorboardX.event_file_writer")  # its writer is not one more thread
        folder = self.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._file = files.EventsWriter(str(folder / "events"))
        self._evaluations: dict[int, Eval] = {}

    def take(self, event: AnyEvent) -> None:
        match event:
            case Start(first_step=step) | Rollback(to=step) if step:
                log = self._protocol.SessionLog(status=self._protocol.SessionLog.START)
                self._write(event, step=step, session_log=log)  # hides what the file has of this step and later ones
                if step in self._evaluations:
                    self.take(self._evaluations[step])
            case Iter() | Eval():
                self._add(event, scalars(event))
                if isinstance(event, Eval):
                    self._evaluations[event.step] = event
            case End():  # the settings and what they reached, for the table of hyperparameters
                reached = {} if event.best_val_loss is None else {"best_val_loss": event.best_val_loss}
                self._add(event, reached)
                for summary in self._tensorboardx.summary.hparams(self._settings, reached):
                    self._write(event, summary=summary)

    def finish(self) -> None:
        self._file.close()

    def _add(self, event: Iter | Eval | End, values: dict[str, float]) -> None:
        summary = self._tensorboardx.proto.summary_pb2.Summary
        numbers = [summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(event, step=event.step, summary=summary(value=numbers))

    def _write(self, event: AnyEvent, **fields: Any) -> None:
        self._file.write_event(self._protocol.Event(wall_time=seconds_since_1970(event), **fields))
        self._file.flush()


def scalars(event: Iter | Eval) -> dict[str, float]:
    """The numbers of an iteration or evaluation, by the names that trackers show. MFU is in percent there."""
    values = {name: getattr(event, field) for name, field in NUMBERS[type(event)].items()}
    return {name: 100 * value if name == "mfu" else value for name, value in values.items() if value is not None}


def run_settings(start: Start) -> dict[str, Any]:
    """The configuration of a run, and what it runs on."""
    facts = msgspec.structs.asdict(start).items()
    return {**start.config, **{name: fact for name, fact in facts if isinstance(fact, str | int)}}


def seconds_since_1970(event: AnyEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp() if event.time else time.time()


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") + "."
