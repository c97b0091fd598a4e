"""Experiment trackers, Weights & Biases and TensorBoard: they follow events.jsonl in a process of their own.

A tracker may import for seconds, wait for a network, print, catch Ctrl-C or hang: training neither stops nor waits.
tracker_process.py is the program of that process.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.runs.events import AnyEvent, Note, Start, encode
from nanoscope.training.reporter import Sink
from nanoscope.training.run_folder import RunFolder

TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb_log", "wandb")}
"""Tracker → the setting that turns it on, and the package it needs."""
WAIT_SECONDS = 30  # at the end of a run


def check_trackers(config: TrainConfig) -> None:
    """Refuse a tracker whose package is not installed, before anything starts."""
    for setting, package in TRACKERS.values():
        if getattr(config, setting) and not _is_installed(package):
            raise UsageError(
                "{setting}=True needs the package {package}: pip install {package}, or --{setting}=False",
                setting=setting, package=package,
            )  # fmt: skip


def _is_installed(package: str) -> bool:
    found = importlib.util.find_spec(package)
    return found is not None and found.origin is not None  # a folder ./wandb with earlier runs is not the package


def open_trackers(folder: RunFolder, config: TrainConfig) -> list[Sink]:
    """The trackers that the settings ask for."""
    names = [name for name, (setting, _) in TRACKERS.items() if getattr(config, setting)]
    return [Trackers(folder.path, names)] if names else []


class Trackers(Sink):
    """Starts the trackers' process, reports what it says, and waits for it at the end, but not for long."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._command = ["-m", "nanoscope.training.tracker_process", str(folder), *names]
        self._names = " and ".join(names)
        self._process: subprocess.Popen[str] | None = None
        self._messages: deque[str] = deque()

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        if isinstance(event, Start) and self._process is None:
            try:
                self._start(event)
            except OSError as error:
                self._messages.append(f"warning: can't start {self._names}: {error}; training continues")

    def advance(self, step: int) -> None:
        while self._messages:
            level, _, text = self._messages.popleft().partition(": ")
            self.reporter.emit(Note(text=text, level="warning" if level == "warning" else "note"))

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # tells it that the run is over
        if self._ends_within(2):
            self._listener.join()
        else:
            self._messages.append(f"note: waiting up to {WAIT_SECONDS} s for {self._names} to finish")
            self.advance(0)
            if not self._ends_within(WAIT_SECONDS - 2):
                self._messages.append(f"warning: {self._names} did not finish in time; continuing in the background")
        if self._process.returncode:
            self._messages.append(f"warning: {self._names} failed with exit status {self._process.returncode}")
        self.advance(0)

    def _start(self, event: Start) -> None:
        detached: dict[str, Any] = {"start_new_session": True}  # Ctrl-C is for the run
        if sys.platform == "win32":
            detached = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(
            [sys.executable, "-P", *self._command], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True, encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            **detached,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self._process.stdin is not None
        self._process.stdin.write(encode(event))
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.append(line.rstrip("\n"))

    def _ends_within(self, seconds: float) -> bool:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None
