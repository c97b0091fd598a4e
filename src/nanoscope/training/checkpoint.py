"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all, written while training goes on.

checkpoints/step-000500/{model.safetensors, optimizer.safetensors, tokenizer.json, state.json}, and the small files
`last` and `best` that hold the name of one of these folders. No pickle is written. restore.py reads them.

Whenever the process ends, a whole checkpoint is found: a new one is written aside, synced, read back and renamed, and
only then are others removed. Names with a dot are what such an end may leave behind; the next save clears them away.
"""

import errno
import hashlib
import json
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanoscope.data.tokenizer import Tokenizer
from nanoscope.model import LanguageModel
from nanoscope.training.run_folder import checkpoint_folders, read_pointer
from nanoscope.training.tensor_file import TensorFile

STATE_VERSION = 1


@dataclass
class Progress:
    """How far a run has come: all that its next iteration depends on besides the weights and the optimizer."""

    step: int = 0
    """Iterations done; the number of the next one."""
    sequences: int = 0
    """Sequences read from the training split: the loader's position."""
    best_val_loss: float | None = None
    best_step: int | None = None
    evaluated_at: int | None = None
    evaluations_since_best: int = 0
    micro_batch: int = 0
    """Sequences at once, if memory did not suffice for batch_size; 0: it does."""
    rollbacks: int = 0
    lr_factor: float = 1.0
    """What rollbacks have left of the learning rates."""
    skipped: list[int] = field(default_factory=list)
    """Iterations whose batches made the loss not finite, and are left out."""


