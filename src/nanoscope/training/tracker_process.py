"""The process of a run's trackers: `python -m nanoscope.training.tracker_process FOLDER wandb tensorboard`.

It reads the start event from standard input, then follows events.jsonl until standard input ends: the run is over,
however it ended. trackers.json keeps how far each tracker has read, so that a resumed run continues there, and a
tracker that is turned on later gets the whole history. Imports no torch.
"""

import importlib
import json
import os
import re
import secrets
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from nanoscope.errors import JobError
from nanoscope.files import identity, write_atomically
from nanoscope.messages import Text
from nanoscope.runs.events import COMPLETE, AnyEvent, End, Eval, Iter, Rollback, Start, decode
from nanoscope.training.stopping import SIGNALS
from nanoscope.untrusted import printable, read_json

POLL_SECONDS = 1.0
CONNECT_SECONDS = 10
PREDECESSOR_SECONDS = 60
FINISH_SECONDS = 600  # after the end of the run
START_FACTS = (
    "nanoscope", "torch", "device", "device_name", "dtype", "compiled", "processes", "parameters", "tokens_per_step",
    "tokenizer", "vocab_size", "train_tokens", "val_tokens",
)  # fmt: skip
"""Fields of the start event that trackers show beside the settings."""


class Say(Protocol):
    def __call__(self, text: Text, level: str = "warning") -> None: ...


def main(folder: Path, names: list[str]) -> None:
    for number in SIGNALS:  # the run handles them, and tells us when it is over
        signal.signal(number, signal.SIG_IGN)
    with suppress(AttributeError, OSError):
        os.nice(5)
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # trackers print there

    def say(text: Text, level: str = "warning") -> None:
        values = {name: " ".join(printable(str(value)).split()) for name, value in text.values.items()}
        with suppress(OSError):
            print(json.dumps([level, text.template, values]), file=messages)

    start = decode(sys.stdin.readline())
    assert isinstance(start, Start)
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=[over], daemon=True).start()
    Follower(folder, start, say).follow(names, over)


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


