"""What a person sees of a long job: a run's lines with a bar under them, the stages of preparing a dataset."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from nanoscope.messages import Message, Shown, on_terminal
from nanoscope.runs.events import AnyEvent, End, Iter, Start
from nanoscope.training.reporter import Terminal
from nanoscope.training.stopping import BROKEN_PIPE, StopRequest

QUIET_SECONDS, LINE_SECONDS = 2.0, 5.0  # before the first sign of a stage, and between two lines


class Outlet:
    """Standard output, which a run must survive.

    A closed pipe (`| head` has seen enough) asks the run to stop, as closing the terminal does. When standard output
    is redirected to a full disk, or the terminal is gone, lines are dropped: console.log has them too.
    """

    def __init__(self, stop: StopRequest) -> None:
        self._stream, self._stop = sys.stdout, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[..., object], *arguments: str) -> None:
        try:
            action(*arguments)
        except OSError as error:
            with suppress(OSError, ValueError):  # from now on nothing fails; also what is left in the buffer goes there
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if isinstance(error, BrokenPipeError):
                self._stop.ask(BROKEN_PIPE)
            else:
                text = Message("warning: can't write to standard output: {reason}", reason=error.strerror)
                _print_error(on_terminal(text))


class PlainTerminal(Terminal):
    """Lines on standard output, for pipes and files. Progress goes to stderr: it is no part of the log."""

    SILENT_SECONDS = 10.0

    def __init__(self, stop: StopRequest) -> None:
        self._outlet = Outlet(stop)
        self._last_line = time.monotonic()

    def line(self, text: Shown) -> None:
        print(text, file=self._outlet, flush=True)
        self._last_line = time.monotonic()

    def progress(self, text: Shown) -> None:
        if time.monotonic() - self._last_line >= self.SILENT_SECONDS:
            _print_error(on_terminal(text))
            self._last_line = time.monotonic()


class BarTerminal(Terminal):
    """The same lines above a bar with the time left."""

    def __init__(self, stop: StopRequest) -> None:
        self._console = Console(highlight=False, emoji=False, file=cast(IO[str], Outlet(stop)))
        count = TextColumn("{task.completed:.0f}/{task.total:.0f}")
        columns = BarColumn(24), count, TextColumn("{task.description}{task.fields[status]}")
        self._progress = Progress(*columns, console=self._console, refresh_per_second=4, transient=True)
        self._task = self._progress.add_task("", status="")

    def line(self, text: Shown) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def write(self, event: AnyEvent, lines: Sequence[Shown]) -> None:
        match event:
            case Start():
                self._progress.update(self._task, completed=event.first_step, total=event.config["max_iters"])
            case Iter():
                eta = Message("eta {seconds:compact}", seconds=event.eta_seconds)
                self._progress.update(self._task, completed=event.step + 1, status=on_terminal(eta))
            case End():
                self.close()
        super().write(event, lines)

    def advance(self, step: int) -> None:
        self._progress.update(self._task, completed=step, description="")
        self._progress.start()  # does nothing if it has started

    def progress(self, text: Shown) -> None:
        self._progress.update(self._task, description=f"{on_terminal(text)}  ")
        self._progress.start()

    def close(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()


def open_terminal(stop: StopRequest) -> Terminal:
    """A bar where a person watches, otherwise plain lines. When nobody reads them any more, `stop` is asked."""
    return BarTerminal(stop) if sys.stdout.isatty() else PlainTerminal(stop)


def _print_error(text: Shown) -> None:
    with suppress(OSError):  # closed, or on a full disk
        print(text, file=sys.stderr, flush=True)


@contextmanager
def stages() -> Iterator[Callable[[Shown, float], None]]:
    """Progress on stderr for work that takes more than two seconds: a bar on a terminal, otherwise occasional lines.

    Gives the function to call with a stage and the fraction of it that is done.
    """
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, next_line = bar.add_task("", total=1.0), time.monotonic() + QUIET_SECONDS

    def show(stage: Shown, fraction: float) -> None:
        nonlocal next_line
        if time.monotonic() < next_line:
            return
        if bar.console.is_terminal:
            bar.update(task, description=on_terminal(stage), completed=fraction)
            bar.start()  # does nothing if it has started
        else:
            print(f"{on_terminal(stage)}: {fraction:.0%}", file=sys.stderr, flush=True)
            next_line = time.monotonic() + LINE_SECONDS

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
