"""Which settings of runs differ, and what a setting can change: what is learnt, how fast a step is, or neither."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import Analysis
from nanoscope.messages import printable
from nanoscope.runs.run import ConfigValue, Run

# They change what is printed, kept or measured, not the training. Data have rules of their own (data.py).
BOOKKEEPING = {
    "out_dir", "run", "log_interval", "eval_interval", "eval_iters", "eval_batch_size", "eval_only", "overwrite",
    "wandb_log", "wandb_project", "wandb_run_name", "always_save_checkpoint", "keep_checkpoints", "sample_interval",
    "on_nan", "max_minutes", "patience", "peak_flops", "mfu_assumes", "save_interval", "num_workers", "steps",
    "flops_per_token", "tensorboard", "peak_source", "peak_dtype",
}  # fmt: skip
DATA_KEYS = {"dataset", "vocab_size", "train_tokens", "val_tokens", "tokenizer"}
REPEAT_KEYS = {"seed"}
SPEED_ONLY = {"compile", "device", "device_name", "threads", "waiting", "backend", "processes", "world_size"}
LENGTH_KEYS = ("max_iters", "max_steps", "num_iterations", "total_steps", "train_steps")
LEARNING_ONLY = {
    *REPEAT_KEYS, "learning_rate", "matrix_lr", "table_lr", "output_lr", "muon_momentum", "min_lr", "warmup_iters",
    "cooldown", "weight_decay", "beta1", "beta2", "decay_lr", "lr_decay_iters", "grad_clip", "init_from", "order",
    *LENGTH_KEYS,
}  # fmt: skip
MODEL_KEYS = ("n_layer", "n_embd", "n_head", "block_size", "model_type", "depth", "recipe", "ngrams", "bias")
SPLIT_KEYS = ("batch_size", "gradient_accumulation_steps", "device_batch_size", "processes", "world_size")
# Settings that are usually kept in proportion to another one.
LEADERS = {"min_lr": "learning_rate", "lr_decay_iters": "max_iters", "warmup_iters": "max_iters", "n_head": "n_embd"}
# The larger, the more work in a step.
SIZE_KEYS = ("parameters", "tokens_per_step", "n_layer", "n_embd", "block_size", "depth", "batch_size")
RESULTS = ("parameters", "tokens_per_step", "total_batch_size")  # of other settings: nobody can set them
ROUNDED_ABOVE = 100_000  # such numbers may have been rounded ('10.65M')
LARGEST = 1e15
ALL_SETTINGS = 20  # a log that shows so many shows all
MANY_SETTINGS = 8  # in common, of those that can change what is learnt: another difference is unlikely to be hidden


def settings_of(run: Run, analysis: Analysis) -> dict[str, ConfigValue]:
    """The settings of a run; of our own, what 'auto' turned out to be."""
    settings = dict(run.config)
    if analysis.progress.tokens_per_step:
        settings["tokens_per_step"] = analysis.progress.tokens_per_step
    settings = {key: value for key, value in settings.items() if key not in RESULTS or (value and value != 0)}
    start = run.details.start if run.details else None
    resolved = start and {"dtype": start.dtype, "compile": start.compiled, "device_name": start.device_name}
    settings |= {key: value for key, value in (resolved or {}).items() if value is not None}
    # Sentences will quote them.
    return {printable(key): printable(value) if isinstance(value, str) else value for key, value in settings.items()}


def learning_factors(sides: Sequence[Side]) -> list[str]:
    """The settings that differ and can change what is learnt, without those that only follow from others."""
    differing = _differing(sides, BOOKKEEPING | DATA_KEYS | REPEAT_KEYS | SPEED_ONLY)
    split = [key for key in differing if key in SPLIT_KEYS]
    tokens = [side.settings.get("tokens_per_step") for side in sides]
    if None not in tokens and (len(split) > 1 or len(set(tokens)) == 1):
        # How the tokens of a step are split up does not change what is learnt from them.
        differing = [key for key in differing if key not in split]
    return _without_followers(differing, sides)


def speed_factors(sides: Sequence[Side]) -> list[str]:
    """The settings that differ and can change the time of a step."""
    return _without_followers(_differing(sides, BOOKKEEPING | DATA_KEYS | LEARNING_ONLY), sides)


def changed_settings(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Those of some settings that can change what is learnt."""
    without = BOOKKEEPING | DATA_KEYS | SPEED_ONLY
    return tuple((printable(key), printable(written(value))) for key, value in values.items() if key not in without)


def _differing(sides: Sequence[Side], without: set[str]) -> list[str]:
    keys = dict.fromkeys(key for side in sides for key in side.settings if key not in without)
    return [key for key in keys if differs(sides, key)]


def _without_followers(differing: list[str], sides: Sequence[Side]) -> list[str]:
    return [key for key in differing if not _follows(key, set(differing) - {key}, sides)]


def is_shown(key: str) -> bool:
    """Whether a table of settings that differ shows it."""
    return key not in BOOKKEEPING or key in ("eval_interval", "eval_iters")


def differs(sides: Sequence[Side], key: str) -> bool:
    """Whether the runs that state a setting state different values."""
    known = [side.settings[key] for side in sides if key in side.settings]
    return any(not alike(known[0], value) for value in known[1:])


def alike(one: ConfigValue, two: ConfigValue) -> bool:
    """Whether two values are the same; a large number may have been rounded."""
    if isinstance(one, bool) or isinstance(two, bool):
        return str(one) == str(two)
    if isinstance(one, int | float) and isinstance(two, int | float):
        tolerance = 0.01 if min(one, two) > ROUNDED_ABOVE else 1e-9
        return math.isclose(one, two, rel_tol=tolerance)
    return str(one).rstrip("/").rsplit("/", 1)[-1] == str(two).rstrip("/").rsplit("/", 1)[-1]


def shows_all_settings(side: Side) -> bool:
    return len(side.settings) >= ALL_SETTINGS


def shown_in_all(sides: Sequence[Side]) -> int:
    """How many settings that can change what is learnt all logs show."""
    without = BOOKKEEPING | DATA_KEYS | REPEAT_KEYS | SPEED_ONLY
    return len(set.intersection(*({*side.settings} - without for side in sides)))


def written(value: ConfigValue | None) -> str:
    """A value as one types it; empty if it is not known."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _follows(key: str, others: set[str], sides: Sequence[Side]) -> bool:
    """Whether a setting differs only because another one does."""
    if key == "parameters":
        return bool(others & set(MODEL_KEYS))
    if key == "tokens_per_step":
        return bool(others & set(SPLIT_KEYS)) or ("block_size" in others and _proportional(sides, key, "block_size"))
    if key == "total_batch_size":
        return "tokens_per_step" in others or bool(others & set(SPLIT_KEYS))
    if key == "device":
        return "device_name" in others
    leader = LEADERS.get(key)
    return leader in others and _proportional(sides, key, leader or "")


def _proportional(sides: Sequence[Side], one: str, two: str) -> bool:
    ratios = []
    for side in sides:
        pair = side.settings.get(one), side.settings.get(two)
        if not all(isinstance(value, int | float) and value for value in pair):
            return False
        ratios.append(pair[0] / pair[1])  # type: ignore[operator]
    return max(ratios) - min(ratios) <= 1e-6 * max(ratios)


def as_numbers(values: Sequence[str]) -> list[float] | None:
    """The values as numbers; None if one of them is none, or too large to reckon with."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if all(abs(number) < LARGEST for number in numbers) else None
