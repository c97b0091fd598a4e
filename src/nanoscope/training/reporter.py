"""How a run reports: `Reporter.emit(event)`. Sinks pass events on to events.jsonl, console.log and the terminal."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from nanoscope.files import write_atomically
from nanoscope.messages import Message, Shown, on_terminal, printable
from nanoscope.runs.console import console_lines
from nanoscope.runs.events import AnyEvent, Start, encode
from nanoscope.training.phases import PhaseClock
from nanoscope.training.run_folder import RunFolder


class Sink:
    """Receives every event of a run, with its console lines, which may quote files of others. This one ignores them."""

    reporter: "Reporter"
    """The reporter this belongs to: a sink may have something to report itself."""

    def write(self, event: AnyEvent, lines: Sequence[Shown]) -> None: ...

    def advance(self, step: int) -> None:
        """`step` iterations are done, whether they are logged or not."""

    def progress(self, text: Shown) -> None:
        """How far something is that takes long: shown, not logged."""

    def close(self) -> None: ...


class Reporter:
    """Passes events on to its sinks. A reporter without sinks is silent, as in all processes but the first."""

    def __init__(self, folder: RunFolder, clock: PhaseClock, *sinks: Sink) -> None:
        self._folder, self._clock, self._sinks = folder, clock, sinks
        for sink in sinks:
            sink.reporter = self

    def emit(self, *events: AnyEvent) -> None:
        for event in events if self._sinks else ():
            lines = console_lines(event, str(self._folder.path))
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            timed = msgspec.structs.replace(event, time=now, t=self._clock.wall_seconds)
            for sink in self._sinks:
                sink.write(timed, lines)

    def advance(self, step: int) -> None:
        for sink in self._sinks:
            sink.advance(step)

    def progress(self, text: Shown) -> None:
        for sink in self._sinks:
            sink.progress(text)

    def close(self) -> None:
        for sink in reversed(self._sinks):  # files last: what a tracker reports at the end is for them too
            sink.close()


class Terminal(Sink):
    """Prints the lines of events, in the user's language."""

    def line(self, text: Shown) -> None: ...

    def write(self, event: AnyEvent, lines: Sequence[Shown]) -> None:
        for line in lines:
            self.line(on_terminal(line))


class LogFile(Sink):
    """A file that is only ever appended to, and stays open.

    Text that can't be written waits in memory, with a warning on the terminal: trouble with a log never ends a run.
    """

    def __init__(self, path: Path, terminal: Terminal) -> None:
        self._path, self._terminal = path, terminal
        self._waiting, self._warned = b"", False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        self._file = self._path.open("a+b", buffering=0)  # so that we know what is in the file
        if self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":  # a line cut off by a crash must not swallow the next one
                self._waiting = b"\n"

    def append(self, text: str) -> None:
        """The text reaches the file at once: readers see it, and a crash doesn't lose it."""
        self._waiting += text.encode("utf-8", errors="backslashreplace")
        try:
            while self._waiting:
                self._waiting = self._waiting[self._file.write(self._waiting) :]
            self._warned = False
        except OSError as error:
            if not self._warned:
                trouble = Message("can't write {path}: {reason}", path=self._path, reason=error.strerror or error)
                warning = Message(
                    "warning: {trouble}; training continues, and will retry with every line", trouble=trouble
                )
                self._terminal.line(on_terminal(warning))
            self._warned = True

    def append_durably(self, text: str) -> None:
        """Wait until the text is on the disk itself. In an empty file, it is there as a whole or not at all."""
        with suppress(OSError):  # a full disk: then as any other text
            if self._file.seek(0, os.SEEK_END) == 0:
                write_atomically(self._path, text.encode("utf-8", errors="backslashreplace"), sync=True)
                text, replaced = "", self._file
                self._open()
                replaced.close()
        self.append(text)
        with suppress(OSError):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class EventsFile(LogFile):
    """events.jsonl."""

    def write(self, event: AnyEvent, lines: Sequence[Shown] = ()) -> None:
        # The first event is on the disk before anything else is written: it says whose the folder is.
        write = self.append_durably if isinstance(event, Start) else self.append
        write(encode(event))


class ConsoleLog(LogFile):
    """console.log: what the terminal shows, in English."""

    def write(self, event: AnyEvent, lines: Sequence[Shown]) -> None:
        self.append("".join(f"{printable(str(line))}\n" for line in lines))


def open_sinks(folder: RunFolder, terminal: Terminal) -> list[Sink]:
    """What a run reports to. `terminal` is where a person watches."""
    return [EventsFile(folder.events, terminal), ConsoleLog(folder.path / "console.log", terminal), terminal]
