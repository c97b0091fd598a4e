"""Hugging Face Trainer: it prints a dict for each log, whose step is known only from the progress bars around it."""

import math
import re
from collections.abc import Iterable

from nanoscope.runs.fields import number, timestamp_s
from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import (
    CheckpointRecord,
    Clock,
    EndRecord,
    EvalRecord,
    HeaderRecord,
    OtherRecord,
    Record,
    StepRecord,
)
from nanoscope.runs.run import MISSING, Run, Traits

FAST = 2.0  # steps per second
USUAL_LOGGING_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)

_PAIR = re.compile(r"['\"]([\w/]{1,60})['\"]\s?:\s?['\"]?([^,'\"}\s]{1,40}(?: \d{1,2}[hms]\b){0,3})")
_SPOKEN = re.compile(r"(?:(\d{1,4})d ?)?(?:(\d{1,4})h ?)?(?:(\d{1,4})m ?)?(?:(\d{1,4})s)?")  # '1h 2m 3s'
_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,200}\|\s{0,4}(\d{1,12})/(\d{1,12})"
    r" \[(?:(\d{1,4}):)?(\d{1,2}):(\d\d)<(?:[^,\]]{1,16},\s{1,4}([\d.]{1,12})it/s)?"
)
_TOTAL = re.compile(r"Total optimization steps\s?=\s?([\d,]{1,20})")
_OTHER_METRICS = frozenset(("eval_wer", "eval_cer", "eval_mean_iou", "eval_map"))  # not of language models
_STEPS = ("step", "current_steps", "global_step")
_SAVING = re.compile(r"Saving model checkpoint to (\S{1,300})")
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")


