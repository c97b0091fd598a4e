"""Reads any log into runs: clean → scan → columns → meaning → assemble."""

import sys
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from nanoscope.errors import JobError, why
from nanoscope.messages import Message
from nanoscope.runs.assemble import assemble
from nanoscope.runs.columns import Collector, Tables
from nanoscope.runs.experiments import is_table_of_experiments, read_experiments
from nanoscope.runs.files import lines_of
from nanoscope.runs.run import Log
from nanoscope.runs.trackers import open_log
from nanoscope.runs.wrapping import unwrapped
from nanoscope.suggest import did_you_mean, did_you_mean_run


def read_lines(lines: Iterable[tuple[int, str]], source: str, keep_rows: bool = False) -> Log:
    """Read numbered, clean lines of one log."""
    collector = Collector()
    collector.read(unwrapped(lines, collector.count_rejoined))
    return assemble(collector.finish(), source, keep_rows)


def read_stream(stream: BinaryIO, source: str, keep_rows: bool = False) -> Log:
    """Read a log from an open binary stream; it may hold the events of a nanoscope run.

    With `keep_rows` the log says what each line is.
    """
    lines = iter(lines_of(stream))
    head = list(islice(lines, 2))
    if head and all(line.startswith("{") and '"event"' in line for _, line in head):
        from nanoscope.runs.own import read_events  # imported late: it takes a while

        return read_events(chain(head, lines), source)
    if head and is_table_of_experiments(head[0][1]):
        return read_experiments(chain(head, lines), source)
    return read_lines(chain(head, lines), source, keep_rows)


def read_log(path: str) -> Log:
    """Read a log file, the directory of a run (nanoscope's or a tracker's), or standard input ('-')."""
    if path == "-":
        return read_stream(sys.stdin.buffer, "-")
    file = Path(path)
    try:
        folder = file if file.is_dir() else file.parent
        is_run = file.is_dir() or file.name in ("events.jsonl", "console.log")
        if is_run and (folder / "events.jsonl").is_file():
            from nanoscope.runs.own import OwnRun

            log = OwnRun(folder).read(path)
            log.read_instead = "events.jsonl" if file.name == "console.log" else ""
            return log
        found = open_log(file)
        if isinstance(found, Tables):
            return assemble(found, path, keep_rows=False)
        with found:
            return read_stream(found, path)
    except FileNotFoundError:
        raise JobError("There is no file {path}.{hint}", path=path, hint=_did_you_mean(file)) from None
    except OSError as problem:
        raise JobError("Cannot read {path}: {reason}.", path=path, reason=why(problem)) from None


def _did_you_mean(file: Path) -> Message | str:
    if hint := did_you_mean_run(file):
        return hint
    names = [entry.name for entry in file.parent.glob("*")]
    return did_you_mean(file.name, names, lambda name: str(file.parent / name))
