"""The numbers of one run that concepts are explained with, side by side: from its findings and its settings."""

import math
from dataclasses import dataclass
from typing import Any

from nanoscope.analysis.findings import Analysis, Diverged, Epoch, Eta, NonFinite, Overfitting, Stalled
from nanoscope.analysis.mfu import believable_mfu, mfu_peak
from nanoscope.analysis.progress import train_tokens, trained_parameters
from nanoscope.runs.run import Run

DTYPES = ("float32", "bfloat16", "float16")
# Elsewhere a zero stands for nothing: no warm-up, no evaluations, a size that cannot be.
ZERO_MEANS_SOMETHING = {
    "loss", "train", "val", "best_val", "eval_train", "best_step", "last_step", "lr", "lr_falls", "dropout",
    "weight_decay", "seed", "broken_step", "diverged_step", "spike_step", "norm", "norm_highest_step", "clipped",
    "done", "checkpoint_step", "resumed_step", "compiled",
}  # fmt: skip
ADAMW_BYTES = 16  # a parameter in float32: weight, gradient, and the optimizer's two averages


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KnownNumbers:
    """None: the log does not say. Losses are in nats a token unless the trainer's are not."""

    loss: float | None = None  # of the last evaluation, or else of training
    perplexity: float | None = None
    bits_per_char: float | None = None
    train: float | None = None
    noise: float | None = None
    val: float | None = None
    best_val: float | None = None
    best_step: int | None = None
    eval_train: float | None = None
    stderr: float | None = None
    overfitting: Overfitting | Stalled | None = None
    evaluations: int | None = None
    eval_s: float | None = None
    eval_share: float | None = None
    lr: float | None = None
    lr_highest: float | None = None
    lr_falls: bool = False
    warmup_step: int | None = None
    norm: float | None = None
    norm_highest: float | None = None
    norm_highest_step: int | None = None
    clip: float | None = None
    clipped: float | None = None
    spike_step: int | None = None
    spike_before: float | None = None
    spike_loss: float | None = None
    broken_step: int | None = None
    diverged_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    done: float | None = None
    tokens_per_step: int | None = None
    tokens_seen: int | None = None
    train_tokens: int | None = None
    epochs: float | None = None
    tokens_per_parameter: float | None = None
    checkpoints: int = 0
    checkpoint_step: int | None = None
    resumed_step: int | None = None
    step_s: float | None = None
    tok_s: float | None = None
    mfu: float | None = None
    peak_tflops: float | None = None
    tflops: float | None = None
    compiled: bool = False
    compile_s: float | None = None
    memory_gb: float | None = None
    left_s: float | None = None
    left_range: tuple[float, float] | None = None
    # settings
    vocab_size: int | None = None
    parameters: int | None = None
    batch_size: int | None = None
    accumulation: int | None = None
    block_size: int | None = None
    n_layer: int | None = None
    n_head: int | None = None
    n_embd: int | None = None
    dropout: float | None = None
    weight_decay: float | None = None
    seed: int | None = None
    dtype: str | None = None

    @property
    def overfits(self) -> bool:
        return isinstance(self.overfitting, Overfitting)

    @property
    def one_evaluation(self) -> bool:
        return self.evaluations == 1

    @property
    def chance(self) -> float | None:
        """The probability of the right token, as a geometric mean."""
        return None if self.perplexity is None else 1 / self.perplexity

    @property
    def guess(self) -> float | None:
        """The loss of guessing."""
        return None if self.vocab_size is None else math.log(self.vocab_size)

    @property
    def gap(self) -> float | None:
        return None if self.val is None or self.eval_train is None else self.val - self.eval_train

    @property
    def twice(self) -> float | None:
        """1.96 standard errors: 19 of 20 values of a normal distribution lie within them."""
        return None if self.stderr is None else 1.96 * self.stderr

    @property
    def lr_part(self) -> float | None:
        return self.lr / self.lr_highest if self.lr_falls and self.lr is not None and self.lr_highest else None

    @property
    def warmup_share(self) -> float | None:
        return self.warmup_step / self.total_steps if self.warmup_step and self.total_steps else None

    @property
    def at_once(self) -> int | None:
        """Tokens of a micro-batch."""
        return self.batch_size * self.block_size if self.batch_size and self.block_size else None

    @property
    def multiplies(self) -> bool:
        """Whether the settings make the tokens of a step."""
        return bool(self.at_once and self.accumulation and self.at_once * self.accumulation == self.tokens_per_step)

    @property
    def table(self) -> int | None:
        """Numbers in the embedding of the tokens."""
        return self.vocab_size * self.n_embd if self.vocab_size and self.n_embd else None

    @property
    def head_size(self) -> int | None:
        fits = self.n_embd and self.n_head and self.n_embd % self.n_head == 0
        return self.n_embd // self.n_head if fits and self.n_embd and self.n_head else None

    @property
    def flops_token(self) -> float | None:
        return None if self.parameters is None else 6.0 * self.parameters

    @property
    def flops(self) -> float | None:
        return self.flops_token * self.tokens_seen if self.flops_token and self.tokens_seen else None

    @property
    def adamw_gb(self) -> float | None:
        return None if self.parameters is None else ADAMW_BYTES * self.parameters / 1e9


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


def known_numbers(run: Run, analysis: Analysis) -> KnownNumbers:
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
    absent = {name for name, value in found.items() if value == 0 and name not in ZERO_MEANS_SOMETHING}
    return KnownNumbers(**{name: value for name, value in found.items() if name not in absent})


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
        "mfu": believable_mfu(mfu, achieved),
        "peak_tflops": mfu_peak(mfu, achieved),
        "tflops": mfu.achieved_tflops if mfu else achieved.tflops if achieved else None,
    }


def _number(run: Run, key: str) -> float | None:
    said = run.config.get(key)
    good = isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said) and said >= 0
    return float(said) if good else None  # type: ignore[arg-type]


def _whole(run: Run, key: str) -> int | None:
    said = _number(run, key)
    return int(said) if said is not None and said == int(said) else None
