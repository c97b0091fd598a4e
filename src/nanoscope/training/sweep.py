"""A sweep: its grid of runs, sweep.toml, which records it, and the processes that train the runs."""

import itertools
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from nanoscope.checkpoint_files import checkpoint_folders
from nanoscope.config import KEYS, TYPES, InvalidConfigError, TrainConfig, alternatives, toml_value
from nanoscope.config_sources import Resolved, presets, resolve
from nanoscope.data.find import find_dataset
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import RUNS, read_small, write_atomically
from nanoscope.messages import Joined, Text, printable
from nanoscope.runs.glance import glance, version_of
from nanoscope.training.console import StageDisplay
from nanoscope.training.lock import RunLock
from nanoscope.training.stopping import StopRequest

MOST_RUNS = 1000
MOST_MISTAKES = 20
LONGEST_NAME = 100  # characters of a folder's name
SHORT_KEYS = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "bs"}
REMOVED = {
    "random": Text("--random no longer exists: a sweep trains every combination; list fewer values"),
    "stop_hopeless": Text(
        "--stop_hopeless no longer exists: leave it out; --patience=N ends runs that have stopped improving"
    ),
}
POLL_SECONDS = 0.2
QUIT_SECONDS = 5.0  # for processes that were told to quit at once
NO_DIRECTIONS = dict.fromkeys([0x200F, 0x2068, 0x2069])  # the marks of right-to-left text

Status = Literal["finished", "failed", "stopped", "missing", "elsewhere"]
"""Of a run on disk. stopped: it can be resumed; elsewhere: another process is training it."""
Words = tuple[str, ...]
"""Arguments of `nanoscope train`."""


@dataclass(frozen=True)
class PlannedRun:
    name: str
    folder: Path
    words: Words
    settings: dict[str, Any]  # those that the sweep varies
    config: TrainConfig = field(repr=False)


@dataclass(frozen=True)
class RunResult:
    run: PlannedRun
    status: Status
    reason: str | None
    step: int | None
    best_val_loss: float | None

    @property
    def is_done(self) -> bool:
        """Whether the same command would leave it alone."""
        return self.status in ("finished", "failed")


@dataclass
class Sweep:
    folder: Path
    runs: list[PlannedRun]
    settings: dict[str, Any]
    """What all runs have in common: what makes it the same sweep."""
    swept: dict[str, list[Any]]
    failed: dict[str, str] = field(default_factory=dict)
    """The names of runs, and why they failed."""

    @property
    def record(self) -> Path:
        return self.folder / "sweep.toml"

    def results(self) -> list[RunResult]:
        return [self.result(run) for run in self.runs]

    def result(self, run: PlannedRun) -> RunResult:
        """A run as it is on disk."""
        seen, reason = None, self.failed.get(run.name)
        with suppress(OSError):
            seen = glance(run.name, run.folder, version_of(run.folder))
        state = seen.state if seen else None
        status: Status = "missing"
        if state == "finished":
            status, reason = "finished", None
        elif state == "live" and (run.folder / "lock.json").exists():
            status, reason = "elsewhere", None
        elif state == "failed" or reason:
            status, reason = "failed", reason or Text("the loss is not finite")
        elif checkpoint_folders(run.folder / "checkpoints"):
            status = "stopped"
        return RunResult(run, status, reason, seen.step if seen else None, seen.best if seen else None)

    def read_record(self) -> None:
        """Add what the folder knows about this sweep. Refuses a folder that holds another one."""
        if not self.record.exists():
            return
        try:
            known = tomllib.loads(read_small(self.record).decode("utf-8"))
            settings, swept, failed = dict(known["settings"]), dict(known["swept"]), dict(known.get("failed", {}))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, JobError) as error:
            raise JobError(
                "{path} cannot be read: {reason}\nUse another folder: --out_dir=FOLDER",
                path=self.record,
                reason=why(error),
            ) from None
        differences = [
            Text("{setting} there, {here} here", setting=f"{key}={value}", here=self.settings[key])
            for key, value in settings.items()
            if self.settings.get(key, value) != value  # a newer nanoscope may have more settings
        ]
        if set(swept) != set(self.swept):
            varied = Text("it varies {keys}, this one {here}", keys=", ".join(swept), here=", ".join(self.swept))
            differences.insert(0, varied)
        if differences:
            raise UsageError(
                "{folder} holds another sweep: {differences}\nUse another folder: --out_dir={quoted}",
                folder=self.folder,
                differences=Joined("; ", differences[:4]),
                quoted=shlex.quote(f"{self.folder}-2"),
            )
        self.swept = {key: list(dict.fromkeys([*values, *self.swept[key]])) for key, values in swept.items()}
        # A run that failed is tried again, unless its events say that the loss was not finite: that would happen again.
        again = {result.run.name for result in self.results() if result.status != "failed"}
        self.failed = {name: reason for name, reason in failed.items() if name not in again}

    def write_record(self, command: str) -> None:
        lines = ["# A sweep. Its command, given again, continues it.", f"command = {toml_value(command)}"]
        for name, values in (("settings", self.settings), ("swept", self.swept), ("failed", self.failed)):
            lines += ["", f"[{name}]"]
            lines += [f"{k if k.isidentifier() else toml_value(k)} = {toml_value(v)}" for k, v in values.items()]
        write_atomically(self.record, "\n".join(lines) + "\n")


