"""Experiment trackers, Weights & Biases and TensorBoard: each follows events.jsonl in a thread of its own.

The file is the queue. Training never waits for a tracker, and a resumed run gives it what it has not got yet:
trackers.json keeps how far each has read. A tracker that fails is left out, with a warning.
"""

import importlib
import importlib.util
import json
import os
import re
import secrets
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, UsageError
from nanoscope.files import identity, read_json, write_atomically
from nanoscope.interrupts import skip_exit_hooks
from nanoscope.messages import Joined, Text
from nanoscope.runs.events import COMPLETE, AnyEvent, End, Eval, Iter, Note, Rollback, Start, decode
from nanoscope.training.lock import LockLostError
from nanoscope.training.reporter import Sink
from nanoscope.training.run_folder import RunFolder

POLL_SECONDS = 2.0
CONNECT_SECONDS = 10
SAFE_SECONDS = 30.0  # within which wandb's process has written what it got; it wrote every 15 s
QUIET_SECONDS = 2.0  # at the end of a run, before it says that it waits
WAIT_SECONDS = 30.0  # at the end of a run, for all of them

START_FACTS = [
    "nanoscope",
    "torch",
    "device",
    "device_name",
    "dtype",
    "compiled",
    "processes",
    "parameters",
    "tokens_per_step",
    "tokenizer",
    "vocab_size",
    "train_tokens",
    "val_tokens",
]
"""Fields of the start event that trackers show beside the settings."""
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
    for kind in wanted(config).values():
        found = importlib.util.find_spec(kind.package)
        if found is None or found.origin is None:  # a folder ./wandb with earlier runs is not the package
            raise UsageError(
                "{setting}=True needs the package {package}: pip install {package}, or --{setting}=False",
                setting=kind.setting,
                package=kind.package,
            )


def open_trackers(folder: RunFolder, config: TrainConfig) -> list[Sink]:
    """The trackers that the settings ask for."""
    return [Trackers(folder, wanted(config))] if wanted(config) else []


def wanted(config: TrainConfig) -> dict[str, type["Tracker"]]:
    return {name: kind for name, kind in TRACKERS.items() if getattr(config, kind.setting)}


class Trackers(Sink):
    """Starts the threads, reports what they say, and waits for them at the end, but not for long."""

    def __init__(self, run: RunFolder, kinds: dict[str, type["Tracker"]]) -> None:
        self._run, self._kinds = run, kinds
        self._folder, self._identity = run.given, identity(run.given)
        self._threads: dict[str, threading.Thread] = {}
        self._closed: set[str] = set()
        self._over = threading.Event()
        self._notes: SimpleQueue[Note] = SimpleQueue()
        self._state: dict[str, dict[str, Any]] = {name: {} for name in kinds} | _read_state(self._folder)
        self._state_lock, self._written = threading.Lock(), ""

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        if isinstance(event, Start) and not self._threads:
            for name in self._kinds:
                self._threads[name] = threading.Thread(target=self._follow, args=(name, event), daemon=True)
                self._threads[name].start()

    def advance(self, step: int) -> None:
        self._look()
        while not self._notes.empty():
            self.reporter.emit(self._notes.get())

    def close(self) -> None:
        self._over.set()
        try:
            if busy := self._wait(QUIET_SECONDS):
                waiting = Text(
                    "waiting up to {seconds:g} s for {trackers} to finish", seconds=WAIT_SECONDS, trackers=busy
                )
                self._notes.put(Note(text=waiting))
                self.advance(0)
                if busy := self._wait(WAIT_SECONDS - QUIET_SECONDS):
                    late = Text("{trackers} did not finish in time; events.jsonl has every number", trackers=busy)
                    self._notes.put(Note(text=late, level="warning"))
            self.advance(0)
        finally:
            if self._threads.keys() - self._closed:
                skip_exit_hooks()

    def _look(self) -> None:
        """Where the run's folder is now, for the threads: only the thread that trains may ask the lock."""
        with suppress(LockLostError, OSError):  # whoever writes a checkpoint next says so
            self._folder = self._run.path
            self._identity = identity(self._folder)

    def _moved(self) -> bool:
        """Whether the folder was renamed since: another run may have its place by now."""
        return identity(self._folder) != self._identity

    def _wait(self, seconds: float) -> Text | None:
        """Returns the trackers that have not ended by then."""
        until = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        busy = [name for name, thread in self._threads.items() if thread.is_alive()]
        return Joined(", ", busy) if busy else None

    def _follow(self, name: str, start: Start) -> None:
        """Give a tracker all events until the run is over."""
        kind = self._kinds[name]
        try:
            tracker = kind(self._folder, start, self._state[name], self._notes.put)
            last = False
            while not last:
                last = self._over.is_set()  # checked first: all that was written before the end is read
                tracker.folder = self._folder
                for position, event in () if self._moved() else events_after(tracker.folder, tracker.given):
                    tracker.write(event)
                    tracker.given = position
                tracker.flush()
                self._write_state()
                self._over.wait(POLL_SECONDS)
            tracker.close()
            tracker.state["read"] = tracker.given
            self._write_state()
            self._closed.add(name)
        except (Exception, SystemExit) as error:
            text = Text(
                "{tracker} failed, training continues without it: {problem} {way_out}",
                tracker=name,
                problem=_brief(error),
                way_out=kind.way_out,
            )
            self._notes.put(Note(text=text, level="warning"))

    def _write_state(self) -> None:
        with self._state_lock, suppress(OSError):  # a full disk: the next poll tries again
            state = {name: dict(kept) for name, kept in self._state.items()}  # others write there meanwhile
            text = json.dumps(state, indent=1) + "\n"
            if text != self._written and not self._moved():
                write_atomically(self._folder / "trackers.json", text)
                self._written = text


