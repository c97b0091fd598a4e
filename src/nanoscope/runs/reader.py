"""Reads any log into runs: cleans its lines, finds its format, and mends what terminals did to it."""

import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from nanoscope.errors import JobError
from nanoscope.runs.facts import read_facts
from nanoscope.runs.failures import ErrorFinder
from nanoscope.runs.formats import all_formats
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Log, LoggedError
from nanoscope.runs.text import clean_lines

ENOUGH_RECORDS = 60  # of one format, to decide on it
SAMPLE_LINES = 60_000  # looked at for them; beyond, the first record decides
MAX_WRAPPED = 4  # lines that one record may be broken into

_RESUMING = re.compile(
    r"\bresum(?:ing|ed) (?:training|optimi[sz]ation|run|from|at)\b|\bresuming\b.{0,40}\bstep \d", re.I
)
_RECORD_BEGINS = re.compile(r"(?:iter|step|epoch)[:=]?\s{0,8}\d|^\s{0,3}\{['\"]", re.IGNORECASE)

_RECORD_WORDS = re.compile(
    r"loss|train|val|bpb|checkpoint|event|tel:|trl:|^[\s|]{0,4}\d{1,9}\s{0,8}[|,\t]", re.IGNORECASE
)


class Reading:
    """One format reading a log, with the mending that all formats share."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self.errors = ErrorFinder()
        self.located: list[LoggedError] = []
        self.rejoined = 0
        self._wrapped: list[str] = []

    def take(self, number: int, line: str) -> None:
        log = self.format.log
        log.line = number
        kind = self.format.read(line)
        if kind is None:
            kind = self._rejoin(line)
        elif self._wrapped:
            self._wrapped.clear()
        if kind is None:
            self._read_surroundings(number, line)
        elif "error" in line or "interrupted" in line:  # a dying job's message glued to a record, or told by an event
            self._read_error(number, line)

    def finish(self, source: str, lines: int) -> Log:
        """All that was read so far; more may follow."""
        self.format.end()
        runs = [run for run in self.format.log.finish() if run.steps or run.evals]
        return Log(source, self.format.name if runs else "none", runs, self.located, lines, self.rejoined)

    def _rejoin(self, line: str) -> str | None:
        """A record that a terminal broke into several lines, once its last piece is there."""
        if self._wrapped:
            pieces = [*self._wrapped, line]
            for joint in ("", " "):
                kind = self.format.read(joint.join(pieces))
                if kind is not None:
                    self.rejoined += 1
                    self._wrapped.clear()
                    return kind
            if len(pieces) < MAX_WRAPPED and not _RECORD_BEGINS.search(line):
                self._wrapped = pieces
                return None
            self._wrapped.clear()
        if len(line) < 400 and _RECORD_BEGINS.search(line):
            self._wrapped = [line]
        return None

    def _read_surroundings(self, number: int, line: str) -> None:
        if not line or line.isspace():
            return
        log = self.format.log
        if "esum" in line and _RESUMING.search(line):
            log.boundary(resuming=True)
        elif read_facts(line, log.facts, log.typed):
            log.boundary()
        self._read_error(number, line)

    def _read_error(self, number: int, line: str) -> None:
        if self.errors.read(line, number):
            line_number, kind, message = self.errors.found[-1]
            self.located.append(LoggedError(line_number, kind, message, self.format.log.error()))


def read_lines(lines: Iterable[tuple[int, str]], source: str) -> Log:
    """Read numbered, clean lines of one log."""
    lines = iter(lines)
    sample: deque[tuple[int, str]] = deque(maxlen=SAMPLE_LINES)
    reading = Reading(_find_format(lines, sample))
    last_number = 0
    for last_number, line in chain(sample, lines):
        reading.take(last_number, line)
    return reading.finish(source, last_number)


def _find_format(lines: Iterator[tuple[int, str]], sample: deque[tuple[int, str]]) -> Format:
    """The format that finds most in the first records, which are left in `sample`.

    The generic one is taken only where it finds far more than any that knows the trainer.
    """
    classes = all_formats()
    candidates = [format_class() for format_class in classes]
    scores = [0.0] * len(candidates)
    begun = ""
    for count, numbered in enumerate(lines):
        sample.append(numbered)
        line = numbered[1]
        if _RECORD_WORDS.search(line) or begun:
            understood = False  # by a format that knows the whole line
            for index, candidate in enumerate(candidates):
                kind = candidate.read(line) or (candidate.read(begun + line) if begun else None)
                if kind:
                    scores[index] += {"step": 1.0, "eval": 0.9}.get(kind, 0.1)
                    understood = understood or candidate.name != "generic"
            # The beginning of a record that a terminal broke: the next line may complete it.
            begun = line if not (begun or understood) and _RECORD_BEGINS.search(line) else ""
            if max(scores) >= (ENOUGH_RECORDS if count < SAMPLE_LINES else 1):
                break
    best = max(range(len(scores) - 1), key=lambda index: scores[index])
    chosen = classes[-1] if scores[-1] > 3 * scores[best] else classes[best]
    return chosen()


def read_stream(stream: BinaryIO, source: str) -> Log:
    """Read a log from an open binary stream."""
    return read_lines(clean_lines(stream), source)


def read_log(path: str) -> Log:
    """Read a log file, the directory of a nanoscope run, or standard input ('-')."""
    if path == "-":
        return read_stream(sys.stdin.buffer, "-")
    file = Path(path)
    if file.is_dir():
        events = file / "events.jsonl"
        if not events.is_file():
            raise JobError(
                f"{path} is a directory, but not of a nanoscope run: it has no events.jsonl.\n"
                "Give the log file itself, or the run's directory."
            )
        file = events
    try:
        with file.open("rb") as stream:
            return read_stream(stream, path)
    except FileNotFoundError:
        raise JobError(f"There is no file {path}.{_did_you_mean(file)}") from None
    except OSError as problem:
        raise JobError(f"{path} cannot be read: {problem.strerror or problem}.") from None


def _did_you_mean(file: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in file.parent.iterdir()]
    except OSError:
        return ""
    close = get_close_matches(file.name, names, n=1)
    return f" Did you mean {file.parent / close[0]}?" if close else ""