# --- which runs there are ---


def plan_sweep(words: Sequence[str]) -> Sweep:
    """A run for each combination of values. Raises UsageError with the mistakes of all of them."""
    grid = _grid(words)
    out_dir = grid.pop("out_dir", [""])[0].partition("=")[2]
    resolved = _resolve_all(grid)
    varied = [key for key, values in grid.items() if len(values) > 1]
    if not varied:
        raise UsageError(
            "no setting has several values, so there is nothing to sweep\n"
            "Separate them by commas, texts in brackets: --learning_rate=1e-3,1e-2 --dataset=[one,two]\n"
            "For one run: nanoscope train"
        )
    folder = Path(out_dir or RUNS / _common_name([each.name for _, each in resolved]))
    runs: dict[str, PlannedRun] = {}
    for chosen, each in resolved:
        words_of = dict(zip(grid, chosen, strict=True))
        settings = {
            key.split()[0]: getattr(each.config, key) if key in KEYS else Path(words_of[key]).stem for key in varied
        }
        name = _folder_name(settings)
        run = PlannedRun(name, folder / name, chosen, settings, each.config)
        if runs.setdefault(name, run).settings != settings:  # 1e-3 and 0.001 are one value, and one run
            raise UsageError(
                "two runs would be called {name}: their values differ too little to name folders", name=name
            )
    swept = {key: list(dict.fromkeys(run.settings[key] for run in runs.values())) for key in settings}
    configs = [asdict(run.config) for run in runs.values()]
    common = {
        key: value
        for key, value in configs[0].items()
        if key not in (*swept, "out_dir", "overwrite") and all(config[key] == value for config in configs)
    }
    return Sweep(folder, list(runs.values()), common, swept)


def _grid(words: Iterable[str]) -> dict[str, list[str]]:
    """For each config ('config 0') and setting, the arguments that stand for its values."""
    grid: dict[str, list[str]] = {}  # a flag that is given twice counts as it was given last
    for number, (key, text) in enumerate(_flags(list(words))):
        if key is None:
            names = text.split(",")
            known = len(names) > 1 and all(name in presets() or Path(name).exists() for name in names)
            grid[f"config {number}"] = names if known else [text]
        elif key == "overwrite":
            raise UsageError("a sweep deletes nothing: leave --overwrite out, or delete the folder of a run yourself")
        elif key == "init_from" and text in ("resume", "auto"):
            raise UsageError("leave --init_from={text} out: the same command again resumes a sweep", text=text)
        elif key in REMOVED:
            raise UsageError(REMOVED[key])
        elif ".." in text and key in KEYS and {int, float} & set(alternatives(TYPES[key])):
            raise UsageError("--{key}={text}: list the values; a sweep doesn't draw from ranges", key=key, text=text)
        else:
            grid[key] = [f"--{key}={value}" for value in _values(key, text)]
    return grid


def _flags(words: list[str]) -> Iterable[tuple[str | None, str]]:
    """Configs (key None) and flags, in the spellings that `train` accepts."""
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            yield None, word
            continue
        key, equals, text = word.lstrip("-").partition("=")
        if not equals:
            text = words.pop(0) if words and not words[0].startswith("--") else "True"
        yield key.replace("-", "_"), text


def _values(key: str, text: str) -> list[str]:
    """Numbers and fixed words are separated by commas; texts, which may contain some, only in [brackets]."""
    if text.startswith("[") and text.endswith("]"):
        values = text[1:-1].split(",")
    elif key in KEYS and str not in alternatives(TYPES[key]):
        values = text.split(",")
    else:
        return [text]
    return [value.strip() for value in values if value.strip()] or [text]