def events_after(folder: Path, position: int) -> Iterator[tuple[int, AnyEvent]]:
    """The events of a run from a position in the file on, each with the position after it."""
    with suppress(FileNotFoundError), (folder / "events.jsonl").open("rb") as file:
        file.seek(position)
        for line in file:
            if not line.endswith(b"\n"):
                return  # it is still being written
            position += len(line)
            if (event := decode(line)) is not None:
                yield position, event


def _read_state(folder: Path) -> dict[str, dict[str, Any]]:
    with suppress(OSError, ValueError, JobError):
        found = read_json(folder / "trackers.json")
        if isinstance(found, dict):
            return {name: kept for name, kept in found.items() if isinstance(kept, dict)}
    return {}


class Tracker:
    """Gets a run's events, the oldest first. `state` is kept in trackers.json."""

    setting: str
    """Turns it on."""
    package: str
    way_out: Text
    """What to do if it fails."""

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Callable[[Note], None]) -> None:
        self.folder, self.start, self.state = folder, start, state
        read = state.get("read")
        size = (folder / "events.jsonl").stat().st_size  # smaller if somebody has deleted it since
        self.given = read if isinstance(read, int) and 0 < read <= size else 0
        """The position in events.jsonl up to which it has got the events."""

    def write(self, event: AnyEvent) -> None: ...

    def flush(self) -> None:
        """Keep as `read` in the state what it has and would still have after a kill of this process."""

    def close(self) -> None: ...


