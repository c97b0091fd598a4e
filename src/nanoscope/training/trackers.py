"""Experiment trackers, Weights & Biases and TensorBoard: they follow events.jsonl in a process of their own.

A tracker may import for seconds, wait for a network, print, catch Ctrl-C or hang: training neither stops nor waits.
tracker_process.py is the program of that process.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.messages import Joined, Text
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
        self._names = Joined(", ", names)
        self._process: subprocess.Popen[str] | None = None
        self._messages: deque[Note] = deque()

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        if isinstance(event, Start) and self._process is None:
            try:
                self._start(event)
            except OSError as error:
                self._report(
                    "warning",
                    Text("can't start {trackers}: {reason}; training continues", trackers=self._names, reason=error),
                )

    def advance(self, step: int) -> None:
        while self._messages:
            self.reporter.emit(self._messages.popleft())

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # tells it that the run is over
        if self._ends_within(2):
            self._listener.join()
        else:
            waiting = Text(
                "waiting up to {seconds:g} s for {trackers} to finish", seconds=WAIT_SECONDS, trackers=self._names
            )
            self._report("note", waiting)
            self.advance(0)
            if not self._ends_within(WAIT_SECONDS - 2):
                late = Text("{trackers} did not finish in time; continuing in the background", trackers=self._names)
                self._report("warning", late)
        if self._process.returncode:
            status = self._process.returncode
            failed = Text("{trackers} failed with exit status {status:d}", trackers=self._names, status=status)
            self._report("warning", failed)
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
            level, template, values = json.loads(line)
            texts = {name: Text(value) for name, value in values.items()}  # may be messages themselves
            self._report(level, Text(template, **texts))

    def _report(self, level: Literal["note", "warning"], text: Text) -> None:
        self._messages.append(Note(text=text, level=level))

    def _ends_within(self, seconds: float) -> bool:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None
