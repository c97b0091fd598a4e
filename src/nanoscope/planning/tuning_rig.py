"""A process that trains on demand: it is set up once, and measured in turns with others. Imports no torch."""

import dataclasses
import os
import queue
import sys
import tempfile
import threading
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import msgspec
import psutil

from nanoscope.config import TrainConfig
from nanoscope.errors import JobError, why
from nanoscope.hardware.probe import kill_tree
from nanoscope.messages import Text
from nanoscope.planning.steps import Job, problem_of_status
from nanoscope.planning.tuning_candidates import Facts, Kind
from nanoscope.planning.tuning_search import RigError

CHILD = "nanoscope.planning.tuning_child"
PATIENCE_SECONDS = 600.0  # for an answer: a child that takes longer hangs


class Question(msgspec.Struct):
    kind: Kind
    seconds: float


class Answer(msgspec.Struct, omit_defaults=True):
    seconds: float = 0.0
    memory_bytes: int = 0
    problem: str = ""


class ChildRig:
    """`data`: the folder of a prepared dataset; None: random tokens of a vocabulary of `vocab_size`."""

    def __init__(self, config: TrainConfig, data: Path | None, vocab_size: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nanoscope-tune-")
        settings = dataclasses.asdict(config) | {"overwrite": False, "out_dir": ""}
        job = Job(settings, str(data) if data else None, vocab_size, 0.0, self._folder.name, False, False, os.getpid())
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._lines: queue.Queue[bytes] = queue.Queue()
        try:
            self._child = psutil.Popen(
                [sys.executable, "-m", CHILD],
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._errors,
                start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches this process alone
            )
        except OSError as error:
            self._folder.cleanup()
            raise JobError("can't start a process to measure steps in: {reason}", reason=why(error)) from None
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.facts: Facts = self._ask(job, Facts)
        except BaseException:
            self.close()
            raise
        self.memory_bytes = self.facts.memory_bytes

    @property
    def process_id(self) -> int:
        return int(self._child.pid)

    def measure(self, kind: Kind, seconds: float) -> float:
        answer: Answer = self._ask(Question(kind, seconds), Answer)
        self.memory_bytes = answer.memory_bytes
        return answer.seconds

    def close(self) -> None:
        kill_tree(self._child)
        self._errors.close()
        self._folder.cleanup()

    def _ask(self, question: Job | Question, kind: Any) -> Any:
        try:
            self._child.stdin.write(msgspec.json.encode(question) + b"\n")
            self._child.stdin.flush()
        except OSError:
            pass  # it is gone, and its status says why
        try:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise RigError(Text("the steps take too long to measure")) from None
        if not line:
            self._errors.seek(0)
            errors = self._errors.read().decode("utf-8", "replace")
            raise RigError(problem_of_status(self._child.wait(), errors)[0])
        if (problem := msgspec.json.decode(line, type=dict).get("problem")) is not None:
            raise RigError(str(problem))
        return msgspec.json.decode(line, type=kind)

    def _read(self) -> None:
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(b"")
