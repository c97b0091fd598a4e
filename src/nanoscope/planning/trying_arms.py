"""What is tried: the changes that answer a question about a run, and the settings of a shorter run like it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nanoscope.config import TrainConfig
from nanoscope.messages import Text

Question = Literal["warm_up", "rate", "batch", "dropout", "evaluation"]
LEARNING: tuple[Question, ...] = ("warm_up", "rate", "batch", "dropout")
"""In this order: each is asked of the run with the changes that were confirmed before."""

RATES = 0.1, 0.3, 3.0, 10.0
RATE_STEP, LOWEST_RATE, HIGHEST_RATE = 3.0, 1e-3, 1e3  # where the best is at the edge, the range is extended
BATCH_STEP, MOST_BATCH = 4, 64
WARM_UP_SHARE = 0.1  # of the iterations
NO_WARM_UP = 0.02  # less is as good as none
MORE_DROPOUT = 0.2
FEWEST_EVALUATIONS = 8  # that are left: fewer show no turning point


@dataclass(frozen=True)
class Change:
    """One piece of advice as settings. `factor` places it in a range (of rates, of batch sizes); 1 is the run's own."""

    question: Question
    settings: tuple[tuple[str, Any], ...]
    factor: float = 1.0
    equal_time: bool = False
    """Whether it is trained for as long as the run it is compared with, not for as many iterations."""

    def of(self, config: TrainConfig) -> TrainConfig:
        return replace(config, **dict(self.settings))

    @property
    def label(self) -> Text | str:
        if self.question == "rate":
            return Text("learning rates × {factor:g}", factor=self.factor)
        if self.question == "batch":
            return Text("tokens per iteration × {factor:g} ({settings})", factor=self.factor, settings=self.words)
        return self.words

    @property
    def words(self) -> str:
        return " ".join(f"{key}={_written(value)}" for key, value in self.settings)


def changes(question: Question, config: TrainConfig, advised: Collection[str] = ()) -> list[Change]:
    """What to try first, for a run with these settings. `advised` are the actions that `explain` advises."""
    match question:
        case "rate":
            return [_rate(config, factor) for factor in RATES]
        case "warm_up":
            wanted = config.warmup < NO_WARM_UP * config.max_iters or "warm_up" in advised
            iters = max(round(WARM_UP_SHARE * config.max_iters), 2 * config.warmup)
            if not config.decay_lr or not wanted or not 0 < iters < config.max_iters / 2:
                return []
            return [Change(question, (("warmup_iters", iters),))]
        case "batch":
            return [*_batch(config, BATCH_STEP), *_batch(config, 1 / BATCH_STEP)]
        case "dropout":
            if "regularise" not in advised:
                return []
            return [Change(question, (("dropout", round(max(MORE_DROPOUT, config.dropout + 0.1), 3)),))]
    return []


def further(best: Change, tried: Sequence[Change], config: TrainConfig) -> list[Change]:
    """One step beyond the best change, if that is at the edge of what was tried."""
    factors = [change.factor for change in tried]
    up = best.factor == max(factors) > 1
    if not up and not best.factor == min(factors) < 1:
        return []
    if best.question == "rate":
        factor = _rounded(best.factor * RATE_STEP if up else best.factor / RATE_STEP)
        return [_rate(config, factor)] if LOWEST_RATE <= factor <= HIGHEST_RATE else []
    if best.question == "batch" and 1 / MOST_BATCH < best.factor < MOST_BATCH:
        return _batch(config, best.factor * BATCH_STEP if up else best.factor / BATCH_STEP)
    return []


def evaluating_less(config: TrainConfig, action: str, to_value: float | None, count: int) -> list[Change]:
    """What `explain` advises about evaluations, and the other way to the same end: fewer batches, or less often."""
    found = []
    if action == "lower_eval_iters" and isinstance(config.eval_iters, int) and config.eval_iters > 1:
        found.append(Change("evaluation", (("eval_iters", max(1, int(to_value or config.eval_iters // 4))),)))
    factor = next((each for each in (10, 5, 4, 2) if count // each >= FEWEST_EVALUATIONS), None)
    if action == "raise_eval_interval" and to_value:
        found.append(Change("evaluation", (("eval_interval", int(to_value)),)))
    elif factor is not None:
        found.append(Change("evaluation", (("eval_interval", config.eval_interval * factor),)))
    return found


def with_length(config: TrainConfig, iters: int) -> TrainConfig:
    """The same run with another number of iterations: its schedule is stretched or shrunk with it."""
    share = iters / config.max_iters
    if share == 1:
        return config
    changed: dict[str, Any] = {"max_iters": iters}
    if config.warmup:
        changed["warmup_iters"] = round(share * config.warmup)
    if config.lr_decay_iters != "auto":
        changed["lr_decay_iters"] = max(round(share * config.lr_decay_iters), 1)
    return replace(config, **changed)


def flags(change: TrainConfig, run: TrainConfig) -> list[str]:
    """How the settings of a run differ from another's, as flags of `train`."""
    keys = [key for key in vars(run) if getattr(change, key) != getattr(run, key)]
    return [f"--{key}={_written(getattr(change, key))}" for key in keys]


def _rate(config: TrainConfig, factor: float) -> Change:
    return Change("rate", (("lr_scale", float(f"{config.lr_scale * factor:.3g}")),), factor)


def _batch(config: TrainConfig, factor: float) -> list[Change]:
    """More or fewer sequences per iteration, with the same rates and with those that suit AdamW then, × √factor."""
    key = "gradient_accumulation_steps" if config.gradient_accumulation_steps > 1 else "batch_size"
    sequences = getattr(config, key) * factor
    if sequences < 1 or sequences != int(sequences):
        return []
    size: tuple[tuple[str, Any], ...] = ((key, int(sequences)),)
    if key == "batch_size" and isinstance(config.eval_iters, int):  # as many windows in an evaluation as before
        size = (*size, ("eval_iters", max(1, round(config.eval_iters / factor))))
    scale = float(f"{config.lr_scale * math.sqrt(factor):.3g}")
    return [
        Change("batch", size, factor, equal_time=True),
        Change("batch", (*size, ("lr_scale", scale)), factor, equal_time=True),
    ]


def _rounded(factor: float) -> float:
    """0.3, 0.1, 0.03 …: the nearest of 1 and 3 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(factor) + 1e-9)
    return float(f"{min((1.0, 3.0, 10.0), key=lambda digit: abs(math.log(digit * power / factor))) * power:.3g}")


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
