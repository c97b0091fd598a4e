"""How a run reports: `Reporter.emit(event)`. Sinks pass events on to events.jsonl, console.log and the terminal."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from nanoscope.messages import Text, on_terminal, printable
from nanoscope.runs.console import console_lines
from nanoscope.runs.events import AnyEvent, Note, Start, encode
from nanoscope.training.appended_file import AppendedFile
from nanoscope.training.run_folder import RunFolder


class Sink:
    """Receives every event of a run, with its console lines, which may quote files of others. This one ignores them."""

    reporter: "Reporter"
    """The one it belongs to: a sink may have something to report itself."""

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None: ...

    def advance(self, step: int) -> None:
        """`step` iterations are done, whether they are logged or not."""

    def progress(self, text: str) -> None:
        """Where the run is inside something that takes long; this is shown, not logged."""

    def close(self) -> None: ...


class Reporter:
    """Passes events on to its sinks. A reporter without sinks is silent, as in all processes but the first."""

    def __init__(self, folder: RunFolder, *sinks: Sink) -> None:
        self._folder, self._sinks, self._place = folder, sinks, folder.path
        for sink in sinks:
            sink.reporter = self

    def emit(self, *events: AnyEvent) -> None:
        for event in events if self._sinks else ():
            if (now := self._folder.path) != self._place:
                self._place = now
                self.emit(Note(text=Text("the run's folder was moved; training continues in {folder}", folder=now)))
            lines = console_lines(event, str(now))
            timed = msgspec.structs.replace(event, time=datetime.now(UTC).isoformat(timespec="milliseconds"))
            for sink in self._sinks:
                sink.write(timed, lines)

    def advance(self, step: int) -> None:
        for sink in self._sinks:
            sink.advance(step)

    def progress(self, text: str) -> None:
        for sink in self._sinks:
            sink.progress(text)

    def close(self) -> None:
        for sink in reversed(self._sinks):  # files last: what a tracker reports at the end is for them too
            sink.close()


class Terminal(Sink):
    """Prints the lines of events, in the user's language."""

    def line(self, text: str) -> None: ...

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        for line in lines:
            self.line(on_terminal(line))


class EventsFile(Sink):
    """events.jsonl."""

    def __init__(self, path: Path | Callable[[], Path], started_ago: float = 0.0) -> None:
        self._began = time.perf_counter() - started_ago
        self.file = AppendedFile(path)

    def write(self, event: AnyEvent, lines: Sequence[str] = ()) -> None:
        line = encode(msgspec.structs.replace(event, t=time.perf_counter() - self._began))
        if isinstance(event, Start):
            self.file.opening = line  # without it the others mean little, should the file vanish
            self.file.write_durably(line)  # before anything else is written: it says whose the folder is
        else:
            self.file.write(line)

    def close(self) -> None:
        self.file.close()


class ConsoleLog(Sink):
    """console.log: what the terminal shows, in English."""

    def __init__(self, path: Path | Callable[[], Path]) -> None:
        self.file = AppendedFile(path)

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        self.file.write("".join(f"{printable(line)}\n" for line in lines))

    def close(self) -> None:
        self.file.close()


class FileTrouble(Sink):
    """Warns on the terminal, once, when one of the files can't be written."""

    def __init__(self, terminal: Terminal, *files: AppendedFile) -> None:
        self._terminal, self._files = terminal, files
        self._warned = False

    def write(self, event: AnyEvent, lines: Sequence[str]) -> None:
        trouble = next((file.trouble for file in self._files if file.trouble), None)
        if trouble is not None and not self._warned:
            text = Text("warning: {trouble}; training continues, and will retry with every line", trouble=trouble)
            self._terminal.line(on_terminal(text))
        self._warned = trouble is not None


def open_sinks(folder: RunFolder, terminal: Terminal, started_ago: float) -> list[Sink]:
    """What a run reports to. `terminal` is where a person watches."""
    events, log = EventsFile(lambda: folder.events, started_ago), ConsoleLog(lambda: folder.console)
    return [events, log, terminal, FileTrouble(terminal, events.file, log.file)]
