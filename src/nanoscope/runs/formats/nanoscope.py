"""nanoscope's own runs: the console, and the events that a run's directory keeps."""

import json
import re
from typing import Any

from nanoscope.runs.fields import number
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import MISSING, NOT_FINITE, ConfigValue, Traits
from nanoscope.untrusted import printable

_ITER = re.compile(r"iter (\d{1,12}): loss (\S{1,24}?), time ([\d.]{1,20})ms, mfu (\S{1,12}), tok/s (\S{1,16}), eta ")
_EVALUATION = re.compile(
    r"step (\d{1,12}): train loss (\S{1,24}?), val loss (\S{1,24}) ± (\S{1,16}?), eval ([\d.]{1,20})(s|ms|min)\b"
)
_SAVING = re.compile(r"saving checkpoint to \S{0,300}step-(\d{1,12})")
_BAD_LOSS = re.compile(r"the loss is not finite at iteration (\d{1,12})")
_FINISHED = re.compile(r"^finished (\d{1,12}) iterations in ")

OVER = ("finished", "patience", "max_minutes", "eval_only")
LARGEST = 1e30  # of any number in an event: beyond, squares overflow and nothing is meant
_SAID_AT_START = ("device", "parameters", "tokens_per_step", "peak_flops", "vocab_size", "train_tokens", "val_tokens")


class Nanoscope(Format):
    name = "nanoscope"
    traits = Traits(last_is_total_minus_one=False, evaluation_in="none", total_keys=("max_iters",))

    def __init__(self) -> None:
        super().__init__()
        self._session: dict[str, float] = {}  # seconds by phase since the run was started or resumed
        self._earlier: dict[str, float] = {}  # the same of the sessions before
        self._stepped = False  # in this session

    def read(self, line: str) -> str | None:
        if line.startswith('{"event"'):
            return self._read_event(line)
        found = _ITER.search(line)
        if found:
            self.log.step(
                int(found[1]),
                number(found[2]),
                number(found[3]) / 1e3,
                mfu_pct=number(found[4].rstrip("%")),
                tok_s=_with_suffix(found[5]),
            )
            return "step"
        evaluation = _EVALUATION.search(line)
        if evaluation:
            seconds = number(evaluation[5]) * {"s": 1.0, "ms": 1e-3, "min": 60.0}[evaluation[6]]
            self.log.evaluation(
                int(evaluation[1]),
                number(evaluation[3]),
                number(evaluation[2]),
                seconds=seconds,
                stderr=number(evaluation[4]),
            )
            return "eval"
        saving = _SAVING.search(line)
        if saving:
            self.log.checkpoint(int(saving[1]))
            return "checkpoint"
        bad = _BAD_LOSS.search(line)
        if bad:
            return self._read_bad_loss(int(bad[1]))
        finished = _FINISHED.match(line)
        if finished:
            self.log.total(int(finished[1]))
            self.log.finished()
            return "end"
        return None

    def _read_bad_loss(self, step: int) -> str:
        """The step at which training stopped is told apart from the printed ones."""
        if self.log.last_step is None or self.log.last_step < step:
            self.log.step(step, NOT_FINITE)
        if self.log.current is not None:
            self.log.current.failed = True
        return "non_finite"

    def _read_event(self, line: str) -> str | None:
        try:
            return self.read_event(json.loads(line))
        except (ValueError, RecursionError):
            return None  # torn by a crash

    def read_event(self, event: dict[str, Any]) -> str | None:
        """An event that was parsed already; what it is, or None if it is not ours."""
        try:
            read = self.take(str(event["event"]), event)
            if "t" in event:
                self._count_time(str(event["event"]), event)
            return read
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return None

    def take(self, kind: str, event: dict[str, Any]) -> str:
        """One event of events.jsonl; an error if it is none of ours."""
        log = self.log
        if kind == "iter":  # nearly all of them
            log.step(
                _step(event["step"]),
                _loss(event.get("loss")),
                _float(event.get("seconds")),
                lr=_float(event.get("lr")),
                grad_norm=_float(event.get("grad_norm")),
                tok_s=_float(event.get("tokens_per_second")),
                mfu_pct=_float(event.get("mfu")) * 100,
            )
            return "step"
        if kind == "start":
            resuming = _step(event.get("first_step") or 0) > 0
            self.end()
            self._stepped = False
            log.boundary(resuming)
            self._earlier = self._seconds() if resuming else {}
            self._session = {}
            facts = {**event.get("config", {}), **{key: event[key] for key in _SAID_AT_START if key in event}}
            log.facts.update({k: fact for k, v in facts.items() if (fact := _fact(v)) is not None})
        elif kind == "eval":
            log.evaluation(
                _step(event["step"]),
                _loss(event.get("val_loss")),
                _maybe(event.get("train_loss")),
                seconds=_maybe(event.get("seconds")),
                stderr=_maybe(event.get("val_stderr")),
            )
        elif kind == "checkpoint":
            log.checkpoint(_step(event["step"]), _maybe(event.get("seconds")))
        elif kind in ("resume", "rollback"):
            log.boundary(resuming=True, rollback=kind == "rollback")
        elif kind == "sample" and log.current is not None:
            log.current.samples += 1
        elif kind == "non_finite":
            self._read_bad_loss(_step(event["step"]))
        elif kind == "end" and log.current is not None:
            log.current.said_finished = event.get("reason") in OVER
            log.current.failed = not log.current.said_finished
        return kind

    def _count_time(self, kind: str, event: dict[str, Any]) -> None:
        """Where the time went: by the clock that each event carries, until the end of the session counts it itself."""
        session, clock_s = self._session, _float(event["t"])
        session["wall"] = clock_s
        if kind == "iter" and self._stepped:
            return
        seconds = _maybe(event.get("seconds")) or 0.0
        if kind in ("eval", "iter"):
            session.setdefault("startup", clock_s - seconds)
        if kind in ("eval", "checkpoint", "sample"):
            session[kind] = session.get(kind, 0.0) + seconds
        if kind == "end":
            session.update({name: _float(value) for name, value in event["phases"].items()})
        self._stepped = self._stepped or kind in ("iter", "end")

    def end(self) -> None:
        """Tell the run where its time went; what comes before a first step is not yet of its run."""
        run = self.log.current
        if run is not None and self._stepped:
            run.phases = self._seconds()
            run.wall_seconds = run.phases.pop("wall")

    def _seconds(self) -> dict[str, float]:
        names = self._earlier | self._session
        return {name: self._earlier.get(name, 0.0) + self._session.get(name, 0.0) for name in names}


def _step(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 10**12:
        raise ValueError(value)
    return value


def _float(value: Any) -> float:
    if value is not None and type(value) not in (int, float):
        raise ValueError(value)
    return MISSING if value is None or not abs(value) < LARGEST else float(value)


def _maybe(value: Any) -> float | None:
    measured = _float(value)
    return measured if measured == measured else None


def _loss(value: Any) -> float:
    """JSON has no NaN: a loss that is null was printed, but is not finite."""
    measured = _float(value)
    return measured if measured == measured else NOT_FINITE


def _fact(value: Any) -> ConfigValue | None:
    """A setting that may be printed and reckoned with, or None."""
    if isinstance(value, str):
        return printable(value[:200])
    return value if isinstance(value, int | float) and abs(value) < LARGEST else None


def _with_suffix(text: str) -> float:
    factor = {"k": 1e3, "M": 1e6}.get(text[-1:], 1.0)
    return number(text.rstrip("kM")) * factor


FORMAT = Nanoscope
