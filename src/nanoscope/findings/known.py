"""The numbers of one run that concepts are explained with, by name: from its findings and its settings."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.declared import Diverged, Epoch, NonFinite, Overfitting, Stalled
from nanoscope.findings.eta import Eta
from nanoscope.findings.mfu import share_of_device
from nanoscope.findings.progress import train_tokens, trained_parameters
from nanoscope.runs.run import Run

Numbers = Mapping[str, Any]  # what the log does not say is missing; losses are in nats unless the trainer's are not

DTYPES = ("float32", "bfloat16", "float16")
# Elsewhere a zero stands for nothing: no warm-up, no evaluations, a size that cannot be.
ZERO_MEANS_SOMETHING = {
    "loss", "train", "val", "best_val", "eval_train", "best_step", "last_step", "lr", "lr_falls", "dropout",
    "weight_decay", "seed", "broken_step", "diverged_step", "spike_step", "norm", "norm_highest_step", "clipped",
    "done", "checkpoint_step", "resumed_step", "compiled",
}  # fmt: skip
ADAMW_BYTES = 16  # a parameter in float32: weight, gradient, and the optimizer's two averages

# What follows from other numbers, where they are known; each may use those before it.
_DERIVED: dict[str, Callable[[Numbers], Any]] = {
    "overfits": lambda k: isinstance(k["overfitting"], Overfitting),
    "one_evaluation": lambda k: k["evaluations"] == 1,
    "chance": lambda k: 1 / k["perplexity"],  # the probability of the right token, as a geometric mean
    "guess": lambda k: math.log(k["vocab_size"]),  # the loss of guessing
    "gap": lambda k: k["val"] - k["eval_train"],
    "twice": lambda k: 1.96 * k["stderr"],  # 19 of 20 values of a normal distribution lie within so many errors
    "lr_part": lambda k: k["lr"] / k["lr_highest"] if k["lr_falls"] else None,
    "warmup_share": lambda k: k["warmup_step"] / k["total_steps"],
    "at_once": lambda k: k["batch_size"] * k["block_size"],  # tokens of a micro-batch
    "multiplies": lambda k: k["at_once"] * k["accumulation"] == k["tokens_per_step"],
    "table": lambda k: k["vocab_size"] * k["n_embd"],  # numbers in the embedding of the tokens
    "head_size": lambda k: None if k["n_embd"] % k["n_head"] else k["n_embd"] // k["n_head"],
    "flops_token": lambda k: 6.0 * k["parameters"],
    "flops": lambda k: k["flops_token"] * k["tokens_seen"],
    "adamw_gb": lambda k: ADAMW_BYTES * k["parameters"] / 1e9,
}

# Where the numbers stand that are a finding's own: field of `Analysis`, then field of the finding.
_FIELDS = {
    "train": "train_loss.smoothed_last", "noise": "train_loss.noise", "vocab_size": "train_loss.vocab_size",
    "evaluations": "evals.count", "eval_s": "evals.cost_s",
    "lr": "schedule.lr", "lr_highest": "schedule.highest", "warmup_step": "schedule.warmup_steps",
    "norm": "gradients.typical", "norm_highest": "gradients.highest", "norm_highest_step": "gradients.highest_step",
    "clip": "gradients.clip", "clipped": "gradients.clipped_share",
    "total_steps": "progress.total_steps", "tokens_per_step": "progress.tokens_per_step",
    "tokens_seen": "progress.tokens_seen", "epochs": "progress.passes_over_data",
    "tokens_per_parameter": "progress.tokens_per_parameter",
    "checkpoints": "checkpoints.count", "checkpoint_step": "checkpoints.last_step",
    "tok_s": "timing.throughput_tok_s",
}  # fmt: skip
_EVALUATED = {
    "loss": "last_val", "val": "last_val", "best_val": "best_val", "best_step": "best_step",
    "eval_train": "last_train", "stderr": "stderr", "perplexity": "perplexity", "bits_per_char": "bits_per_char",
}  # fmt: skip
_COUNTS = {"accumulation": "gradient_accumulation_steps"} | {
    key: key for key in ("batch_size", "block_size", "n_layer", "n_head", "n_embd")
}


MEMORY = ("gpu_peak_gb", "gpu_gb", "memory_gb")  # series, the most telling first


def known_numbers(run: Run, analysis: Analysis) -> Numbers:
    """All that is known about a run."""
    found: dict[str, Any] = {name: _field(analysis, path) for name, path in _FIELDS.items()}
    found |= _losses(analysis) | _trouble(analysis) | _efficiency(analysis)
    found |= {name: _whole(run, key) for name, key in _COUNTS.items()}
    progress, eta = analysis.progress, analysis.eta
    last, total = progress.last_step, progress.total_steps
    start = run.details.start if run.details else None
    dtype = (start and start.dtype) or run.config.get("dtype")
    found |= {
        "last_step": Epoch(last) if last is not None and progress.unit == "epoch" else last,
        "done": 1.0 if progress.finished else min(1.0, last / total) if last is not None and total else None,
        "train_tokens": train_tokens(run),
        "parameters": trained_parameters(run),
        "compiled": bool((start and start.compiled) or run.config.get("compile") is True),
        "memory_gb": next((run.series[key].values[-1] for key in MEMORY if key in run.series), None),
        "clip": found["clip"] or _number(run, "grad_clip"),
        "dropout": _number(run, "dropout"),
        "weight_decay": _number(run, "weight_decay"),
        "seed": _whole(run, "seed"),
        "dtype": dtype if dtype in DTYPES else None,
    }
    if isinstance(eta, Eta) and not progress.finished:
        found |= {"left_s": eta.expected_s, "left_range": (eta.low_s, eta.high_s)}
    return with_derived({name: value for name, value in found.items() if value or name in ZERO_MEANS_SOMETHING})


def with_derived(numbers: Numbers) -> Numbers:
    """These numbers, and what follows from them; what is None is left out."""
    found = {name: value for name, value in numbers.items() if value is not None}
    for name, derive in _DERIVED.items():
        with suppress(KeyError, ZeroDivisionError):
            if (value := derive(found)) is not None:
                found[name] = value
    return found


def _field(analysis: Analysis, path: str) -> Any:
    finding, name = path.split(".")
    return getattr(getattr(analysis, finding), name, None)


def _losses(analysis: Analysis) -> dict[str, Any]:
    train, evals = analysis.train_loss, analysis.evals
    if evals is not None and evals.metric == "loss" and evals.last_val is not None:
        return {name: getattr(evals, field) for name, field in _EVALUATED.items()}
    return {"loss": train.smoothed_last, "perplexity": train.perplexity, "bits_per_char": train.bits_per_char}


def _trouble(analysis: Analysis) -> dict[str, Any]:
    schedule = analysis.schedule
    found: dict[str, Any] = {
        "overfitting": next((v for v in analysis.verdicts if isinstance(v, Overfitting | Stalled)), None),
        "broken_step": next((v.step for v in analysis.verdicts if isinstance(v, NonFinite)), None),
        "diverged_step": next((v.step for v in analysis.verdicts if isinstance(v, Diverged)), None),
        "lr_falls": schedule is not None and schedule.stage in ("decay", "ended"),
    }
    for spike in analysis.spikes[:1]:
        found |= {"spike_step": spike.step, "spike_before": spike.before, "spike_loss": spike.loss}
    for resumed in analysis.summary.resumed_at[-1:]:
        found["resumed_step"] = resumed
    return found


def _efficiency(analysis: Analysis) -> dict[str, Any]:
    timing, mfu, achieved = analysis.timing, analysis.mfu, analysis.achieved
    of_steps = timing is not None and timing.unit == "step"
    return {
        "step_s": timing.typical_s if timing and of_steps else None,
        "eval_share": next((cost.share for cost in analysis.phase_costs if cost.phase == "evaluation"), None),
        "compile_s": next((group.typical_s for group in analysis.slow_groups if group.compiled), None),
        "mfu": share_of_device(mfu, achieved)[0],
        "peak_tflops": share_of_device(mfu, achieved)[1],
        "tflops": mfu.achieved_tflops if mfu else achieved.tflops if achieved else None,
    }


def _number(run: Run, key: str) -> float | None:
    said = run.config.get(key)
    good = isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said) and said >= 0
    return float(said) if good else None  # type: ignore[arg-type]


def _whole(run: Run, key: str) -> int | None:
    said = _number(run, key)
    return int(said) if said is not None and said == int(said) else None
