"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all, written while training goes on.

checkpoints/step-000500/{model.safetensors, optimizer.safetensors, tokenizer.json, state.json}, and the small files
`last` and `best` that hold the name of one of these folders. No pickle is written. restore.py reads them.
"""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
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


@dataclass
class Snapshot:
    """What a checkpoint will hold. The tensors are training's own: they are copied by the writer (`copied`)."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    tokenizer: Tokenizer | None


class CheckpointWriter:
    """Saves checkpoints of one run, one at a time, in a thread while training goes on; prunes old ones.

    An iteration changes weights and optimizer state only at its end. So the thread copies them while the forward and
    backward passes of the next iteration read them, and then writes the copy. The rule: `copied` is called before
    anything changes the model or the optimizer in place.
    """

    # While training goes on, the writer rests so many times as long as it works, after each chunk: a core taken away
    # for longer, or more often, shows in the iterations (benchmarks/LOG.md).
    REST = 32
    CHUNK_BYTES = 1 << 18

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        self._files = {"model.safetensors": TensorFile(), "optimizer.safetensors": TensorFile()}
        self._tokenizer_json: bytes | None = None
        self._thread: threading.Thread | None = None
        self._copied, self._hurry = threading.Event(), threading.Event()
        self._copied.set()
        self._last_save = time.monotonic()
        self._rest_seconds = 0.0
        self._failures: list[str] = []

    def save(self, snapshot: Snapshot, *, best: bool) -> Path:
        """Begin to save in the background; returns where. The one before is waited for."""
        self.wait()
        target = self.folder / f"step-{snapshot.state['progress']['step']:06d}"
        now = time.monotonic()
        self._rest_seconds, self._last_save = (now - self._last_save) / 2, now  # done well before the next save
        self._copied.clear()
        self._hurry.clear()
        self._thread = threading.Thread(target=self._work, args=(snapshot, target, best), name="checkpoint")
        self._thread.start()
        if any(tensor.device.type != "cpu" for tensor in snapshot.model.values()):
            self.copied()  # a device copies faster than the next iteration could be held up
        return target

    def copied(self) -> None:
        """Wait until the state that is being saved may be changed: usually it may long since."""
        self._copied.wait()

    def wait(self) -> None:
        """Wait until what was begun is on disk, or has failed; the writer no longer takes its time."""
        self._hurry.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def failures(self) -> list[str]:
        """What went wrong since the last call."""
        found, self._failures = self._failures, []
        return found

    def _work(self, snapshot: Snapshot, target: Path, best: bool) -> None:
        aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            time.sleep(0.001)  # let the caller go on first: it could do nothing while this thread prepares the copy
            try:
                self._files["model.safetensors"].copy(snapshot.model)
                self._files["optimizer.safetensors"].copy(snapshot.optimizer)
            finally:
                self._copied.set()
            for left_by_a_killed_run in self.folder.glob(".step-*.tmp"):
                shutil.rmtree(left_by_a_killed_run, ignore_errors=True)
            aside.mkdir(parents=True)
            self._write(snapshot, aside)
            _sync(aside)
            _move_into_place(aside, target)
            for pointer in ("last", "best") if best else ("last",):
                _replace_text(self.folder / pointer, target.name + "\n")
            self._prune()
        except Exception as error:  # no disk, no memory: training goes on, and the person is told
            shutil.rmtree(aside, ignore_errors=True)
            self._failures.append(f"{target.name} could not be saved: {error or type(error).__name__}")

    def _write(self, snapshot: Snapshot, aside: Path) -> None:
        total = sum(file.nbytes for file in self._files.values())
        sha256 = {}
        for name, tensors in self._files.items():
            sha256[name] = self._write_file(aside / name, tensors.chunks(self.CHUNK_BYTES), self._rest_seconds / total)
        if snapshot.tokenizer is not None:
            if self._tokenizer_json is None:  # it stays the same as long as the run lives
                self._tokenizer_json = json.dumps(snapshot.tokenizer.to_json(), ensure_ascii=False).encode()
            sha256["tokenizer.json"] = self._write_file(aside / "tokenizer.json", [self._tokenizer_json])
        state = json.dumps({**snapshot.state, "sha256": sha256}, indent=1).encode()
        self._write_file(aside / "state.json", [state])

    def _write_file(self, path: Path, chunks: Iterable[bytes | memoryview], rest_seconds_per_byte: float = 0.0) -> str:
        """Write, have the disk hold it, and return the checksum."""
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for chunk in chunks:
                began = time.thread_time()
                digest.update(chunk)
                written = file.write(chunk)
                if threading.main_thread().is_alive():  # not: the process is about to end
                    self._hurry.wait(min(self.REST * (time.thread_time() - began), rest_seconds_per_byte * written))
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest()

    def _prune(self) -> None:
        if self.keep == 0:
            return
        pointed = {read_pointer(self.folder, pointer) for pointer in ("last", "best")}
        for old in checkpoint_folders(self.folder)[self.keep :]:
            if old.name not in pointed:
                shutil.rmtree(old, ignore_errors=True)


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


def _move_into_place(aside: Path, target: Path) -> None:
    """Rename, also where a checkpoint of the same step is there already (a step done again after a resume)."""
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        aside.rename(target)
    _sync(target.parent)


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
