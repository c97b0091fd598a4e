"""What a sweep prints while it works: a line for each run that ended, and on a terminal a live line for the whole."""

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from nanoscope.messages import Joined, Text
from nanoscope.training.sweep_plan import PlannedRun, Sweep
from nanoscope.untrusted import on_terminal

if TYPE_CHECKING:
    from nanoscope.training.sweep import Job, RunResult

SCHEMA = "nanoscope.sweep/1"
MOST_NAMED = 2  # running runs on the live line


_ENDED = {"finished": Text("finished"), "failed": Text("failed"), "hopeless": Text("given up")}
_LEFT = {
    "stopped": Text("to resume"),
    "missing": Text("to train"),
    "elsewhere": Text("being trained by another process"),
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads the output any more ('| head'): stop and save. rich would exit with a failure."""
        raise BrokenPipeError


class SweepDisplay:
    """`done` runs are finished already; with `stderr`, standard output is left to the result."""

    def __init__(self, total: int, done: int, jobs: int, stderr: bool) -> None:
        self._total, self._done, self._jobs = total, done, jobs
        self._console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
        columns = BarColumn(20), TextColumn("{task.fields[status]}")
        self._bar = Progress(*columns, console=self._console, refresh_per_second=4, transient=True)
        self._task = self._bar.add_task("", total=total, completed=done, status="")
        self._waiting, self._lost = "", False
        self._measured: list[tuple[float, float]] = []  # seconds of a run, and the share of its steps they were for

    def line(self, text: str) -> None:
        """Print a line. If nobody reads it any more, the first one says so, and the runs are stopped without a word."""
        if self._lost:
            return
        try:
            self._console.print(on_terminal(text))
        except OSError:
            self._lost = True
            raise

    def ended(self, result: "RunResult", job: "Job", running: Sequence["Job"], queue: Collection[PlannedRun]) -> None:
        """A run's process has ended; what else is running, and what is still to come."""
        self._done += result.is_done
        trained = (job.step - job.first_step) / job.run.total_steps
        if result.status == "finished" and trained > 0:
            self._measured.append((job.seconds, trained))
        how = _ENDED.get(result.status, Text("stopped"))
        if result.status == "finished" and result.best_val_loss is not None:
            how = Text("finished, best validation loss {loss:.4f}", loss=result.best_val_loss)
        text = Text("{how} ({seconds:duration})", how=how, seconds=job.seconds)
        if result.reason:
            text = Text("{what}: {reason}", what=text, reason=result.reason)
        place = f"[{self._done}/{self._total}]"
        parts = [Text("{place} {name}: {what}", place=place, name=result.run.name, what=text)]
        self.line(Joined(" · ", [*parts, *(self._left(running, queue) if result.is_done else [])]))

    def update(self, running: Sequence["Job"], queue: Collection[PlannedRun]) -> None:
        """Redraw the live line; without a terminal there is none."""
        waiting: str = ""
        if queue and not running:
            waiting = Text("waiting for {name}, which another process trains", name=next(iter(queue)).name)
        if waiting and waiting != self._waiting:
            self.line(waiting)
        self._waiting = waiting
        if not self._console.is_terminal:
            return
        self._bar.start()  # does nothing if it has started
        parts = [Text("{done:d}/{total:d} runs done", done=self._done, total=self._total)]
        named = ", ".join(f"{job.run.name} {job.step}/{job.run.total_steps}" for job in running[:MOST_NAMED])
        if len(running) > MOST_NAMED:
            parts.append(Text("training {names} and {n:d} more", names=named, n=len(running) - MOST_NAMED))
        elif running:
            parts.append(Text("training {names}", names=named))
        status = on_terminal(Joined(" · ", [*parts, *self._left(running, queue)]))
        self._bar.update(self._task, completed=self._done, status=status)

    def _left(self, running: Sequence["Job"], queue: Collection[PlannedRun]) -> list[Text]:
        """The time left, from the runs that were measured so far: nothing before the first one is finished."""
        if not self._measured or not (running or queue):
            return []
        seconds_per_run = sum(seconds for seconds, _ in self._measured) / sum(share for _, share in self._measured)
        shares = [1 - job.step / job.run.total_steps for job in running]
        seconds = seconds_per_run * max((sum(shares) + len(queue)) / self._jobs, *shares, 0.0)
        return [Text("about {seconds:duration} left", seconds=seconds)]

    def close(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()


def introduction(sweep: Sweep, results: Sequence["RunResult"], jobs: int) -> list[str]:
    """How many runs there are, and what is left to do."""
    swept = " ".join(f"{key}={','.join(map(str, values))}" for key, values in sweep.swept.items())
    count = Counter[str](result.status for result in results)
    parts = [
        Text("{n:d} {state}", n=count[state], state=words) for state, words in (_ENDED | _LEFT).items() if count[state]
    ]
    if jobs > 1:
        parts.append(Text("{n:d} at a time", n=jobs))
    title = Text("{n:d} runs in {folder}: {settings}", n=len(sweep.runs), folder=sweep.folder, settings=swept)
    return [title, Joined(", ", parts)]


def plan_lines(results: Sequence["RunResult"]) -> list[str]:
    """What would be done about each run."""
    width = max(len(result.run.name) for result in results)
    lines: list[str] = []
    for result in results:
        state = (_ENDED | _LEFT)[result.status]
        if result.status == "stopped":
            state = Text("to resume at step {step}", step=str(result.step))
        lines.append(Text("{name}  {state}", name=f"{result.run.name:<{width}}", state=state))
    return lines


def conclusion(sweep: Sweep, results: Sequence["RunResult"], command: str) -> list[str]:
    """What failed and why, what can be resumed and how, where to see more."""
    lines: list[str] = [
        Text("{name}: {how}: {reason}", name=result.run.name, how=_ENDED[result.status], reason=result.reason)
        for result in results
        if result.status in ("failed", "hopeless")
    ]
    finished = sum(result.status == "finished" for result in results)
    folder = shlex.quote(str(sweep.folder))
    total = len(results)
    if all(result.is_done for result in results):
        lines.append(
            Text("{finished:d} of {total:d} runs finished in {folder}", finished=finished, total=total, folder=folder)
        )
    else:
        lines.append(
            Text(
                "{finished:d} of {total:d} runs finished; what was trained is saved. Resume with:\n  {command}",
                finished=finished, total=total, command=command,
            )
        )  # fmt: skip
    if finished:
        commands = "   ".join(f"nanoscope {name} {folder}" for name in ("compare", "report", "watch"))
        lines.append(Text("More: {commands}", commands=commands))
    return lines


def document(sweep: Sweep, results: Sequence["RunResult"], command: str) -> dict[str, Any]:
    """The JSON document of a sweep: its runs in their order, and the names of the finished ones, the best first."""
    finished = [result for result in results if result.status == "finished" and result.best_val_loss is not None]
    finished.sort(key=lambda result: result.best_val_loss or 0.0)
    runs = [
        {
            "name": result.run.name,
            "path": str(result.run.folder),
            "settings": result.run.settings,
            "status": result.status,
            "reason": result.reason,
            "step": result.step,
            "best_val_loss": result.best_val_loss,
        }
        for result in results
    ]
    ranking = [result.run.name for result in finished]
    return {"schema": SCHEMA, "folder": str(sweep.folder), "command": command, "runs": runs, "ranking": ranking}
