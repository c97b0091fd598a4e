"""What a run says: nanoGPT-shaped lines on the console and in console.log, the same facts in events.jsonl."""

import dataclasses
import importlib
import math
from typing import Any

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.runs.events import AppendedFile, EventWriter
from nanoscope.training.evaluate import Estimate
from nanoscope.training.pace import Pace, short_count, short_duration
from nanoscope.training.run_folder import RunFolder
from nanoscope.untrusted import printable
from nanoscope.views.progress import TrainingView


class Logbook:
    """Writes everything a run reports; only the first process has one that writes."""

    def __init__(self, folder: RunFolder, config: TrainConfig, view: TrainingView, started_ago: float) -> None:
        self.config, self.view = config, view
        self.events = EventWriter(folder.events, started_ago)
        self._console = AppendedFile(folder.console)
        self._told: str | None = None
        self._wandb = _start_wandb(config)

    def line(self, text: str) -> None:
        text = printable(text)  # it may name files and tokenizers of others
        self.view.line(text)
        self._console.write(text + "\n")
        trouble = self.events.file.trouble or self._console.trouble
        if trouble is not None and self._told is None:
            self.view.line(f"warning: {trouble}; training goes on, and what belongs there is kept until it can be")
        self._told = trouble

    def iteration(
        self, step: int, loss: float, seconds: float, data_seconds: float, lr: float, grad_norm: float | None,
        mfu: float | None, pace: Pace, best_val_loss: float | None,
    ) -> None:  # fmt: skip
        eta = pace.eta_seconds(step + 1)
        speed = short_count(pace.tokens_per_second)
        left = f", eta {short_duration(eta)}" if eta is not None else ""
        utilisation = "n/a" if mfu is None else f"{100 * mfu:.2f}%"
        self.line(f"iter {step}: loss {loss:.4f}, time {1000 * seconds:.2f}ms, mfu {utilisation}, tok/s {speed}{left}")
        best = "" if best_val_loss is None else f" · best val {best_val_loss:.4f}"
        self.view.update(step + 1, f"loss {loss:.4f}{best} · {speed} tok/s{left.replace(',', ' ·')}")
        self.events.write(
            "iter", step=step, loss=loss, seconds=seconds, data_seconds=data_seconds, steps=len(pace.since_line),
            mean_seconds=sum(pace.since_line) / len(pace.since_line), max_seconds=max(pace.since_line), lr=lr,
            grad_norm=grad_norm, tokens_per_second=pace.tokens_per_second, mfu=mfu, eta_seconds=eta,
        )  # fmt: skip
        pace.line_written()

    def evaluation(self, step: int, found: dict[str, Estimate], seconds: float, best: bool, lr: float) -> None:
        train, val = found["train"], found["val"]
        error = f" ± {val.stderr:.4f}" if math.isfinite(val.stderr) else ""
        self.line(f"step {step}: train loss {train.loss:.4f}, val loss {val.loss:.4f}{error}, eval {seconds:.2f}s")
        self.events.write(
            "eval", step=step, train_loss=train.loss, train_stderr=train.stderr, val_loss=val.loss,
            val_stderr=val.stderr, windows=val.windows, seconds=seconds, best=best,
        )  # fmt: skip
        if self._wandb is not None:
            self._wandb.log({"iter": step, "train/loss": train.loss, "val/loss": val.loss, "lr": lr})

    def close(self) -> None:
        self.events.file.close()
        self._console.close()
        if self._wandb is not None:
            self._wandb.finish()


def _start_wandb(config: TrainConfig) -> Any:
    if not config.wandb_log:
        return None
    check_wandb(config)
    wandb = importlib.import_module("wandb")
    return wandb.init(project=config.wandb_project, name=config.wandb_run_name, config=dataclasses.asdict(config))


def check_wandb(config: TrainConfig) -> None:
    """wandb_log without wandb is told before anything is started."""
    if config.wandb_log and importlib.util.find_spec("wandb") is None:
        raise UsageError("wandb_log=True needs the package wandb: pip install wandb, or --wandb_log=False")
