"""Hugging Face Trainer: a dict a log, its step only in the progress bars around it."""

import math
import re

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, TimeSource, Traits
from nanoscope.runs.text import without_prefix

_PAIR = re.compile(r"['\"]([\w/]{1,60})['\"]\s?:\s?['\"]?([^,'\"}\s]{1,40})")
_BAR = re.compile(r"\d{1,3}%\|[^|]{0,200}\|\s{0,4}(\d{1,12})/(\d{1,12}) \[(?:(\d{1,4}):)?(\d{1,2}):(\d\d)<")
_METRIC = re.compile(r"^\s{0,8}(eval_loss|eval_runtime)\s{1,40}=\s{1,40}(\S{1,24})")
_TOTAL = re.compile(r"Total optimization steps\s?=\s?([\d,]{1,20})")
_SAVING = re.compile(r"Saving model checkpoint to (\S{1,300})")
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")


class HuggingFace(Format):
    name = "hf-trainer"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="next", total_keys=("max_iters", "max_steps"))

    def __init__(self) -> None:
        super().__init__()
        self._total: int | None = None
        self._bar: tuple[int, float] | None = None  # step and elapsed seconds of the last bar
        self._waiting: dict[str, str] | None = None  # a log whose step the next bar tells
        self._began = False
        self._tokens_seen: tuple[int, float] | None = None

    def read(self, line: str) -> str | None:
        if "%|" in line:
            bar = _BAR.search(line)
            if bar:
                return self._read_bar(bar)
        if "{" in line and "loss" in line:
            pairs = dict(_PAIR.findall(line))
            if "loss" in pairs and ("epoch" in pairs or "learning_rate" in pairs or "grad_norm" in pairs):
                self._commit(None)
                self._waiting = pairs
                return "step"
            if "eval_loss" in pairs:
                self._commit(None)
                seconds = _optional(pairs, "eval_runtime")
                self.log.evaluation(None, number(pairs["eval_loss"]), seconds=seconds if seconds == seconds else None)
                return "eval"
            if "train_loss" in pairs and "train_runtime" in pairs:
                self._commit(None)
                self.log.finished()
                return "end"
        if "eval_loss" in line or "eval_runtime" in line:
            metric = _METRIC.match(without_prefix(line))
            if metric and metric[1] == "eval_loss":
                self._commit(None)
                self.log.evaluation(None, number(metric[2]))
                return "eval"
        total = _TOTAL.search(line)
        if total:
            self._total = int(total[1].replace(",", ""))
            self._began = False
            self.log.boundary()
            self.log.total(self._total)
            return "total"
        saving = _SAVING.search(line)
        if saving:
            self._commit(None)
            step = _CHECKPOINT.search(saving[1])
            if step or not self._is_final():
                self.log.checkpoint(int(step[1]) if step else None)
            return "checkpoint"
        return None

    def end(self) -> None:
        self._commit(None)

    def _is_final(self) -> bool:
        return self.log.current is not None and self.log.current.said_finished

    def _read_bar(self, bar: re.Match[str]) -> str | None:
        step, total = int(bar[1]), int(bar[2])
        if self._total is None or (step == 0 and total > self._total):
            self._total = total
        if total != self._total:
            return None  # an evaluation's bar, or a download's
        elapsed = int(bar[3] or 0) * 3600 + int(bar[4]) * 60 + int(bar[5])
        before = self._bar
        if self._waiting and before and before[0] > (self.log.last_step or 0) and before[0] % 5 == 0 != step % 5:
            self._commit(before[0])  # the bar has moved on since; logs are written at round steps
        self._bar = (step, float(elapsed))
        self._commit(step)
        return "bar"

    def _commit(self, bar_step: int | None) -> None:
        """Record the log that waits, now that its step is known (or as well as it can be guessed)."""
        pairs, self._waiting = self._waiting, None
        if pairs is None:
            return
        step = bar_step
        if step is None:
            every = self.log.facts.get("logging_steps", 1)
            last = self.log.last_step
            step = self._bar[0] if self._bar and (last is None or self._bar[0] > last) else None
            if step is None:
                step = (last or 0) + (int(every) if isinstance(every, int | float) and every >= 1 else 1)
        clock_s, clock = None, "cumulative"
        if "train_runtime" in pairs or "elapsed" in pairs:
            clock_s = _optional(pairs, "train_runtime" if "train_runtime" in pairs else "elapsed")
        elif self._bar is not None and self._bar[0] == step:
            clock_s, clock = self._bar[1], "progress_bar"
        if not self._began and clock_s is not None:
            self._began = True
            if step <= 100_000:  # a first line far into the run has no zero to count from
                self.log.step_zero(0.0)
        source: TimeSource = "progress_bar" if clock == "progress_bar" else "cumulative"
        self.log.step(
            step,
            number(pairs["loss"]),
            clock_s=clock_s,
            clock=source,
            lr=_optional(pairs, "learning_rate"),
            grad_norm=_optional(pairs, "grad_norm"),
            total=self._total,
        )
        run = self.log.current
        tokens = _optional(pairs, "num_input_tokens_seen")
        if run is not None:
            if source == "progress_bar" and clock_s is not None:
                run.clock_resolution_s = 1.0
            if tokens == tokens:
                if self._tokens_seen and step > self._tokens_seen[0]:
                    run.config["tokens_per_step"] = round(
                        (tokens - self._tokens_seen[1]) / (step - self._tokens_seen[0])
                    )
                self._tokens_seen = (step, tokens)


def _optional(pairs: dict[str, str], key: str) -> float:
    value = number(pairs[key]) if key in pairs else MISSING
    return value if math.isfinite(value) else MISSING


FORMAT = HuggingFace
