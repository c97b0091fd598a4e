"""Where a training run stands, on a terminal: lines that scroll, and under them a bar that stays."""

import sys
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class TrainingView(Protocol):
    """What the training loop tells whoever watches."""

    def line(self, text: str) -> None: ...
    def update(self, step: int, status: str) -> None: ...
    def __enter__(self) -> "TrainingView": ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class PlainView:
    """Lines on standard output: for pipes, files and processes that are not the first."""

    def __init__(self, silent: bool = False) -> None:
        self.silent = silent

    def line(self, text: str) -> None:
        if not self.silent:
            print(text, flush=True)

    def update(self, step: int, status: str) -> None:
        pass

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        pass


class BarView:
    """The same lines, and a bar with loss, best validation loss, speed and time left."""

    def __init__(self, total: int) -> None:
        self.console = Console(highlight=False)
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

    def update(self, step: int, status: str) -> None:
        self.progress.update(self.task, completed=step, status=status)

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
