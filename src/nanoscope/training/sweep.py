"""A sweep: a grid of runs, each trained by a process of its own, in a folder of its own."""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from nanoscope.checkpoint_files import checkpoint_folders
from nanoscope.config import KEYS, TYPES, TrainConfig, alternatives
from nanoscope.config_sources import resolve
from nanoscope.data.find import find_dataset
from nanoscope.errors import UsageError
from nanoscope.files import RUNS
from nanoscope.messages import Message, Shown, printable
from nanoscope.runs.summary import summary_of
from nanoscope.training.console import stages
from nanoscope.training.run_folder import RunFolder, lock_folder
from nanoscope.training.stopping import StopRequest

LONGEST_NAME = 100  # characters of a folder's name
SHORT_KEYS = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "bs"}
POLL_SECONDS = 0.2
NO_DIRECTIONS = dict.fromkeys([0x200F, 0x2068, 0x2069])  # the marks of right-to-left text

# How far a run is on disk. stopped: it can be resumed.
STATES = {
    "finished": Message("finished"),
    "failed": Message("failed"),
    "stopped": Message("to resume"),
    "missing": Message("to train"),
}
DONE = ("finished", "failed")


@dataclass
class SweepRun:
    """A run of a sweep, how far it is on disk, and the process that trains it."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    """Of `nanoscope train`."""
    settings: dict[str, Any]  # those that the sweep varies
    config: TrainConfig = field(repr=False)
    status: str = "missing"
    reason: Shown | None = None
    """Why it failed."""
    step: int | None = None
    best_val_loss: float | None = None

    def look(self) -> str:
        """Read from its folder how far the run is."""
        seen = summary_of(self.folder)
        self.step, self.best_val_loss = seen.step, seen.best
        if seen.state == "finished":
            self.status, self.reason = "finished", None
        elif seen.state == "failed" or self.reason:
            self.status, self.reason = "failed", self.reason or Message("the loss is not finite")
        else:
            self.status = "stopped" if checkpoint_folders(self.folder / "checkpoints") else "missing"
        return self.status

    def check_settings(self) -> None:
        """Refuse a folder whose run has other settings: it would be taken for this one."""
        began, wanted = RunFolder(self.folder).first_event(), asdict(self.config)
        if began is None or self.config.init_from != "scratch":  # weights decide about some settings
            return
        kept = {key for key, item in KEYS.items() if item.metadata["holds"] == "run"} - {"out_dir", "init_from"}
        other = [f"{key}={value}" for key, value in began.config.items() if key in kept and wanted[key] != value]
        if other:
            raise UsageError(
                "{folder} was trained with other settings: {settings}\nUse another folder: --out_dir=ANOTHER",
                folder=self.folder,
                settings=", ".join(other),
            )

    def start(self, environment: dict[str, str]) -> None:
        """Train it in a process. What that prints is in console.log; errors are kept for the report."""
        how = "--init_from=resume" if self.status == "stopped" else "--overwrite=True"
        self.began = time.monotonic()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope", "train", *self.arguments, f"--out_dir={self.folder}", how],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches the sweep alone, which passes it on
        )

    def outcome(self) -> Message:
        """How the process has ended."""
        if status := self.process.returncode:
            self.errors.seek(0)
            text = self.errors.read().decode("utf-8", "replace").translate(NO_DIRECTIONS)
            said = [line.removeprefix("nanoscope: ") for line in text.splitlines() if line.startswith("nanoscope: ")]
            self.reason = printable(said[-1]) if said else Message("exit status {status:d}", status=status)
        how = STATES[self.look()]
        if self.status == "finished" and self.best_val_loss is not None:
            how = Message("finished, best validation loss {loss:.4f}", loss=self.best_val_loss)
        how = Message("{how} ({seconds:compact})", how=how, seconds=time.monotonic() - self.began)
        return Message("{what}: {reason}", what=how, reason=self.reason) if self.reason else how


@dataclass
class Sweep:
    folder: Path
    runs: list[SweepRun]

    def ranked(self) -> list[SweepRun]:
        """The runs that have finished by now, the best first."""
        finished = [run for run in self.runs if run.look() == "finished"]
        return sorted(finished, key=lambda run: (run.best_val_loss is None, run.best_val_loss or 0.0, run.name))


# --- which runs there are ---


def plan_sweep(arguments: Sequence[str]) -> Sweep:
    """A run for each combination of values. Raises UsageError for the first that can't be trained."""
    grid = list(_grid(arguments))
    varied = [key for key, values in grid if len(values) > 1]
    combinations = [(arguments, resolve(arguments)) for arguments in itertools.product(*(values for _, values in grid))]
    if not varied:
        raise UsageError(
            "no setting has several values, so there is nothing to sweep\n"
            "Separate them by commas, texts in brackets: --learning_rate=1e-3,1e-2 --dataset=[one,two]\n"
            "For one run: nanoscope train"
        )
    first = combinations[0][1]
    if first.config.overwrite or first.config.init_from in ("resume", "auto"):
        raise UsageError(
            "leave --overwrite and --init_from=resume|auto out: a sweep deletes nothing, and the same command again "
            "resumes it"
        )
    folder = Path(first.config.out_dir or RUNS / f"{first.name}-sweep")
    runs: dict[str, SweepRun] = {}
    for chosen, each in combinations:
        settings = {key: getattr(each.config, key) for key in varied}
        name = _name(settings)
        run = SweepRun(name, folder / name, chosen, settings, each.config)
        run.check_settings()
        if runs.setdefault(name, run).settings != settings:  # 1e-3 and 0.001 are one value, and one run
            raise UsageError(
                "two runs would be called {name}: their values differ too little to name folders", name=name
            )
    return Sweep(folder, list(runs.values()))