class Follower:
    """Passes the events of a run on to its trackers. A tracker that fails is left out from then on."""

    def __init__(self, folder: Path, start: Start, say: Say) -> None:
        self._folder, self._start, self._say = folder, start, say
        self._state: dict[str, dict[str, Any]] = {}
        self._written = ""
        self._trackers: list[Tracker] = []

    def follow(self, names: list[str], over: threading.Event) -> None:
        """Until the run is `over`. If its last session was killed, that one's trackers get what is theirs first."""
        lock = FileLock(self._folder / ".trackers.lock")
        with suppress(Timeout, OSError, NotImplementedError):
            lock.acquire(timeout=PREDECESSOR_SECONDS)
        self._state = _read_state(self._folder)
        place = identity(self._folder)
        for name in names:
            self._try(name, self._open, name)
        last = False
        while self._trackers and not last:
            if identity(self._folder) != place:  # another run may be there now
                left_out = ", ".join(tracker.name for tracker in self._trackers)
                self._say(
                    Text("the run's folder was moved: {trackers} gets the rest when it is resumed", trackers=left_out)
                )
                break
            last = over.is_set()  # checked first: all that was written before the end is read
            for position, event in events_after(self._folder, min(tracker.read for tracker in self._trackers)):
                for tracker in [tracker for tracker in self._trackers if tracker.read < position]:
                    self._try(tracker.name, tracker.write, event)
                    tracker.read = position
            self._write_state()
            over.wait(0 if last else POLL_SECONDS)
        lock.release()
        limit = threading.Timer(FINISH_SECONDS, os._exit, [1])
        limit.daemon = True
        limit.start()
        for tracker in list(self._trackers):
            self._try(tracker.name, tracker.close)

    def _open(self, name: str) -> None:
        kind, state = TRACKERS[name], self._state.setdefault(name, {})
        self._trackers.append(kind(self._folder, self._start, state, self._say))

    def _try(self, name: str, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:
            text = Text(
                "{tracker} failed, training continues without it: {problem} {way_out}",
                tracker=name, problem=_brief(error), way_out=TRACKERS[name].way_out,
            )  # fmt: skip
            self._say(text)
            self._trackers = [tracker for tracker in self._trackers if tracker.name != name]

    def _write_state(self) -> None:
        text = json.dumps(self._state, indent=1) + "\n"
        if text != self._written:
            with suppress(OSError):  # a full disk: the next poll tries again
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

    name: str
    way_out: Text

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Say) -> None:
        self.folder, self.state = folder, state
        if self.read > (folder / "events.jsonl").stat().st_size:  # somebody has deleted it since
            self.read = 0

    @property
    def read(self) -> int:
        """The position in events.jsonl up to which this tracker has got the events."""
        read = self.state.get("read")
        return read if isinstance(read, int) and read > 0 else 0

    @read.setter
    def read(self, position: int) -> None:
        self.state["read"] = position

    def write(self, event: AnyEvent) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Wandb(Tracker):
    """Weights & Biases. A resumed run is the same run there; without a login or network it is logged offline."""

    name = "wandb"
    ADDRESS = "wandb: {address}"
    way_out = Text("Log in with: wandb login, or set WANDB_MODE=offline")

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Say) -> None:
        super().__init__(folder, start, state, say)
        wandb = importlib.import_module("wandb")
        kept = state.get("id")
        if not (isinstance(kept, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,128}", kept)):
            kept = secrets.token_hex(4)
        state["id"] = os.environ.get("WANDB_RUN_ID") or kept
        options = {
            "project": start.config.get("wandb_project") or os.environ.get("WANDB_PROJECT") or "nanoscope",
            "name": start.config.get("wandb_run_name") or os.environ.get("WANDB_NAME") or start.run,
            "id": state["id"], "resume": "allow", "dir": str(folder), "config": run_settings(start),
            "allow_val_change": True,
            "settings": wandb.Settings(
                console="off", silent=True, init_timeout=CONNECT_SECONDS, x_stats_pid=os.getppid()
            ),
        }  # fmt: skip
        try:
            self._run = wandb.init(**options)
        except Exception as error:
            wandb.teardown()  # otherwise the id counts as in use
            self._run = wandb.init(**options, mode="offline")
            place = shlex.quote(str(folder / "wandb" / Path(self._run.settings.sync_dir).name))
            command = f"wandb login && wandb sync {place}"
            problem = _brief(error)
            text = Text("wandb logs offline: {problem} Upload later with: {command}", problem=problem, command=command)
            say(text)
        else:
            if self._run.url:
                say(Text(self.ADDRESS, address=self._run.url), "note")
        self._run.define_metric("iter")
        self._run.define_metric("*", step_metric="iter")
        self._exit_code = 1

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

    def close(self) -> None:
        self._run.finish(exit_code=self._exit_code)


class TensorBoard(Tracker):
    """Event files in the folder tensorboard/."""

    name = "tensorboard"
    way_out = Text("Turn it off with: --tensorboard=False")

    def __init__(self, folder: Path, start: Start, state: dict[str, Any], say: Say) -> None:
        super().__init__(folder, start, state, say)
        self._tensorboardx = importlib.import_module("tensorboardX")
        self._start = start
        self._writer: Any = None
        self._files = 0

    def write(self, event: AnyEvent) -> None:
        match event:
            case Start():
                self._open(event.first_step)
            case Rollback():
                self._open(event.to)
            case End():
                self._describe(event)
            case Iter() | Eval():
                self._add(event)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, step: int) -> None:
        """Begin a file. It replaces what earlier ones have about this step and later ones, except its evaluation."""
        self.close()
        self._files += 1
        self._writer = self._tensorboardx.SummaryWriter(
            str(self.folder / "tensorboard"), purge_step=step or None, flush_secs=5,
            filename_suffix=f".{os.getpid()}-{self._files}",
        )  # fmt: skip
        known = (event for position, event in events_after(self.folder, 0) if position <= self.read)
        for evaluation in [event for event in known if step and isinstance(event, Eval) and event.step == step][-1:]:
            self._add(evaluation)

    def _add(self, event: Iter | Eval) -> None:
        if self._writer is None:
            self._open(0)
        for name, value in scalars(event).items():
            self._writer.add_scalar(name, value, event.step, walltime=seconds_since_1970(event))

    def _describe(self, end: End) -> None:
        """The settings and what they reached, for the table of hyperparameters."""
        if self._writer is None:
            return
        reached = {} if end.best_val_loss is None else {"best_val_loss": end.best_val_loss}
        for name, value in reached.items():
            self._writer.add_scalar(name, value, end.step)
        for summary in self._tensorboardx.summary.hparams(run_settings(self._start), reached):
            self._writer.file_writer.add_summary(summary)


def scalars(event: AnyEvent) -> dict[str, float]:
    """The numbers of an iteration or evaluation, by the names that trackers show: nanoGPT's where it has one."""
    values: dict[str, float | None] = {}
    if isinstance(event, Iter):
        values = {
            "train/batch_loss": event.loss, "lr": event.lr, "grad_norm": event.grad_norm,
            "tokens_per_second": event.tokens_per_second, "step_seconds": event.seconds,
            "mfu": None if event.mfu is None else 100 * event.mfu,
        }  # fmt: skip
    elif isinstance(event, Eval):
        values = {
            "train/loss": event.train_loss, "train/loss_stderr": event.train_stderr,
            "val/loss": event.val_loss, "val/loss_stderr": event.val_stderr,
        }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def run_settings(start: Start) -> dict[str, Any]:
    """The configuration of a run, and what it runs on."""
    facts = {name: getattr(start, name) for name in START_FACTS}
    return {**start.config, **{name: value for name, value in facts.items() if value is not None}}


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") + "."


def seconds_since_1970(event: AnyEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp() if event.time else time.time()


TRACKERS: dict[str, type[Tracker]] = {kind.name: kind for kind in (TensorBoard, Wandb)}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
