"""Experiment trackers, Weights & Biases and TensorBoard: a sink with a queue and a thread for each.

Training never waits for a tracker before its end, and then not for long. One that fails is left out, with a warning.
"""

import importlib
import importlib.util
import os
import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue, SimpleQueue
from typing import Any

import msgspec

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, UsageError
from nanoscope.files import read_json, write_atomically
from nanoscope.interrupts import skip_exit_hooks
from nanoscope.messages import Message, Shown
from nanoscope.runs.events import COMPLETE, AnyEvent, End, Eval, Iter, Note, Rollback, Start
from nanoscope.training.reporter import Sink

CONNECT_SECONDS = 10
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


def requested(config: TrainConfig) -> list[type["Tracker"]]:
    """The trackers that the settings ask for. UsageError if the package of one is not installed."""
    kinds: list[type[Tracker]] = [kind for kind in (TensorBoard, Wandb) if getattr(config, kind.setting)]
    for kind in kinds:
        found = importlib.util.find_spec(kind.package)
        if found is None or found.origin is None:  # a folder ./wandb with earlier runs is not the package
            raise UsageError(
                "{setting}=True needs the package {package}: pip install {package}, or --{setting}=False",
                setting=kind.setting,
                package=kind.package,
            )
    return kinds


class Tracker(Sink):
    """Passes a run's events on to a thread, the oldest first; at the end it waits for the thread, but not for long."""

    setting: str
    """Turns it on."""
    package: str

    def __init__(self, folder: Path) -> None:
        self.folder, self._done = folder, False
        self._queue = Queue[AnyEvent | None](MOST_WAITING)
        self.notes = SimpleQueue[Note]()  # for the run to report: the thread doesn't do so itself
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def write(self, event: AnyEvent | None, lines: Sequence[Shown] = ()) -> None:
        with suppress(Full):  # it hangs: if it ever goes on, it has to do without the latest events
            self._queue.put_nowait(event)

    def advance(self, step: int) -> None:
        while not self.notes.empty():
            self.reporter.emit(self.notes.get())

    def close(self) -> None:
        self.write(None)
        self._thread.join(WAIT_SECONDS)
        if self._thread.is_alive():
            text = Message("{trackers} did not finish in time; events.jsonl has every number", trackers=self.package)
            self.notes.put(Note(text=text, level="warning"))
        self.advance(0)
        if not self._done:
            skip_exit_hooks()

    def _work(self) -> None:
        """Runs in the thread."""
        try:
            start = self._queue.get()
            if isinstance(start, Start):  # otherwise the run could not begin
                self.follow(start, iter(self._queue.get, None))
            self._done = True
        except (Exception, SystemExit) as error:
            text = Message(
                "{tracker} failed, training continues without it: {problem} Turn it off with: --{setting}=False",
                tracker=self.package,
                problem=" ".join(str(error).split())[:200].rstrip(".") + ".",
                setting=self.setting,
            )
            self.notes.put(Note(text=text, level="warning"))

    def follow(self, start: Start, events: Iterable[AnyEvent]) -> None:
        """Pass on the events, which come as they happen until the run has ended."""
        raise NotImplementedError


class Wandb(Tracker):
    """Weights & Biases. A resumed run is the same run there, which ignores the steps it has."""

    ADDRESS = "wandb: {address}"
    setting, package = "wandb_log", "wandb"

    def follow(self, start: Start, events: Iterable[AnyEvent]) -> None:
        wandb, exit_code = importlib.import_module("wandb"), 1
        facts = msgspec.structs.asdict(start).items()  # what it runs on
        settings = wandb.Settings(console="off", silent=True, init_timeout=CONNECT_SECONDS)
        wandb.setup(settings)  # so that it asks nobody to log in
        run = wandb.init(
            project=start.config.get("wandb_project") or os.environ.get("WANDB_PROJECT") or "nanoscope",
            name=start.config.get("wandb_run_name") or os.environ.get("WANDB_NAME") or start.run,
            id=wandb_id(self.folder),
            resume="allow",
            reinit="create_new",  # the program that called us may have a run of its own
            dir=str(self.folder),
            config={**start.config, **{name: fact for name, fact in facts if isinstance(fact, str | int)}},
            allow_val_change=True,
            settings=settings,
        )
        if run.url:
            self.notes.put(Note(text=Message(self.ADDRESS, address=run.url)))
        for event in events:
            match event:
                case Iter() | Eval():
                    run.log(scalars(event), step=event.step)
                case End():
                    exit_code = 0 if event.reason in COMPLETE else 1
        run.finish(exit_code=exit_code)
        if wandb.run is None:  # else the program that called us goes on with it
            wandb.teardown()


def wandb_id(folder: Path) -> str:
    """The id in wandb of the run in a folder, which keeps it in trackers.json."""
    file, known = folder / "trackers.json", ""
    with suppress(OSError, ValueError, LookupError, TypeError, JobError):
        known = str(read_json(file)["wandb"]["id"])
    chosen = os.environ.get("WANDB_RUN_ID") or known or secrets.token_hex(4)
    with suppress(OSError):  # at worst, a resumed run is another run there
        write_atomically(file, msgspec.json.encode({"wandb": {"id": chosen}}))
    return chosen


class TensorBoard(Tracker):
    """Event files in the folder tensorboard/, one for each session and each rollback."""

    setting, package = "tensorboard", "tensorboardX"

    def follow(self, start: Start, events: Iterable[AnyEvent]) -> None:
        package = importlib.import_module("tensorboardX")

        def writer_from(step: int) -> Any:
            """Hides what other files have of later steps. The evaluation at this one is not repeated."""
            place = str(self.folder / "tensorboard")
            return package.SummaryWriter(place, purge_step=step and step + 1, filename_suffix=f".{step}")

        writer = writer_from(start.first_step)
        for event in events:
            match event:
                case Rollback():
                    writer.close()
                    writer = writer_from(event.to)
                case Iter() | Eval():
                    for name, value in scalars(event).items():
                        writer.add_scalar(name, value, event.step)
            writer.flush()
        writer.close()


def scalars(event: Iter | Eval) -> dict[str, float]:
    """The numbers of an iteration or evaluation, by the names that trackers show. MFU is in percent there."""
    values = {name: getattr(event, field) for name, field in NUMBERS[type(event)].items()}
    if isinstance(event, Eval) and event.best:
        values["best_val_loss"] = event.val_loss
    return {name: 100 * value if name == "mfu" else value for name, value in values.items() if value is not None}