def _resolve_all(grid: Mapping[str, Sequence[str]]) -> list[tuple[Words, Resolved]]:
    """The words and the settings of each combination."""
    total = math.prod(len(values) for values in grid.values())
    if total > MOST_RUNS:
        raise UsageError("that is {total:,} runs, more than {most:,}: list fewer values", total=total, most=MOST_RUNS)
    found: list[tuple[Words, Resolved]] = []
    mistakes: dict[Text, None] = {}
    for words in itertools.product(*grid.values()):
        try:
            found.append((words, resolve(words)))
        except UsageError as error:
            mistakes |= dict.fromkeys(error.mistakes if isinstance(error, InvalidConfigError) else [error.text])
            if len(mistakes) >= MOST_MISTAKES:
                break
    if mistakes:
        raise UsageError(
            "nothing was started, because of mistakes in the settings:\n- {listed}",
            listed=Joined("\n- ", itertools.islice(mistakes, MOST_MISTAKES)),
        )
    return found


def _common_name(names: Sequence[str]) -> str:
    """'laptop-sweep' for laptop-one and laptop-two, which differ in their data."""
    parts = zip(*(name.split("-") for name in names), strict=False)
    common = [each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, parts)]
    return "-".join([*common, "sweep"])


def _folder_name(settings: Mapping[str, Any]) -> str:
    """'lr=0.001,seed=1': readable, stable and safe on every file system."""
    parts = (f"{SHORT_KEYS.get(key, key)}={_short(value)}" for key, value in settings.items())
    return re.sub(r"[^\w.+=,-]+", "-", ",".join(parts))[:LONGEST_NAME].strip(".-") or "run"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)


# --- training them ---


def run_sweep(sweep: Sweep, command: str, jobs: int, say: Callable[[Text], None]) -> int | None:
    """Train what is not done yet. Returns the signal that stopped the sweep, if one did."""
    _prepare_datasets(sweep)
    try:
        sweep.folder.mkdir(parents=True, exist_ok=True)
        lock = RunLock(sweep.folder).acquire()
        sweep.write_record(command)
    except OSError as error:
        raise JobError(
            "{folder} cannot be written: {reason}\nChoose another: --out_dir=DIR",
            folder=sweep.folder,
            reason=why(error),
        ) from None
    try:
        with StopRequest() as stop:
            _Runner(sweep, command, jobs, say).run(stop)
    finally:
        lock.release()
    return stop.signal


