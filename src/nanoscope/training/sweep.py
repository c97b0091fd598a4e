"""Runs the runs of a sweep, each in a process of its own: begins, resumes or skips them, and stops them together."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Literal

import psutil

from nanoscope.checkpoint_files import checkpoint_folders
from nanoscope.data.find import find_dataset
from nanoscope.errors import JobError, why
from nanoscope.messages import Text
from nanoscope.runs.console import console_lines
from nanoscope.runs.events import Note, encode
from nanoscope.runs.glance import Glance, glance, version_of
from nanoscope.runs.own import OwnRun
from nanoscope.runs.run import Evaluation
from nanoscope.training.appended_file import AppendedFile
from nanoscope.training.console import StageDisplay
from nanoscope.training.hopeless import reason_to_give_up
from nanoscope.training.lock import RunLock
from nanoscope.training.stopping import StopRequest
from nanoscope.training.sweep_display import SweepDisplay
from nanoscope.training.sweep_plan import PlannedRun, Record, Sweep
from nanoscope.untrusted import printable

POLL_SECONDS = 0.2
NO_DIRECTIONS = dict.fromkeys([0x200F, 0x2068, 0x2069])  # the marks of right-to-left text
STOP_SECONDS = 5.0  # for children that were told to quit at once

Status = Literal["finished", "failed", "hopeless", "stopped", "missing", "elsewhere"]
"""Of a run on disk. stopped: it can be resumed; elsewhere: another process is training it."""


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
        return self.status in ("finished", "failed", "hopeless")


def run_sweep(
    sweep: Sweep, record: Record, jobs: int, stop_hopeless: bool, display: SweepDisplay
) -> tuple[list[RunResult], int | None]:
    """Train what is not done yet. Returns all results, and the signal that stopped the sweep, if one did."""
    prepare_datasets(sweep)
    try:
        sweep.folder.mkdir(parents=True, exist_ok=True)
        lock = RunLock(sweep.folder).acquire()
        record.write()
    except OSError as error:
        raise JobError(
            "{folder} cannot be written: {reason}\nChoose another: --out_dir=DIR",
            folder=sweep.folder, reason=why(error),
        ) from None  # fmt: skip
    try:
        with StopRequest() as stop:
            SweepRunner(sweep, record, jobs, stop_hopeless, display).run(stop)
    finally:
        lock.release()
    return [look_at(run, record) for run in sweep.runs], stop.signal


def look_at_all(sweep: Sweep, record: Record, stop_hopeless: bool) -> list[RunResult]:
    """The runs before a sweep begins or continues. Forgets the outcomes that it would not leave as they are.

    A run that failed is tried again, unless its loss was not finite, which would happen again. One that was given up
    is resumed if the user no longer asks for that.
    """
    for run in sweep.runs:
        seen = _glance(run)
        if seen is None or seen.state != "failed":
            record.failed.pop(run.name, None)
        if not stop_hopeless:
            record.hopeless.pop(run.name, None)
    return [look_at(run, record) for run in sweep.runs]


def look_at(run: PlannedRun, record: Record) -> RunResult:
    """A run as it is on disk."""
    seen = _glance(run)
    status: Status = "missing"
    reason = None
    if seen is not None and seen.state == "finished":
        status = "finished"
    elif seen is not None and seen.state == "live" and (run.folder / "lock.json").exists():
        status = "elsewhere"
    elif run.name in record.hopeless:
        status, reason = "hopeless", record.hopeless[run.name]
    elif (seen is not None and seen.state == "failed") or run.name in record.failed:
        status, reason = "failed", record.failed.get(run.name, Text("the loss is not finite"))
    elif checkpoint_folders(run.folder / "checkpoints"):
        status = "stopped"
    return RunResult(run, status, reason, seen.step if seen else None, seen.best if seen else None)


def _glance(run: PlannedRun) -> Glance | None:
    try:
        return glance(run.name, run.folder, version_of(run.folder))
    except OSError:
        return None


class Job:
    """The process that trains a run. What it prints is in the run's console.log; errors are kept for the report."""

    def __init__(self, run: PlannedRun, resume: bool, slot: int, environment: dict[str, str]) -> None:
        self.run, self.slot = run, slot
        words = [str(run.folder), "--init_from=resume"]
        if not resume:
            words = [*run.words, f"--out_dir={run.folder}"]
            chosen = any(word.startswith("--init_from") for word in run.words)
            if (run.folder / "events.jsonl").exists():  # killed before its first checkpoint
                words.append("--overwrite=True" if chosen else "--init_from=auto")
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope", "train", *words], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._errors,
            start_new_session=os.name != "nt",  # Ctrl-C on the terminal reaches the sweep alone, which passes it on
        )  # fmt: skip
        self.began = time.monotonic()
        self.first_step = self.step = (_step(run) or 0) if resume else 0
        self.given_up: str | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def ask_to_stop(self) -> None:
        """It saves after its current iteration."""
        with suppress(OSError):
            self.process.terminate()

    def look(self) -> None:
        self.step = max(_step(self.run) or 0, self.first_step)

    def problem(self) -> str:
        """Why it failed, in a line."""
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace").translate(NO_DIRECTIONS)
        lines = [line for line in text.splitlines() if line.strip()]
        said = [line.removeprefix("nanoscope: ") for line in lines if line.startswith("nanoscope: ")]
        status = self.process.returncode
        number = -status if status < 0 else status - 128  # the second if it saved first
        names = {each.value: each.name for each in signal.Signals}
        if said:
            return printable(said[-1])
        how = Text("exit status {status:d}", status=status)
        if number in names:
            how = Text("ended by {signal}", signal=names[number])
        return Text("{how} {line}", how=how, line=printable(lines[-1])) if lines else how