@dataclass
class Snapshot:
    """What a checkpoint will hold. The tensors are training's own: they are copied by the writer (`copied`)."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    tokenizer: Tokenizer | None


@dataclass(frozen=True)
class News:
    """A checkpoint could not be saved, or at last could."""

    step: int
    saved: bool
    message: str


class CheckpointWriter:
    """Saves checkpoints of one run, one at a time, in a thread while training goes on; prunes old ones.

    What cannot be saved (a full disk, a folder that is gone) is tried again from its copy, until there is a newer one.

    An iteration changes weights and optimizer state only at its end. So the thread copies them while the forward and
    backward passes of the next iteration read them, and then writes the copy. The rule: `copied` is called before
    anything changes the model or the optimizer in place.
    """

    # While training goes on, the writer rests so many times as long as it works, after each chunk: a core taken away
    # for longer, or more often, shows in the iterations (benchmarks/LOG.md).
    REST = 32
    CHUNK_BYTES = 1 << 18
    RETRY_SECONDS = 30.0

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        self._files = {"model.safetensors": TensorFile(), "optimizer.safetensors": TensorFile()}
        self._tokenizer_json: bytes | None = None
        self._thread: threading.Thread | None = None
        self._copied, self._hurry = threading.Event(), threading.Event()
        self._copied.set()
        self._last_save = time.monotonic()
        self._rest_seconds = self._rest_seconds_per_byte = 0.0
        self._superseded = self._pausing = False
        self._news: deque[News] = deque()
        with suppress(OSError):
            self._tidy()  # what a killed process left: there may be no other save

    def save(self, snapshot: Snapshot, *, best: bool) -> Path:
        """Begin to save in the background; returns where. The one before is waited for, unless it failed so far."""
        self._superseded = True
        self.wait()
        self._superseded = False
        target = self.folder / f"step-{snapshot.state['progress']['step']:06d}"
        now = time.monotonic()
        self._rest_seconds, self._last_save = (now - self._last_save) / 2, now  # done well before the next save
        self._copied.clear()
        self._hurry.clear()
        self._thread = threading.Thread(target=self._work, args=(snapshot, target, best), name="checkpoint")
        try:
            self._thread.start()
        except RuntimeError:  # no memory for a thread: then training waits
            self._thread = None
            self._hurry.set()
            self._work(snapshot, target, best)
        if any(tensor.device.type != "cpu" for tensor in snapshot.model.values()):
            self.copied()  # a device copies faster than the next iteration could be held up
        return target

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written right now."""
        return self._thread is not None and self._thread.is_alive() and not self._pausing

    def copied(self) -> None:
        """Wait until the state that is being saved may be changed: usually it may long since."""
        self._copied.wait()

    def wait(self) -> None:
        """Wait until what was begun is on disk, or has failed once more; the writer no longer takes its time."""
        self._hurry.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def news(self) -> list[News]:
        """What could not be saved since the last call, and what could after all."""
        return [self._news.popleft() for _ in range(len(self._news))]

    def _work(self, snapshot: Snapshot, target: Path, best: bool) -> None:
        step = snapshot.state["progress"]["step"]
        time.sleep(0.001)  # let the caller go on first: it could do nothing while this thread prepares the copy
        try:
            self._files["model.safetensors"].copy(snapshot.model)
            self._files["optimizer.safetensors"].copy(snapshot.optimizer)
        except Exception as error:  # no memory: training goes on, and the person is told
            self._news.append(News(step, False, f"{target.name} could not be saved: {self._reason(error)}"))
            return
        finally:
            self._copied.set()
        failed = False
        while True:
            last_try = self._hurry.is_set() or not threading.main_thread().is_alive()
            try:
                self._save(snapshot, target, best)
                break
            except Exception as error:
                with suppress(OSError):
                    self._tidy()
                if not failed:
                    again = "" if last_try else f"; trying again every {self.RETRY_SECONDS:g} s"
                    message = f"{target.name} could not be saved: {self._reason(error)}{again}"
                    self._news.append(News(step, False, message))
                failed = True
            if last_try:
                return
            self._pause()
            if self._superseded:
                return
        if failed:
            self._news.append(News(step, True, f"{target.name} is saved now"))

    def _save(self, snapshot: Snapshot, target: Path, best: bool) -> None:
        self._tidy()
        aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        aside.mkdir(parents=True)
        sha256 = self._write(snapshot, aside)
        _sync(aside)
        self._verify(aside, sha256)
        _move_into_place(aside, target)
        for pointer in ("best", "last") if best else ("last",):  # what a run goes on from comes last
            _replace_text(self.folder / pointer, target.name + "\n")
        self._prune(target)

    def _write(self, snapshot: Snapshot, aside: Path) -> dict[str, str]:
        """Write all files; returns the checksum of each."""
        # Half of the rests for writing, half for reading.
        self._rest_seconds_per_byte = self._rest_seconds / (2 * sum(file.nbytes for file in self._files.values()))
        sha256 = {name: self._write_file(aside / name, f.chunks(self.CHUNK_BYTES)) for name, f in self._files.items()}
        if snapshot.tokenizer is not None:
            if self._tokenizer_json is None:  # it stays the same as long as the run lives
                self._tokenizer_json = json.dumps(snapshot.tokenizer.to_json(), ensure_ascii=False).encode()
            sha256["tokenizer.json"] = self._write_file(aside / "tokenizer.json", [self._tokenizer_json])
        state = {**snapshot.state, "sha256": sha256}
        state["checksum"] = state_checksum(state)
        text = json.dumps(state, indent=1).encode()
        return {**sha256, "state.json": self._write_file(aside / "state.json", [text])}

    def _write_file(self, path: Path, chunks: Iterable[bytes | memoryview]) -> str:
        """Write, have the disk hold it, and return the checksum."""
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for chunk in self._paced(chunks):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _verify(self, aside: Path, sha256: dict[str, str]) -> None:
        """Read back what was written: only what is proven readable may take the place of another checkpoint."""
        for name, written in sha256.items():
            digest = hashlib.sha256()
            with (aside / name).open("rb", buffering=0) as file:
                if hasattr(os, "posix_fadvise"):  # from the disk, not from the system's memory
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                for chunk in self._paced(iter(partial(file.read, self.CHUNK_BYTES), b"")):
                    digest.update(chunk)
            if digest.hexdigest() != written:
                raise OSError(errno.EIO, "what was written is not what is read back", str(aside / name))

    def _paced(self, chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """The chunks, with a rest after the work on each."""
        began = time.thread_time()
        for chunk in chunks:
            yield chunk
            if threading.main_thread().is_alive():  # not: the process is about to end
                worked = time.thread_time() - began
                self._hurry.wait(min(self.REST * worked, self._rest_seconds_per_byte * len(chunk)))
            began = time.thread_time()

    def _pause(self) -> None:
        """Until it is time to try again, or somebody waits, or the process is about to end."""
        self._pausing = True
        until = time.monotonic() + self.RETRY_SECONDS
        while time.monotonic() < until and threading.main_thread().is_alive() and not self._hurry.wait(0.1):
            pass
        self._pausing = False

    def _tidy(self) -> None:
        """Clear away what was cut off; a checkpoint that was about to be replaced goes back to its place."""
        for old in self.folder.glob(".step-*.old"):
            place = self.folder / old.name[1:].removesuffix(".old")
            if place.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(place)
        for left in self.folder.glob(".step-*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        for pointer in ("last", "best"):
            (self.folder / f".{pointer}.tmp").unlink(missing_ok=True)

    def _prune(self, newest: Path) -> None:
        """Keep so many up to the newest one, and the best. Later steps are there if a run went back: they stay."""
        folders = checkpoint_folders(self.folder)
        up_to_newest = folders[folders.index(newest) :]
        for old in up_to_newest[self.keep :] if self.keep > 0 else []:
            if old.name != read_pointer(self.folder, "best"):
                gone = old.with_name(f".{old.name}.pruned.tmp")  # nobody is to see half of it
                with suppress(OSError):
                    old.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, OSError) and error.strerror:
            return f"{error.strerror} ({error.filename or self.folder})"
        return str(error) or type(error).__name__


def take_snapshot(
    model: LanguageModel,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    *,
    scaler: dict[str, Any],
    tokenizer: Tokenizer | None,
    run: dict[str, Any],
) -> Snapshot:
    """What a checkpoint of this moment holds, for CheckpointWriter.save, which copies the tensors."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}  # tied: one name
    weights = {name: parameter.detach() for parameter, name in names.items()}
    moments = {
        f"{names[parameter]}.{key}": value.detach()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    state = {
        "version": STATE_VERSION,
        "progress": asdict(progress),
        "model": asdict(model.config),
        "scaler": scaler,
        "run": run,
    }
    return Snapshot(weights, moments, state, tokenizer)


def state_checksum(state: dict[str, Any]) -> str:
    """The checksum that state.json carries of all else that it says."""
    rest = {key: value for key, value in state.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _move_into_place(aside: Path, target: Path) -> None:
    """Rename, also where a checkpoint of the same step is there already (a step done again after a resume)."""
    old = target.with_name(f".{target.name}.old")  # checkpoint_folders finds it there
    if target.exists():
        target.rename(old)
    aside.rename(target)
    _sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _replace_text(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text, "utf-8")
    _sync(aside)
    aside.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk itself hold it. Windows cannot open a folder; there the rename is all there is."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
