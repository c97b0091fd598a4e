"""A run that is being trained: how far it is, where it is kept, how it reports. startup.py puts one together."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nanoscope.config import LAST_NOTE, RUN_NOTES, TrainConfig, to_toml, without_options
from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import JobError, why
from nanoscope.files import write_atomically
from nanoscope.ladder import Place, place_of
from nanoscope.messages import Text
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
from nanoscope.model.flops import mfu
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.events import EndReason, Iter, Note, OutOfMemory, Start
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Step
from nanoscope.training.guards import SlowStepWatch, SpikeWatch
from nanoscope.training.machine_metrics import MachineMetrics
from nanoscope.training.pace import Pace, evaluation_due
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Reporter
from nanoscope.training.resume import Changes, Resumed, out_of_patience
from nanoscope.training.run_folder import RunFolder
from nanoscope.training.stopping import StopRequest

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
"""The fields of `Start` that the run's settings come with."""


@dataclass
class Run:
    config: TrainConfig
    folder: RunFolder
    state: TrainingState
    processes: Processes
    reporter: Reporter
    clock: PhaseClock
    pace: Pace
    checkpoints: CheckpointWriter
    metrics: MachineMetrics
    tokenizer: Tokenizer | None
    evaluation: str
    """What validation losses are measured on. Those of two evaluations can be compared if it is the same."""
    resumed: Resumed | None = None
    """How the settings of a resumed run were changed; None for a new run."""
    start: Start = field(default_factory=Start)
    best_stderr: float | None = None
    """The standard error of the best validation loss, if that was measured in this session."""
    spikes: SpikeWatch = field(default_factory=SpikeWatch)
    slow_steps: SlowStepWatch = field(default_factory=SlowStepWatch)

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

    def note_smaller_micro_batch(self, before: int, now: int) -> None:
        """Memory ran out: the engine continues with smaller micro-batches, and so will a resumed run."""
        self.state.micro_batch = now
        self.reporter.emit(OutOfMemory(step=self.state.step, micro_batch_before=before, micro_batch=now))

    def set_aside_damaged(self, used: LoadedCheckpoint) -> None:
        """Rename the checkpoints that were found damaged on the way to the one that is used, and say so."""
        for place in self.checkpoints.set_aside_damaged(used) if self.processes.first else ():
            text = Text("the damaged checkpoint is kept as {place}; delete it if you like", place=place)
            self.reporter.emit(Note(text=text))

    def write_config(self, *, if_missing: bool = False) -> None:
        """Write config.toml: the run's own settings, the versions and the machine.

        With `if_missing`, only if somebody has deleted it.
        """
        file = self.folder.path / "config.toml"
        if if_missing and file.exists():
            return
        try:
            write_atomically(file, to_toml(self.settings), sync=True)
        except OSError as error:
            if not if_missing:
                raise JobError("can't write {file}: {reason}", file=file, reason=why(error)) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The run's own settings, without what was typed for this session, and the table RUN_NOTES."""
        notes = {key: getattr(self.start, key) for key in ENVIRONMENT}
        # What dtype=auto means for this run on a CPU; a dtype that was typed for this session doesn't count.
        cpu_dtype = self.resumed.cpu_dtype if self.resumed else None
        if self.start.device == "cpu" and self.config.dtype == "auto":
            cpu_dtype = self.start.dtype
        if cpu_dtype is not None:
            notes["cpu_dtype"] = cpu_dtype
        notes[LAST_NOTE] = str(Path(self.start.data_folder or ".").resolve())  # so that it is found from any folder
        own = replace(self.config, **{key: before for key, (before, _) in self.for_session.items()})
        return {**without_options(asdict(own)), RUN_NOTES: notes}