class HuggingFace(Format):
    name = "hf-trainer"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="next", total_keys=("max_iters", "max_steps"))
    lines = (Line(EvalRecord, r"^\s{0,8}eval_loss\s{1,40}=\s{1,40}{val}", "eval_loss"),)
    settings = named("eval_steps logging_steps max_steps save_steps warmup_steps")
    header = (
        ("max_iters", r"\bTotal (?:optimization |training )?steps\s?[:=]\s?([\d,]+)"),
        ("epochs", r"Num Epochs\s?=\s?([\d,]{1,6})(?![\d,])"),
        ("batch_size", r"Instantaneous batch size per device\s?=\s?([\d,]+)"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._total: int | None = None
        self._bar: tuple[int, float] | None = None  # step and elapsed seconds of the last bar
        self._rate = MISSING  # its steps per second, if it does more than one
        self._waiting: dict[str, str] | None = None  # a log whose step the next bar will show
        self._every = 1  # steps between two logs, where no bar shows them
        self._counted_logs = False  # steps are the numbers of the logs, for want of better ones
        self._clock_started = False
        self._tokens_seen: tuple[int, float] | None = None
        self._last: dict[str, str] = {}  # the log that was placed last

    def parse(self, line: str) -> Iterable[Record]:
        bar = _BAR.search(line) if "%|" in line else None
        if bar:
            records = self._parse_bar(bar)
            glued = line[bar.end() :]
            if records and "{" in glued and "loss" in glued:  # the log of the step that the bar shows
                log = self._parse_log(dict(_PAIR.findall(glued)))
                if log and self._waiting:
                    self._place_waiting(int(bar[1]))
                return (log,) if log else records
            return records
        if "}{" in line.replace("} {", "}{") and "loss" in line:
            logs = (self._parse_log(dict(_PAIR.findall(part))) for part in line.split("}"))
            return [log for log in logs if log]
        if "{" in line and "loss" in line:
            pairs = dict(_PAIR.findall(line))
            at = timestamp_s(line[: line.index("{")])
            if at is not None:
                pairs["timestamp"] = repr(at)
            record = self._parse_log(pairs)
            if record:
                return (record,)
        total = _TOTAL.search(line)
        if total:
            self._total = int(total[1].replace(",", ""))
            self._clock_started = False
            return (HeaderRecord(self._total),)
        saving = _SAVING.search(line)
        if saving:
            self._place_waiting()
            step = _CHECKPOINT.search(saving[1])
            run = self.builder.current
            if step or run is None or not run.said_finished:
                return (CheckpointRecord(int(step[1]) if step else None),)
            return (OtherRecord("checkpoint"),)  # the final model
        records = super().parse(line)
        if records:
            self._place_waiting()
        return records

    def end(self) -> None:
        self._place_waiting()

    def _parse_bar(self, bar: re.Match[str]) -> Iterable[Record]:
        step, total = int(bar[1]), int(bar[2])
        if self._total is None or (step == 0 and total > self._total):
            self._total = total
        if total != self._total:
            return ()  # an evaluation's bar, or a download's
        elapsed_s = int(bar[3] or 0) * 3600 + int(bar[4]) * 60 + int(bar[5])
        before = self._bar
        if before and before[0] > (self.builder.last_step or 0) and before[0] % 5 == 0 != step % 5:
            self._place_waiting(before[0])  # the bar has moved on since; logs are written at round steps
        self._bar = (step, float(elapsed_s))
        self._rate = number(bar[6]) if bar[6] else MISSING
        self._place_waiting(step)
        return (OtherRecord("bar"),)

    def _parse_log(self, pairs: dict[str, str]) -> Record | None:
        position, _, total = pairs.get("global_step/max_steps", "").partition("/")  # ms-swift
        if position.isdigit() and total.isdigit():
            pairs |= {"global_step": position, "total_steps": total}
        step = next((int(pairs[key]) for key in _STEPS if pairs.get(key, "").isdigit()), None)
        if step is not None and pairs.get("total_steps", "").isdigit():
            self._total = int(pairs["total_steps"])
        if "eval_loss" in pairs and pairs["eval_loss"] not in ("null", "None"):
            self._place_waiting()
            seconds = _finite(pairs, "eval_runtime")
            if self.builder.current and not _OTHER_METRICS.isdisjoint(pairs):
                self.builder.current.is_language_model = False
            return EvalRecord(step, number(pairs["eval_loss"]), seconds=seconds if seconds == seconds else None)
        if step is not None and pairs.get("loss") in ("null", "None"):
            return EndRecord() if step == self._total else OtherRecord("other")
        if "num_updates" in pairs:
            return None  # fairseq
        if "loss" in pairs and ("epoch" in pairs or "learning_rate" in pairs or "grad_norm" in pairs):
            if _same(pairs, self._waiting or self._last):  # a callback prints each log a second time, with other digits
                if self._waiting:
                    self._waiting = {**pairs, **self._waiting}
                return OtherRecord("step")
            self._place_waiting()
            self._waiting = pairs
            if step is not None:
                self._place_waiting(step)
            return OtherRecord("step")
        if "train_loss" in pairs and "train_runtime" in pairs:
            self._place_waiting()
            self._take_summary(pairs, step)
            return EndRecord()
        return None

    def _place_waiting(self, bar_step: int | None = None) -> None:
        """Place the log that waits, now that its step is known (or as well as it can be guessed)."""
        pairs, self._waiting = self._waiting, None
        if pairs is None:
            return
        self._last = pairs
        step = bar_step if bar_step is not None else self._guess_step(_finite(pairs, "epoch"))
        left = _clock_s(pairs.get("remaining_time", ""))
        time_s, clock = self._time(pairs, step)
        self.builder.place(
            StepRecord(
                step,
                number(pairs["loss"]),
                time_s,
                clock=clock,
                lr=_finite(pairs, "learning_rate"),
                grad_norm=number(pairs["grad_norm"]) if "grad_norm" in pairs else MISSING,
                tok_s=_finite(pairs, "tokens_per_second_per_gpu"),
                total=self._total,
                extra=None if left is None else {"eta_s": left},
            )
        )
        run = self.builder.current
        if run is not None:
            run.steps_are_lines = self._counted_logs and bar_step is None and "step" not in pairs
        if run is not None and "tokens_per_second_per_gpu" in pairs:
            run.is_language_model = run.tok_s_per_device = True
        tokens = _finite(pairs, "num_input_tokens_seen" if "num_input_tokens_seen" in pairs else "num_tokens")
        if run is not None and (tokens == tokens or "mean_token_accuracy" in pairs):
            run.is_language_model = True
        if run is not None and tokens == tokens:
            if self._tokens_seen and step > self._tokens_seen[0]:
                run.config["tokens_per_step"] = round((tokens - self._tokens_seen[1]) / (step - self._tokens_seen[0]))
            self._tokens_seen = (step, tokens)

    def _take_summary(self, pairs: dict[str, str], step: int | None) -> None:
        """Use the time of the whole run where no step has one."""
        run, seconds = self.builder.current, _finite(pairs, "train_runtime")
        if run and run.steps and step is None and self._counted_logs and self._total is None:
            self._spread(run, pairs, seconds * _finite(pairs, "train_steps_per_second"))
        if run and run.steps and seconds > 0 and not any(time > 0 for time in run.steps.time_s):
            run.steps.time_s[-1] = seconds / max(1, step or run.last_step or 1)
            run.time_source, run.time_spans_steps = "cumulative", True

    def _spread(self, run: Run, summary: dict[str, str], steps: float) -> None:
        """Number the steps of logs that could only be counted: the summary says how many steps there were in all."""
        logs = run.last_step or 0
        done = _finite(self._last, "epoch") / max(_finite(summary, "epoch"), 1e-9)
        if len(run.steps) != logs or not (steps > 0 and 0 < done <= 1.01):
            return
        run.steps_are_lines = False
        every = steps * done / logs
        usual = min(USUAL_LOGGING_STEPS, key=lambda each: abs(math.log(every / each)))
        every = usual if abs(every / usual - 1) < 0.15 else round(every)
        if every < 2:
            return
        for index in range(len(run.steps)):
            run.steps.step[index] *= every
        for evaluation in run.evals:
            evaluation.step *= every
        last = run.last_step or 0
        run.total_steps = last if done > 0.995 else max(round(steps), last)

    def _guess_step(self, epoch: float) -> int:
        last = self.builder.last_step
        if self._bar and (last is None or self._bar[0] > last):
            return self._bar[0]
        if last is None:
            self._every = self._logging_steps(epoch)
            self._counted_logs = self._every == 1
        return (last or 0) + self._every

    def _logging_steps(self, epoch: float) -> int:
        """The steps between two logs: as set, or by the share of the run that the first log is at."""
        facts = self.builder.facts
        said, epochs = facts.get("logging_steps"), facts.get("epochs")
        if isinstance(said, int | float) and said >= 1:
            return int(said)
        if self._total and isinstance(epochs, int) and epochs > 0 and epoch > 0:
            at = epoch / epochs * self._total
            usual = min(USUAL_LOGGING_STEPS, key=lambda steps: abs(math.log(at / steps)))
            if abs(math.log(at / usual)) < 0.3:
                return usual
        return 1

    def _time(self, pairs: dict[str, str], step: int) -> tuple[float, Clock | None]:
        """A fast bar is better timed by its rate than by its clock, which shows whole seconds."""
        clock = self._clock(pairs, step)
        if clock is not None and clock.source == "progress_bar" and self._rate > FAST:
            return 1 / self._rate, None
        return MISSING, clock

    def _clock(self, pairs: dict[str, str], step: int) -> Clock | None:
        elapsed = _clock_s(pairs.get("elapsed_time", ""))
        if elapsed is not None:
            clock = Clock(elapsed, resolution_s=1.0)
        elif "train_runtime" in pairs or "elapsed" in pairs:
            clock = Clock(_finite(pairs, "train_runtime" if "train_runtime" in pairs else "elapsed"))
        elif self._bar is not None and self._bar[0] == step:
            clock = Clock(self._bar[1], "progress_bar", resolution_s=1.0)
        elif "timestamp" in pairs:
            return Clock(float(pairs["timestamp"]), "timestamps", resolution_s=1.0)
        else:
            return None
        # A first line far into the run has no zero to count from.
        clock.starts_with_run = not self._clock_started and (step <= 1000 or elapsed is None) and step <= 100_000
        self._clock_started = True
        return clock


def _same(pairs: dict[str, str], before: dict[str, str]) -> bool:
    """Whether two logs say the same, each with its own number of digits."""
    shared = [key for key in ("loss", "learning_rate", "epoch", "grad_norm", *_STEPS) if key in pairs and key in before]
    return len(shared) >= 2 and all(_same_number(pairs[key], before[key]) for key in shared)


def _same_number(one: str, other: str) -> bool:
    if one == other:
        return True
    return abs(number(one) - number(other)) <= 0.51 * max(_last_digit(one), _last_digit(other))


def _last_digit(text: str) -> float:
    """What the last printed digit is worth."""
    digits, _, exponent = text.lower().partition("e")
    power = int(exponent) if exponent.lstrip("+-").isdecimal() and len(exponent) < 4 else 0
    return 10.0 ** (power - len(digits.partition(".")[2]))


def _clock_s(text: str) -> float | None:
    """The seconds of '5:13:22'."""
    spoken = _SPOKEN.fullmatch(text)
    if spoken and text:
        days, hours, minutes, rest = (int(part or 0) for part in spoken.groups())
        return 86400.0 * days + 3600 * hours + 60 * minutes + rest
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(part.isdigit() for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return seconds


def _finite(pairs: dict[str, str], key: str) -> float:
    value = number(pairs[key]) if key in pairs else MISSING
    return value if math.isfinite(value) else MISSING