class Wandb(Tracker):
    """Weights & Biases. A resumed run is the same run there; without a login or network it is logged offline."""

    ADDRESS = "wandb: {address}"
    setting, package = "wandb_log", "wandb"
    way_out = Text("Log in with: wandb login, or set WANDB_MODE=offline")

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Callable[[Note], None]) -> None:
        super().__init__(folder, start, state, say)
        kept = state.get("id")
        if not (isinstance(kept, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,128}", kept)):
            kept = secrets.token_hex(4)
        state["id"] = os.environ.get("WANDB_RUN_ID") or kept
        self._wandb = importlib.import_module("wandb")
        self._exit_code = 1
        self._unsafe: deque[tuple[float, int]] = deque()  # what it got when; its file may not have it yet
        try:
            self._run = self._open()
        except Exception as error:
            self._wandb.teardown()  # otherwise the id counts as in use
            self._run = self._open(mode="offline")
            place = shlex.quote(str(folder / "wandb" / Path(self._run.settings.sync_dir).name))
            text = Text(
                "wandb logs offline: {problem} Upload later with: {command}",
                problem=_brief(error),
                command=f"wandb login && wandb sync {place}",
            )
            say(Note(text=text, level="warning"))
        else:
            if self._run.url:
                say(Note(text=Text(self.ADDRESS, address=self._run.url)))
        self._run.define_metric("iter")
        self._run.define_metric("*", step_metric="iter")

    def _open(self, **options: Any) -> Any:
        wandb, config = self._wandb, self.start.config
        settings = wandb.Settings(console="off", silent=True, init_timeout=CONNECT_SECONDS)
        if wandb.run is None:
            wandb.setup(settings)  # so that it asks nobody to log in
        else:  # of the program that called us
            options["reinit"] = "create_new"
        return wandb.init(
            project=config.get("wandb_project") or os.environ.get("WANDB_PROJECT") or "nanoscope",
            name=config.get("wandb_run_name") or os.environ.get("WANDB_NAME") or self.start.run,
            id=self.state["id"],
            resume="allow",
            dir=str(self.folder),
            config=run_settings(self.start),
            allow_val_change=True,
            settings=settings,
            **options,
        )

    def write(self, event: AnyEvent) -> None:
        match event:
            case Iter() | Eval():
                self._run.log({"iter": event.step, **scalars(event), "_timestamp": seconds_since_1970(event)})
            case Start():
                self._exit_code = 1
            case End():
                self._exit_code = 0 if event.reason in COMPLETE else 1
        if (isinstance(event, Eval) and event.best) or isinstance(event, End):
            best = (event.val_loss, event.step) if isinstance(event, Eval) else (event.best_val_loss, event.best_step)
            self._run.summary.update({"best_val_loss": best[0], "best_step": best[1]})

    def flush(self) -> None:
        self._unsafe.append((time.monotonic(), self.given))
        while time.monotonic() - self._unsafe[0][0] > SAFE_SECONDS:
            self.state["read"] = self._unsafe.popleft()[1]

    def close(self) -> None:
        self._run.finish(exit_code=self._exit_code)
        if self._wandb.run is None:
            self._wandb.teardown()


class TensorBoard(Tracker):
    """Event files in the folder tensorboard/."""

    setting, package = "tensorboard", "tensorboardX"
    way_out = Text("Turn it off with: --tensorboard=False")

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Callable[[Note], None]) -> None:
        super().__init__(folder, start, state, say)
        self._tensorboardx = importlib.import_module("tensorboardX")
        self._files = importlib.import_module("tensorboardX.event_file_writer")  # its writer is not one more thread
        self._protocol = importlib.import_module("tensorboardX.proto.event_pb2")
        self._writer: Any = None
        self._opened = 0

    def write(self, event: AnyEvent) -> None:
        match event:
            case Start():
                self._open(event.first_step)
            case Rollback():
                self._open(event.to)
            case Iter() | Eval():
                self._add(event.step, scalars(event), seconds_since_1970(event))
            case End():
                self._describe(event)

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()
        self.state["read"] = self.given

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, step: int) -> None:
        """Begin a file. It replaces what earlier ones have about this step and later ones, except its evaluation."""
        self.close()
        self._opened += 1
        (self.folder / "tensorboard").mkdir(exist_ok=True)
        prefix = str(self.folder / "tensorboard/events")
        self._writer = self._files.EventsWriter(prefix, f".{os.getpid()}-{self._opened}")
        if step:
            log = self._protocol.SessionLog(status=self._protocol.SessionLog.START)
            self._write(step=step, session_log=log)
        known = (event for position, event in events_after(self.folder, 0) if position <= self.given)
        for evaluation in [event for event in known if step and isinstance(event, Eval) and event.step == step][-1:]:
            self.write(evaluation)

    def _add(self, step: int, values: dict[str, float], seconds: float) -> None:
        if self._writer is None:
            self._open(0)
        summary = self._tensorboardx.proto.summary_pb2.Summary
        numbers = [summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, wall_time=seconds, summary=summary(value=numbers))

    def _describe(self, end: End) -> None:
        """The settings and what they reached, for the table of hyperparameters."""
        reached = {} if end.best_val_loss is None else {"best_val_loss": end.best_val_loss}
        self._add(end.step, reached, seconds_since_1970(end))
        for summary in self._tensorboardx.summary.hparams(run_settings(self.start), reached):
            self._write(summary=summary)

    def _write(self, **fields: Any) -> None:
        self._writer.write_event(self._protocol.Event(**{"wall_time": time.time(), **fields}))


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": Wandb}


def scalars(event: Iter | Eval) -> dict[str, float]:
    """The numbers of an iteration or evaluation, by the names that trackers show. MFU is in percent there."""
    values = {name: getattr(event, field) for name, field in NUMBERS[type(event)].items()}
    return {name: 100 * value if name == "mfu" else value for name, value in values.items() if value is not None}


def run_settings(start: Start) -> dict[str, Any]:
    """The configuration of a run, and what it runs on."""
    facts = {name: getattr(start, name) for name in START_FACTS}
    return {**start.config, **{name: value for name, value in facts.items() if value is not None}}


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") + "."


def seconds_since_1970(event: AnyEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp() if event.time else time.time()
