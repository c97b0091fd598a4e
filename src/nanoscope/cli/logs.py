"""What commands share: the arguments that name logs and runs, and lines on standard error."""

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.cli.parsing import is_option
from nanoscope.errors import JobError, UsageError
from nanoscope.files import RUNS
from nanoscope.messages import Message, Shown, on_terminal, to_print

if TYPE_CHECKING:
    from nanoscope.api.shown import Answer
    from nanoscope.runs.run import Log


# Two validators; `parsing.py` says what is wrong.


def above_zero(_: object, value: float | None) -> None:
    if value is not None and not 0 < value < inf:
        raise ValueError


def no_option(_: object, word: str | None) -> None:
    """Refuse mistyped options, which arrive among the words of a command that accepts '-'."""
    if word is not None and is_option(word):
        raise ValueError


# '-' is standard input; without this it would be parsed as an option.
PathOrStdin = Annotated[str, Parameter(allow_leading_hyphen=True, validator=no_option, completer=complete_path)]
RunPath = Annotated[str | None, Parameter(completer=complete_path)]
ABOVE_ZERO = Parameter(validator=above_zero)
Steps = Annotated[int | None, ABOVE_ZERO]
Minutes = Annotated[float, ABOVE_ZERO]
LOG_SUFFIXES = (".log", ".out", ".err", ".txt", ".jsonl", ".json", ".csv")  # of the logs in a folder
TEXT_IN_OTHER_FORMS = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")  # gzip, UTF-16


def logs_named(logs: tuple[str, ...]) -> tuple[str, ...]:
    """The logs that were given; without any, what is piped in, or else the latest run."""
    if logs:
        return logs
    if _is_piped():
        warn(Message("reading the log from standard input"))
        return ("-",)
    return (latest_run(),)


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file; a job without a terminal has neither."""
    with suppress(OSError):
        mode = os.fstat(0).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
    return False


def latest_run(holding: str = "events.jsonl") -> str:
    """The run in runs/ that trained last, which is said; `holding`: a file or folder that it must have."""
    from nanoscope.runs.summary import find_runs  # late: psutil takes a while

    written = {path: (path / holding).stat().st_mtime for path in find_runs(RUNS).values() if (path / holding).exists()}
    if not written:
        raise UsageError(
            "There is no run in {folder} yet: name a log or a run, or train one: nanoscope train laptop",
            folder=f"{RUNS}/",
        )
    newest = max(written, key=lambda path: written[path])
    warn(Message("the latest run: {run}", run=newest))
    return str(newest)


def read_named(path: str) -> "Sequence[tuple[str, Log]]":
    """The log at a path; of a folder that is none itself, the logs and runs in it, without those that don't train."""
    from nanoscope.runs.reader import read_log

    folder = Path(path)
    try:
        log = read_log(path)
    except JobError:
        from nanoscope.runs.summary import find_runs  # late: psutil takes a while

        files = sorted(each for each in folder.glob("*") if each.suffix in LOG_SUFFIXES)
        logs = [(str(each), read_log(str(each))) for each in (*find_runs(folder).values(), *files)]
        if not logs:
            raise
        return [(name, log) for name, log in logs if log.runs] or logs
    if not log.runs and folder.is_file():
        _refuse_what_is_no_text(folder)
    return [(path, log)]


def _refuse_what_is_no_text(file: Path) -> None:
    """Say what a file is in which no training was found."""
    with file.open("rb") as stream:
        head = stream.read(1024)
    if head.startswith(b"%PDF"):
        raise JobError("{name} is a PDF, not a log. Copy its text into a file, and explain that.", name=file)
    if b"\0" in head and not head.startswith(TEXT_IN_OTHER_FORMS):
        raise JobError("{name} is a binary file, not a log.", name=file)


def warn(text: Shown) -> None:
    """Print a warning to standard error."""
    print(f"nanoscope: {to_print(text).splitlines()[0]}", file=sys.stderr)


def check_folder(folder: Path, command: str) -> None:
    """Refuse what is no directory of runs."""
    if folder != RUNS and not folder.is_dir():
        raise UsageError(
            "{folder} is no directory: {command} takes that of your runs. For a log: nanoscope explain FILE",
            folder=folder,
            command=command,
        )


def progress(text: Message) -> None:
    """Print a line about what is being done to standard error."""
    print(on_terminal(text), file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """Print a document of structs, dataclasses and messages, which are in English; what is not finite is null."""
    from json import dumps

    from msgspec import to_builtins

    from nanoscope.findings.schema import plain

    def builtin(value: object) -> object:
        return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else str(value)

    sys.stdout.write(dumps(plain(to_builtins(document, enc_hook=builtin, str_keys=True)), indent=1) + "\n")


def print_answer(answer: "Answer[Any]", json: bool) -> None:
    """Print what was found, and on standard error what was left out, or used instead."""
    from nanoscope.views.terminal_page import Page

    for note in answer.notes:
        warn(note)
    if json:
        print_json(answer.json())
    else:
        answer.print_to(Page(answer.language))
