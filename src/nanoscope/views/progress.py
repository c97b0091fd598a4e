"""Where a long job stands: a training run's lines and the bar under them, the stages of a preparation."""

import contextlib
import io
import os
import signal
import sys
import time
from types import TracebackType
from typing import IO, Protocol, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


class TrainingView(Protocol):
    """What the training loop tells whoever watches."""

    def line(self, text: str) -> None: ...
    def update(self, step: int, status: str | None = None) -> None: ...
    def __enter__(self) -> "TrainingView": ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class Outlet(io.TextIOBase):
    """Standard output, as long as it takes anything: what it is needed for is less than the run.

    A closed pipe ('| head' has seen enough) asks the run to end, as a closed terminal does by itself. If the disk that
    it is redirected to is full, or the terminal is gone, lines are dropped: console.log has them too.
    """

    def __init__(self) -> None:
        self._stream, self._lost = sys.stdout, False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        if not self._lost:
            try:
                self._stream.write(text)
            except OSError as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        if not self._lost:
            try:
                self._stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self._lost = True
        with contextlib.suppress(OSError, ValueError):  # what is still in its buffer has to go somewhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        if isinstance(error, BrokenPipeError):
            signal.raise_signal(getattr(signal, "SIGHUP", signal.SIGTERM))
        else:
            with contextlib.suppress(OSError):
                print(f"warning: standard output cannot be written: {error.strerror}", file=sys.stderr)


class PlainView:
    """Lines on standard output: for pipes, files and processes that are not the first."""

    def __init__(self, silent: bool = False) -> None:
        self.silent = silent
        self._outlet = Outlet()

    def line(self, text: str) -> None:
        if not self.silent:
            print(text, file=self._outlet, flush=True)

    def update(self, step: int, status: str | None = None) -> None:
        pass

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        pass


class BarView:
    """The same lines, and a bar with loss, best validation loss, speed and time left."""

    def __init__(self, total: int) -> None:
        self.console = Console(highlight=False, file=cast(IO[str], Outlet()))
        self.progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[status]}"),
            console=self.console,
            refresh_per_second=4,
            transient=True,
        )
        self.task = self.progress.add_task("", total=total, status="")

    def line(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def update(self, step: int, status: str | None = None) -> None:
        self.progress.update(self.task, completed=step)
        if status is not None:
            self.progress.update(self.task, status=status)

    def __enter__(self) -> "BarView":
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.progress.stop()


def training_view(total: int, *, first_process: bool) -> TrainingView:
    """A bar where a person watches, else plain lines."""
    if not first_process:
        return PlainView(silent=True)
    return BarView(total) if sys.stdout.isatty() else PlainView()


class StageDisplay:
    """Progress on stderr, after two seconds: a bar on a terminal, else a line now and then."""

    QUIET_SECONDS = 2.0
    PLAIN_LINE_SECONDS = 5.0

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._stage = ""
        self._next_line = time.monotonic() + self.QUIET_SECONDS

    def __enter__(self) -> "StageDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, stage: str, fraction: float) -> None:
        """Say that `fraction` of `stage` is done, if it is time to."""
        now = time.monotonic()
        if self._bar is None and now < self._next_line:
            return
        if not self._console.is_terminal:
            print(f"{stage}: {fraction:.0%}", file=sys.stderr, flush=True)
            self._next_line = now + self.PLAIN_LINE_SECONDS
            return
        if self._bar is None:
            columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
        if stage != self._stage:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(stage, total=1.0)
            self._stage = stage
        self._bar.update(self._bar.task_ids[0], completed=fraction)
