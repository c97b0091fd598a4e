"""A run that is being trained: how far it is, where it is kept, how it reports. launch.py puts one together."""

import math
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from nanoscope.checkpoint_files import checkpoint_name
from nanoscope.config import LAST_NOTE, RUN_NOTES, TrainConfig, to_toml, without_options
from nanoscope.files import write_atomically
from nanoscope.ladder import Place, place_of
from nanoscope.messages import Message
from nanoscope.model.checkpoint import TrainingState
from nanoscope.model.flops import mfu
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.events import (
    Checkpoint,
    CheckpointFailed,
    EndReason,
    Iter,
    OutOfMemory,
    Start,
)
from nanoscope.runs.windows import FOLDER, MOST_WINDOWS, encode_windows
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.engine import Abandoned, Engine, Step
from nanoscope.training.evaluate import Data, Estimate, Evaluator
from nanoscope.training.guards import SlowStepWatch, SpikeWatch
from nanoscope.training.machine import MachineMetrics
from nanoscope.training.pace import Pace, evaluation_due
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Reporter
from nanoscope.training.resume import Changes, Resumed, out_of_patience
from nanoscope.training.run_folder import RunFolder
from nanoscope.training.stopping import StopRequest

SHOW_AFTER_SECONDS = 3.0  # how far a step or an evaluation is
LAST_TRIES = 20  # every 30 s: ten minutes to make room
ENVIRONMENT = (
    "nanoscope",
    "torch",
    "python",
    "platform",
    "device",
    "device_name",
    "dtype",
    "compiled",
    "processes",
    "peak_flops",
    "peak_source",
    "dataset_fingerprint",
    "parameters",
)
"""The fields of `Start` that are recorded with the run's settings."""


