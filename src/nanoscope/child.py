"""A function of this package in a process of its own, asked in lines of JSON: for what may crash, hang or fill memory.

    with closing(Child("nanoscope.planning.measure:serve")) as child:
        facts = child.ask(job, Facts, timeout=600)
        figures = child.ask(2.0, Figures, timeout=600)

The function is a generator: it takes an iterator over questions, as plain JSON values (msgspec.convert makes them
structs), and yields an answer to each question. The process ends with the function, with its parent, or by
`close`. Nothing here imports torch.
"""

import os
import pkgutil
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from subprocess import PIPE
from typing import Any, TypeVar

import msgspec
import psutil

from nanoscope.errors import OUT_OF_MEMORY, JobError, why
from nanoscope.messages import Message

T = TypeVar("T")


class ChildError(JobError):
    """There is no answer. The message says why, in one line."""

    def __init__(self, problem: Message | str, *, out_of_memory: bool = False) -> None:
        super().__init__(problem)
        self.out_of_memory = out_of_memory


class _Line(msgspec.Struct, omit_defaults=True):
    answer: Any = None
    problem: str = ""
    out_of_memory: bool = False


class Child:
    """`function`: 'package.module:name'. `environment`: variables that it has besides those of this process."""

    def __init__(self, function: str, environment: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._lines: queue.Queue[bytes] = queue.Queue()
        try:
            self.process = psutil.Popen(
                [sys.executable, "-m", "nanoscope.child", function],
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._errors,
                env={**os.environ, **(environment or {})},
                start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches this process alone
            )
        except OSError as error:
            raise ChildError(Message("can't start a process: {reason}", reason=why(error))) from None
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, question: object, kind: type[T], *, timeout: float) -> T:
        """Send a question and wait for its answer, at most so many seconds."""
        with suppress(OSError):  # it has ended, and its status says why
            self.process.stdin.write(msgspec.json.encode(question) + b"\n")
            self.process.stdin.flush()
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise ChildError(Message("it does not finish within {time:compact}", time=timeout)) from None
        if not line:
            self._lines.put(b"")  # whoever asks again hears it again
            raise self._reason()
        found = msgspec.json.decode(line, type=_Line)
        if found.problem:
            raise ChildError(found.problem, out_of_memory=found.out_of_memory)
        return msgspec.convert(found.answer, kind)

    def close(self) -> None:
        """Kill the process and its descendants, and wait until they are gone."""
        with suppress(psutil.NoSuchProcess):
            processes = [*self.process.children(recursive=True), self.process]
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, timeout=5)
        self._errors.close()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _reason(self) -> ChildError:
        """Why the process has ended."""
        status = int(self.process.wait())
        how = signal.Signals(-status).name if status < 0 else ""
        if how == "SIGKILL":  # nobody else kills it
            return ChildError(Message("it does not fit into memory: the system ended the process"), out_of_memory=True)
        if how:
            return ChildError(Message("it crashes the process: {how}", how=how))
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        last = said[-1].strip()[:200] if said else f"status {status}"
        return ChildError(Message("measuring failed: {reason}", reason=last))


def main(function: str) -> None:
    """The child's side."""
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer
    questions: queue.Queue[Any] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            questions.put(msgspec.json.decode(line))
        with suppress(AttributeError):  # the parent is gone: end with all children
            os.killpg(0, signal.SIGKILL)
        os._exit(1)  # Windows

    def write(line: _Line) -> None:
        lines.write(msgspec.json.encode(line, enc_hook=str) + b"\n")
        lines.flush()

    threading.Thread(target=read, daemon=True).start()
    try:
        for answer in pkgutil.resolve_name(function)(iter(questions.get, None)):
            write(_Line(answer))
    except Exception as error:
        said = str(error).strip() or type(error).__name__
        memory = OUT_OF_MEMORY.search(f"{type(error).__name__}: {said}") is not None
        write(_Line(problem=said.splitlines()[0][:200], out_of_memory=memory))
    os._exit(0)  # nothing to clean up, and a thread of torch's may not end by itself


if __name__ == "__main__":
    main(sys.argv[1])
