"""Reads lines of nanoscope's own: of console.log, or of events.jsonl from a file of another name or standard input."""

from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.console import ConsoleReader
from nanoscope.runs.events import AnyEvent, Iter, NewerVersionError, Note, decode
from nanoscope.runs.own import EventReader


class OwnLines:
    """Places what lines say in the runs of `builder`."""

    def __init__(self, builder: RunBuilder) -> None:
        self._events = EventReader(builder)
        self._console = ConsoleReader()
        self._refusal: NewerVersionError | None = None

    def read(self, line: str) -> str | None:
        """Read a line; return what kind of line it is, or None if it is not nanoscope's."""
        events = self._decode(line) if line.startswith("{") else self._console.read(line)
        if events is None:
            return None
        for event in events:
            self._events.take(event)
        return _kind(events[-1]) if events else "header"

    def end(self) -> None:
        """Complete the runs, or refuse events of a newer version."""
        if self._refusal is not None:
            raise self._refusal
        self._events.finish()

    def _decode(self, line: str) -> list[AnyEvent] | None:
        try:
            event = decode(line)
        except NewerVersionError as refusal:  # raised only if this is the format that reads the log
            self._refusal = refusal
            return []
        return None if event is None else [event]


def _kind(event: AnyEvent) -> str | None:
    """A note is read as the line of any trainer: others begin lines with 'warning:' too."""
    if type(event) is Note:
        return None
    return "step" if type(event) is Iter else str(event.__struct_config__.tag)