class Run:
    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        data: Data,
        state: TrainingState,
        reporter: Reporter,
        clock: PhaseClock,
        resumed: Resumed | None,
    ) -> None:
        """`resumed`: how the settings of a resumed run were changed; None for a new run."""
        self.config, self.folder, self.state, self.resumed = config, folder, state, resumed
        self.reporter, self.clock, self.processes = reporter, clock, data.machine.processes
        self.tokenizer, self.evaluation = data.dataset.tokenizer, data.evaluation
        self.pace = Pace(config, clock)
        self.checkpoints = CheckpointWriter(folder, config.keep_checkpoints)
        self.checkpoints.saved_step = state.step if folder.holds_run() else None
        self.metrics, self.spikes, self.slow_steps = MachineMetrics(data.machine.device), SpikeWatch(), SlowStepWatch()
        self.start = Start()
        self.best_stderr: float | None = None
        """The standard error of the best validation loss, if that was measured in this session."""
        self.retry_at = math.inf
        """When to try again to save; never while the last save went well."""

    @property
    def read_only(self) -> bool:
        """Whether an existing run is only evaluated: then nothing in its folder changes."""
        return self.config.eval_only and self.resumed is not None

    @property
    def for_session(self) -> Changes:
        """Settings that were typed for this session only."""
        return self.resumed.for_session if self.resumed else {}

    @property
    def best_place(self) -> Place | None:
        """Where the best validation loss stands on the dataset's ladder."""
        best, ladder = self.state.best_val_loss, self.start.ladder
        return None if best is None or ladder is None else place_of(best, self.best_stderr, ladder)

    def evaluation_due(self) -> bool:
        return evaluation_due(self.state.step, self.config) and self.state.evaluated_at != self.state.step

    def sample_due(self) -> bool:
        step, interval = self.state.step, self.config.sample_interval
        return bool(interval and step and step % interval == 0)

    def reason_to_stop(self, stop: StopRequest) -> EndReason | None:
        config, step = self.config, self.state.step
        over_time = config.max_minutes > 0 and self.clock.wall_seconds >= 60 * config.max_minutes
        asked, over_time = self.processes.any(stop.requested, over_time)
        reasons: dict[EndReason, bool] = {
            "eval_only": config.eval_only,
            "finished": step >= config.max_iters,
            "patience": out_of_patience(self.state, config),
            "interrupted": asked,
            "max_minutes": over_time,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def progress(self, stop: StopRequest, phase: Literal["step", "eval"]) -> Abandoned:
        """Called before each batch of a step or evaluation: returns whether to stop, shows how far a long one is."""
        # Processes that share an iteration finish it: each waits for the gradients of the others.
        can_stop = phase == "eval" or self.processes.world == 1
        shown_from = time.monotonic() + SHOW_AFTER_SECONDS

        def abandoned(done: int, total: int) -> bool:
            if time.monotonic() > shown_from:
                facts = {"step": self.state.step, "where": f"{done + 1}/{total}"}
                step = Message("iteration {step:d}: micro-batch {where}", **facts)
                evaluation = Message("evaluation {step:d}: batch {where}", **facts)
                self.reporter.progress(step if phase == "step" else evaluation)
            return can_stop and stop.requested

        return abandoned

    def rate(self, step: int) -> float:
        return learning_rate(step, self.config) * self.state.lr_factor

    def advance(self, sequences_read: int) -> None:
        """One more iteration is done."""
        self.state.step, self.state.sequences = self.state.step + 1, sequences_read
        self.reporter.advance(self.state.step)

    def report_step(self, step: int, done: Step, data_seconds: float, flops_per_token: int) -> None:
        """Count a step that went well, log it if its turn has come, and say what is unusual about it."""
        seconds = data_seconds + done.seconds
        self.pace.add("step", seconds)
        if step % self.config.log_interval == 0:
            steps, mean_seconds, max_seconds = self.pace.since_last_line()
            speed = self.pace.tokens_per_second
            iteration = Iter(
                step=step,
                loss=done.loss,
                seconds=seconds,
                data_seconds=data_seconds,
                steps=steps,
                mean_seconds=mean_seconds,
                max_seconds=max_seconds,
                lr=self.rate(step),
                grad_norm=done.grad_norm,
                tokens_per_second=speed,
                mfu=mfu(speed, flops_per_token, self.start.peak_flops or None),
                eta_seconds=self.pace.eta_seconds(step + 1),
                **self.metrics.sample(),
            )
            self.reporter.emit(iteration, *self.spikes.notice(step, done.loss))
        self.reporter.emit(*self.slow_steps.notice(step, seconds, data_seconds))

    def note_micro_batch(self, now: int) -> None:
        """If memory ran out, the engine continues with smaller micro-batches, and so will a resumed run."""
        before = min(self.state.micro_batch or self.config.batch_size, self.config.batch_size)
        if now < before:
            self.state.micro_batch = now
            self.reporter.emit(OutOfMemory(step=self.state.step, micro_batch_before=before, micro_batch=now))

    def save(self, engine: Engine) -> bool:
        """Save the current state and report it. Returns whether it is saved.

        If not, training continues, and `retry_save` tries again.
        """
        if not self.processes.first:
            return True
        writer, state, seconds = self.checkpoints, self.state, self.checkpoints.RETRY_SECONDS
        with self.clock.phase("checkpoint") as timed:
            about = {"dataset_fingerprint": self.start.dataset_fingerprint, "evaluation": self.evaluation}
            facts = {"scaler": engine.scaler.state_dict(), "run": about, "settings": self.settings}
            failure = writer.save(engine.plain_model, engine.optimizer, state, facts, self.tokenizer)
        if failure is not None:
            if self.retry_at == math.inf:  # reported once
                text = Message("{failure}; trying again every {seconds:g} s", failure=failure, seconds=seconds)
                self.reporter.emit(CheckpointFailed(step=state.step, message=text))
            self.retry_at = time.monotonic() + seconds
            return False
        self.retry_at = math.inf
        if state.step > 0:  # before training there is no optimizer state, so that takes less
            self.pace.add("checkpoint", timed.seconds)
        path = f"{self.folder.checkpoints.name}/{checkpoint_name(state.step)}"
        best = state.best_step == state.step
        self.reporter.emit(Checkpoint(step=state.step, path=path, seconds=timed.seconds, best=best))
        return True

    def retry_save(self, engine: Engine) -> None:
        """After a save that failed, save what is reached by now. Called after every iteration, tries every 30 s."""
        if time.monotonic() >= self.retry_at:
            self.save(engine)

    def save_at_the_end(self, engine: Engine, stop: StopRequest) -> None:
        """Save the last checkpoint, which is what the run was for. If the disk is full, wait for room, or Ctrl-C."""
        if self.checkpoints.saved_step == self.state.step:
            return
        for _ in range(LAST_TRIES):
            if self.save(engine) or stop.wait(self.checkpoints.RETRY_SECONDS):
                return

    def keep_window_losses(self, evaluator: Evaluator, val: Estimate, best: bool) -> None:
        """Write windows/last.bin, and windows/best.bin if this evaluation is the best so far.

        Losses window by window let runs be compared more exactly than their means do.
        """
        if not self.processes.first or len(val.losses) > MOST_WINDOWS or not math.isfinite(val.loss):
            return
        numbers = [int(start) // evaluator.block_size for start in evaluator.starts["val"]]
        content = encode_windows(self.state.step, evaluator.block_size, numbers, val.losses)
        with suppress(OSError):  # a disk that is full is reported with the next checkpoint
            for name in ("last.bin", *(["best.bin"] if best else [])):
                write_atomically(self.folder.path / FOLDER / name, content)

    def write_config(self) -> None:
        """Write config.toml: the run's own settings, the versions and the machine. Each checkpoint has them too."""
        write_atomically(self.folder.path / "config.toml", to_toml(self.settings), sync=True)

    @property
    def settings(self) -> dict[str, Any]:
        """The run's own settings, without what was typed for this session, and the table RUN_NOTES."""
        facts = ((key, getattr(self.start, key)) for key in ENVIRONMENT)
        notes = {key: str(fact) if isinstance(fact, Message) else fact for key, fact in facts}  # in English
        # What dtype=auto means for this run on a CPU; a dtype that was typed for this session doesn't count.
        cpu_dtype = self.resumed.cpu_dtype if self.resumed else None
        if self.start.device == "cpu" and self.config.dtype == "auto":
            cpu_dtype = self.start.dtype
        if cpu_dtype is not None:
            notes["cpu_dtype"] = cpu_dtype
        notes[LAST_NOTE] = str(Path(self.start.data_folder or ".").resolve())  # so that it is found from any folder
        own = replace(self.config, **{key: before for key, (before, _) in self.for_session.items()})
        return {**without_options(asdict(own)), RUN_NOTES: notes}