class _Runner:
    """Keeps `jobs` processes busy with the runs that are not done."""

    def __init__(self, sweep: Sweep, command: str, jobs: int, say: Callable[[Text], None]) -> None:
        self._sweep, self._command, self._jobs, self._say = sweep, command, jobs, say
        self._environments = environments(jobs, [run.config.device for run in sweep.runs])
        self._queue = [result.run for result in sweep.results() if not result.is_done]
        self._running: list[_Job] = []
        self._seconds: list[float] = []  # of the runs that were trained from beginning to end
        self._waiting = False

    def run(self, stop: StopRequest) -> None:
        """Returns when all is done, or when a stop was requested and all runs are saved."""
        try:
            while (self._queue or self._running) and not stop.requested:
                for job in self._ended():
                    self._report(job)
                self._start()
                stop.wait(POLL_SECONDS)
        finally:
            self._stop_all()

    def _start(self) -> None:
        for run in list(self._queue):
            if len(self._running) == self._jobs:
                return
            result = self._sweep.result(run)
            if result.status == "elsewhere":  # the process of a sweep that was killed finishes it
                continue
            self._queue.remove(run)
            if result.is_done:
                continue
            slot = min(set(range(self._jobs)) - {job.slot for job in self._running})
            self._running.append(_Job(run, result.status == "stopped", slot, self._environments[slot]))
            resuming = Text("resuming at step {step}", step=str(result.step))
            self._line(run, resuming if result.status == "stopped" else Text("training"))
        if self._queue and not self._running and not self._waiting:
            self._waiting = True
            self._say(Text("waiting for {name}, which another process trains", name=self._queue[0].name))

    def _ended(self) -> list["_Job"]:
        """The jobs whose process has ended."""
        ended = [job for job in self._running if job.process.poll() is not None]
        self._running = [job for job in self._running if job not in ended]
        return ended

    def _report(self, job: "_Job") -> None:
        """Record and say how a run has ended, by itself."""
        if job.process.returncode != 0 and self._sweep.result(job.run).status != "finished":
            self._sweep.failed[job.run.name] = job.problem()
        with suppress(OSError):  # a full disk must not keep us from training the others
            self._sweep.write_record(self._command)
        result, seconds = self._sweep.result(job.run), job.seconds
        how = Text("failed") if result.status == "failed" else Text("stopped")
        if result.status == "finished":
            how = Text("finished")
            if result.best_val_loss is not None:
                how = Text("finished, best validation loss {loss:.4f}", loss=result.best_val_loss)
            if not job.resumed:
                self._seconds.append(seconds)
        text = Text("{how} ({seconds:duration})", how=how, seconds=seconds)
        if result.reason:
            text = Text("{what}: {reason}", what=text, reason=result.reason)
        if self._seconds and (self._queue or self._running):
            mean = sum(self._seconds) / len(self._seconds)
            left = [max(0.0, mean - other.seconds) for other in self._running] + [mean] * len(self._queue)
            remaining = Text("about {seconds:duration} left", seconds=max(sum(left) / self._jobs, *left))
            text = Joined(" · ", [text, remaining])
        self._line(job.run, text)

    def _line(self, run: PlannedRun, what: Text) -> None:
        place = f"[{self._sweep.runs.index(run) + 1}/{len(self._sweep.runs)}]"
        self._say(Text("{place} {name}: {what}", place=place, name=run.name, what=what))

    def _stop_all(self) -> None:
        """Each run saves after its current iteration; a second Ctrl-C ends them at once."""
        for job in self._running:
            job.send(signal.SIGTERM)
        try:
            while self._running:
                self._ended()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            for job in self._running:
                job.send(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
            until = time.monotonic() + QUIT_SECONDS
            for job in self._running:
                with suppress(subprocess.TimeoutExpired):
                    job.process.wait(max(0.0, until - time.monotonic()))
                job.process.kill()
                job.process.wait()
            raise


class _Job:
    """The process that trains a run. What it prints is in the run's console.log; errors are kept for the report."""

    def __init__(self, run: PlannedRun, resume: bool, slot: int, environment: Mapping[str, str]) -> None:
        self.run, self.resumed, self.slot = run, resume, slot
        words = [str(run.folder), "--init_from=resume"]
        if not resume:
            words = [*run.words, f"--out_dir={run.folder}"]
            chosen = any(word.startswith("--init_from") for word in run.words)
            if (run.folder / "events.jsonl").exists():  # killed before its first checkpoint
                words.append("--overwrite=True" if chosen else "--init_from=auto")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope", "train", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches the sweep alone, which passes it on
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def send(self, number: int) -> None:
        with suppress(OSError):
            self.process.send_signal(number)

    def problem(self) -> str:
        """Why it failed, in a line."""
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace").translate(NO_DIRECTIONS)
        lines = [line for line in text.splitlines() if line.strip()]
        said = [line.removeprefix("nanoscope: ") for line in lines if line.startswith("nanoscope: ")]
        if said:
            return printable(said[-1])
        status = self.process.returncode
        number = -status if status < 0 else status - 128  # the second if it saved first
        how = Text("exit status {status:d}", status=status)
        if number in set(signal.Signals):
            how = Text("ended by {signal}", signal=signal.Signals(number).name)
        return Text("{how} {line}", how=how, line=printable(lines[-1])) if lines else how


def _prepare_datasets(sweep: Sweep) -> None:
    """Find or prepare the data once, before several processes would do so at the same time."""
    wanted = {(run.config.dataset, run.config.tokenizer, run.config.init_from) for run in sweep.runs}
    with StageDisplay() as display, redirect_stdout(sys.stderr):
        for dataset, tokenizer, init_from in sorted(wanted):
            kind = "gpt2" if tokenizer == "auto" and init_from.startswith("gpt2") else tokenizer
            find_dataset(dataset, kind, display.show)


def environments(jobs: int, devices: Sequence[str], gpus: Sequence[str] | None = None) -> list[dict[str, str]]:
    """The environment of each job: on GPUs one device each, otherwise a share of the threads."""
    environment = dict(os.environ)
    if jobs == 1:
        return [environment]
    if gpus is None:
        gpus = _visible_gpus() if any(device in ("auto", "cuda") for device in devices) else []
    if gpus:
        return [environment | {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} for slot in range(jobs)]
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    return [{"OMP_NUM_THREADS": str(max(1, cores // jobs)), **environment} for _ in range(jobs)]


def _visible_gpus() -> list[str]:
    import torch  # late: most sweeps on a CPU do without it

    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    count = torch.cuda.device_count()
    return named[:count] if named else [str(number) for number in range(count)]