def _step(run: PlannedRun) -> int | None:
    seen = _glance(run)
    return seen.step if seen else None


class SweepRunner:
    def __init__(self, sweep: Sweep, record: Record, jobs: int, stop_hopeless: bool, display: SweepDisplay) -> None:
        self._sweep, self._record, self._jobs, self._stop_hopeless = sweep, record, jobs, stop_hopeless
        self._display = display
        self._running: list[Job] = []
        self._queue: deque[PlannedRun] = deque()
        self._finished: set[str] = set()
        self._logs = {run.name: OwnRun(run.folder) for run in sweep.runs} if stop_hopeless else {}
        self._evals = {name: _evaluations(log) for name, log in self._logs.items()}
        self._environments = environments(jobs, [run.config.device for run in sweep.runs])

    def run(self, stop: StopRequest) -> None:
        """Train what is not finished. Returns when all is done, or when a stop was requested and all are saved."""
        results = [look_at(run, self._record) for run in self._sweep.runs]
        self._queue.extend(result.run for result in results if not result.is_done)
        self._finished = {result.run.name for result in results if result.status == "finished"}
        try:
            while (self._queue or self._running) and not stop.requested:
                self._poll()
                self._give_up_hopeless()
                self._start_some()
                self._display.update(self._running, self._queue)
                stop.wait(POLL_SECONDS)
        finally:
            try:
                self._stop_all()
            except KeyboardInterrupt:  # a second Ctrl-C
                self._quit_all()
                raise
            finally:
                self._display.close()

    def _start_some(self) -> None:
        for run in list(self._queue):
            if len(self._running) == self._jobs:
                return
            result = look_at(run, self._record)
            if result.status == "elsewhere":  # the process of a sweep that was killed: it is finished there
                continue
            self._queue.remove(run)
            if result.status in ("stopped", "missing"):
                slot = min(set(range(self._jobs)) - {job.slot for job in self._running})
                job = Job(run, result.status == "stopped", slot, self._environments[slot])
                self._running.append(job)

    def _stop_all(self) -> None:
        for job in self._running:
            job.ask_to_stop()
        while self._running:
            self._poll(stopping=True)
            time.sleep(POLL_SECONDS)

    def _poll(self, stopping: bool = False) -> None:
        for job in list(self._running):
            ended = job.process.poll() is not None
            job.look()
            if not ended:
                continue
            self._running.remove(job)
            if look_at(job.run, self._record).status == "finished":
                self._finished.add(job.run.name)
            elif job.given_up:
                self._record.hopeless[job.run.name] = job.given_up
                _note(job.run, Text("stopped by the sweep: {reason}", reason=job.given_up))
            elif job.process.returncode != 0 and not stopping:
                self._record.failed[job.run.name] = job.problem()
            with suppress(OSError):  # a full disk must not keep us from stopping the others
                self._record.write()
            self._display.ended(look_at(job.run, self._record), job, self._running, self._queue)

    def _give_up_hopeless(self) -> None:
        if not self._stop_hopeless:
            return
        for job in self._running:  # the evaluations of the others have not changed
            self._evals[job.run.name] = _evaluations(self._logs[job.run.name])
        for job in self._running:
            others = [run for run in self._sweep.runs if run is not job.run and _is_comparable(run, job.run)]
            finished = sum(run.name in self._finished for run in others)
            seen = [self._evals[run.name] for run in others]
            reason = reason_to_give_up(self._evals[job.run.name], job.run.total_steps, seen, finished)
            if reason and job.given_up is None:
                job.given_up = reason
                job.ask_to_stop()

    def _quit_all(self) -> None:
        """End them at once: what they saved is whole, the rest is lost."""
        for job in self._running:
            with suppress(OSError):
                job.process.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        for job in self._running:
            try:
                job.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()


def prepare_datasets(sweep: Sweep) -> None:
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


def _is_comparable(one: PlannedRun, two: PlannedRun) -> bool:
    """Whether losses at the same step are of the same data, after as many tokens, at the same point of the schedule."""
    keys = ("dataset", "tokenizer", "block_size", "tokens_per_step", "max_iters", "eval_iters")
    return all(getattr(one.config, key) == getattr(two.config, key) for key in keys)


def _evaluations(log: OwnRun) -> list[Evaluation]:
    with suppress(OSError, JobError):
        runs = log.read().runs
        return [each for each in runs[-1].evals if each.step > 0] if runs else []
    return []


def _note(run: PlannedRun, text: str) -> None:
    """A line in both logs of a run whose process has ended."""
    note = Note(text=text, time=datetime.now(UTC).isoformat(timespec="milliseconds"))
    lines = "".join(f"{printable(line)}\n" for line in console_lines(note, str(run.folder)))
    for name, content in (("events.jsonl", encode(note)), ("console.log", lines)):
        file = AppendedFile(run.folder / name)
        file.write(content)
        file.close()