def _name(settings: dict[str, Any]) -> str:
    """The name of a run's folder, from the settings that vary."""
    parts = []
    for key, value in settings.items():
        shown = f"{value:g}" if isinstance(value, float) else Path(str(value)).name
        parts.append(f"{SHORT_KEYS.get(key, key)}={shown}")
    return re.sub(r"[^\w.+=,-]+", "-", ",".join(parts))[:LONGEST_NAME].strip(".-")


def _grid(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """For each argument, the setting it belongs to, and the arguments that replace it in the runs.

    Numbers and fixed words are separated by commas; texts, which may contain some, only in [brackets].
    """
    for word in arguments:
        flag, _, text = word.partition("=")
        key = flag.lstrip("-").replace("-", "_")
        values = [value.strip() for value in text.strip("[]").split(",") if value.strip()]
        separate = text[:1] + text[-1:] == "[]" or (key in KEYS and str not in alternatives(TYPES[key]))
        yield key, [f"{flag}={value}" for value in values] if values and separate else [word]


# --- training them ---


def run_sweep(sweep: Sweep, jobs: int, say: Callable[[Message], None]) -> int | None:
    """Train what is not done yet. Returns the signal that stopped the sweep, if one did."""
    _prepare_datasets(sweep)
    folder = lock_folder(sweep.folder)
    try:
        with StopRequest() as stop:
            _train(sweep.runs, jobs, say, stop)
    finally:
        folder.release()
    return stop.signal


def _train(runs: list[SweepRun], jobs: int, say: Callable[[Message], None], stop: StopRequest) -> None:
    """Keep `jobs` processes busy until all is done, or until a stop is requested and all runs are saved."""
    running: list[SweepRun] = []
    cores = psutil.cpu_count(logical=False) or 1
    shared = {"OMP_NUM_THREADS": str(max(1, cores // jobs))} if jobs > 1 else {}

    def line(run: SweepRun, what: Message) -> None:
        place = f"[{runs.index(run) + 1}/{len(runs)}]"
        say(Message("{place} {name}: {what}", place=place, name=run.name, what=what))

    queue = [run for run in runs if run.look() not in DONE]
    try:
        while (queue or running) and not stop.requested:
            for run in [run for run in running if run.process.poll() is not None]:
                running.remove(run)
                line(run, run.outcome())
            while queue and len(running) < jobs:
                run = queue.pop(0)
                resuming = Message("resuming at step {step}", step=str(run.step))
                line(run, resuming if run.status == "stopped" else Message("training"))
                run.start({**shared, **os.environ})
                running.append(run)
            stop.wait(POLL_SECONDS)
    finally:
        _stop(running)


def _stop(running: list[SweepRun]) -> None:
    """Each run saves after its current iteration; a second Ctrl-C ends them at once."""
    try:
        for run in running:
            run.process.terminate()
        for run in running:
            run.process.wait()
    except KeyboardInterrupt:
        for run in running:
            run.process.kill()
        raise


def _prepare_datasets(sweep: Sweep) -> None:
    """Find or prepare the data once, before several processes would do so at the same time."""
    wanted = {(run.config.dataset, run.config.tokenizer, run.config.init_from) for run in sweep.runs}
    with stages() as show, redirect_stdout(sys.stderr):
        for dataset, tokenizer, init_from in sorted(wanted):
            kind = "gpt2" if tokenizer == "auto" and init_from.startswith("gpt2") else tokenizer
            find_dataset(dataset, kind, show)
