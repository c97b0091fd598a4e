"""How often verdicts are right over simulated runs whose truth is known: a curve that is flat, falls or overfits, and
runs that differ in a setting which does nothing, or something.

python -m benchmarks.rates [--runs 400] [--json FILE]

A minute. The figures are in docs/diagnosis.md and LOG.md; tests/findings/test_rates.py holds the bounds.
"""

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from nanoscope.findings.analyse import analyse
from nanoscope.findings.compare import compare
from nanoscope.runs import events
from nanoscope.runs.details import RunDetails
from nanoscope.runs.run import MISSING, Evaluation, Run, Traits
from nanoscope.runs.windows import WindowLosses

STEPS, EVALUATIONS, LINES = 4000, 40, 400
LOSS, NOISE = 2.0, 0.008
SEEDS, WINDOWS = 0.01, 0.003  # shares of the loss: spread between seeds, error of an evaluation
BAD = {"worsening", "overfitting"}
Noise = Callable[[random.Random, int], list[float]]


def white(chance: random.Random, count: int) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(count)]


def correlated(chance: random.Random, count: int, rho: float = 0.5) -> list[float]:
    """AR(1) noise of unit variance."""
    values = [chance.gauss(0, 1)]
    for _ in range(count - 1):
        values.append(rho * values[-1] + math.sqrt(1 - rho * rho) * chance.gauss(0, 1))
    return values


def curve(
    chance: random.Random,
    val: Callable[[float], float],
    noise: Noise,
    *,
    train: Callable[[float], float] | None = None,
    stderr: float | None = None,
    sigma: float = NOISE,
) -> Run:
    """A run with evaluations along a curve, and training lines along the same or another one."""
    made = Run("nanogpt", Traits(last_is_total_minus_one=False), config={"max_iters": STEPS * 2})
    steps = [STEPS * (n + 1) // EVALUATIONS for n in range(EVALUATIONS)]
    train = train or val
    lines = [STEPS * (n + 1) // LINES for n in range(LINES)]
    _print(made, lines, [train(step) + chance.gauss(0, 5 * sigma) for step in lines])
    for step, error in zip(steps, noise(chance, EVALUATIONS), strict=True):
        at_train = train(step) + sigma * chance.gauss(0, 1)
        made.evals.append(Evaluation(step, val(step) + sigma * error, at_train, "loss", None, stderr))
    return made


def _print(made: Run, steps: list[int], losses: list[float]) -> None:
    """Add lines with a loss and a time of 0.1 s."""
    made.steps.extend(steps, losses, [0.1] * len(steps), *([MISSING] * len(steps) for _ in range(4)))


def flattened(step: float) -> float:
    """Falls for a tenth of the run, and rests from there on."""
    return LOSS + 2.2 * math.exp(-step / 100)


def power_law(step: float) -> float:
    return 1.6 + 6.0 * step**-0.35


def overfitting(rise: float) -> Callable[[float], float]:
    """Best in the middle of the run, and higher by `rise` at its end."""

    def val(step: float) -> float:
        fall = 1.5 * (max(0.0, STEPS / 2 - step) / STEPS) ** 2
        return LOSS + fall + rise * max(0.0, step - STEPS / 2) / (STEPS / 2)

    return val


def falling(step: float) -> float:
    return LOSS - 0.3 + 4.0 * step**-0.35


# The rise is 4 standard errors of itself: the mean of the last three evaluations against that of the three lowest.
RISE = 4 * NOISE * math.sqrt(2 / 3)
CURVES: dict[str, Callable[[random.Random], Run]] = {
    "flat, white noise": lambda chance: curve(chance, flattened, white),
    "flat, white noise, errors printed": lambda chance: curve(chance, flattened, white, stderr=NOISE),
    "flat, AR(0.5)": lambda chance: curve(chance, flattened, correlated),
    "flat, AR(0.5), errors printed": lambda chance: curve(chance, flattened, correlated, stderr=NOISE),
    "flat, AR(0.5), training falls": lambda chance: curve(chance, flattened, correlated, train=falling),
    "flat, white noise, training falls": lambda chance: curve(chance, flattened, white, train=falling),
    "power law": lambda chance: curve(chance, power_law, white),
    "power law, AR(0.5)": lambda chance: curve(chance, power_law, correlated),
    "overfitting by 4 errors": lambda chance: curve(chance, overfitting(RISE), white, train=falling),
    "overfitting by 4 errors, errors printed": lambda chance: curve(
        chance, overfitting(RISE), white, train=falling, stderr=NOISE
    ),
    "overfitting by 8 errors": lambda chance: curve(chance, overfitting(2 * RISE), white, train=falling),
}


def verdicts(make: Callable[[random.Random], Run], runs: int) -> Counter[str]:
    """How many runs get each verdict, and how many are called bad."""
    found: Counter[str] = Counter()
    for number in range(runs):
        codes = {verdict.code for verdict in analyse(make(random.Random(number))).verdicts}
        found.update(codes)
        found["bad"] += bool(codes & BAD)
    return found


# --- several runs ---

SETTINGS = {
    **dict.fromkeys(("n_layer", "n_head", "block_size", "batch_size"), 4), "n_embd": 64, "learning_rate": 0.01,
    "dropout": 0.1, "max_iters": STEPS, "warmup_iters": 100, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
    "grad_clip": 1.0, "min_lr": 0.001, "bias": False, "recipe": "modern", "order": "random", "dtype": "float32",
    "vocab_size": 65, "train_tokens": 1_000_000, "dataset": "song", "compile": False, "parameters": 200_000,
}  # fmt: skip


def trained(chance: random.Random, seed: int, shift: float = 0.0, *, by_window: bool = True, **changes: object) -> Run:
    """A run of our own: its end is off by its seed, and known to the error of its windows."""
    config = {**SETTINGS, "seed": seed, **changes}
    end = LOSS * (1 + shift + SEEDS * chance.gauss(0, 1))
    made = Run("nanoscope", Traits(last_is_total_minus_one=False), config=config)  # type: ignore[arg-type]
    for step in range(100, STEPS + 1, 100):
        loss = end + 2.2 * math.exp(-step / 400)
        _print(made, [step], [loss + chance.gauss(0, 0.05)])
        made.evals.append(Evaluation(step, loss, None, "loss", None, WINDOWS * LOSS))
    if by_window:
        losses = {n: made.evals[-1].val + math.sin(n) + chance.gauss(0, WINDOWS * LOSS * 8) for n in range(64)}
        off = sum(losses.values()) / len(losses) - made.evals[-1].val
        windows = WindowLosses(STEPS, 64, {n: loss - off for n, loss in losses.items()})
        made.details = RunDetails(events.Start(dataset_fingerprint="same"), windows=[windows])
    return made


def told_apart(values: int, seeds: int, runs: int, shift: float = 0.0, *, by_window: bool = True) -> dict[str, float]:
    """In what share of the experiments the setting is said to make the difference, and for sure; `shift` is what its
    last value really does, as a share of the loss."""
    found: Counter[str] = Counter()
    for number in range(runs):
        chance = random.Random(number)
        compared = [
            trained(chance, value * seeds + seed, shift if value == values - 1 else 0.0, by_window=by_window,
                    label_smoothing=value / 100)
            for value in range(values)
            for seed in range(seeds)
        ]  # fmt: skip
        effects = [e for e in findings(compared) if e.code == "effect" and e.verdict == "differs"]  # type: ignore[attr-defined]
        found["differs"] += bool(effects)
        found["sure"] += any(effect.confidence == "sure" for effect in effects)  # type: ignore[attr-defined]
    return {name: found[name] / runs for name in ("differs", "sure")}


def findings(runs: list[Run]) -> Iterator[object]:
    yield from compare(runs, [str(number) for number in range(len(runs))]).findings


def four_errors(seeds: int) -> float:
    """A shift of 4 standard errors of the difference between two means of so many runs."""
    return 4 * SEEDS * math.sqrt(2 / seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs: int = options.runs
    document: dict[str, object] = {}
    for name, make in CURVES.items():
        found = verdicts(make, runs)
        document[name] = shares = {code: count / runs for code, count in found.most_common() if count}
        print(f"{name:42}" + ", ".join(f"{code} {share:.1%}" for code, share in shares.items()), flush=True)
    few = max(20, runs // 4)
    for values in (2, 5, 10, 20):
        for by_window in (True, False):
            name = f"{values} runs, the setting does nothing, {'by window' if by_window else 'by printed errors'}"
            document[name] = told_apart(values, 1, few, by_window=by_window)
            print(f"{name:70}{document[name]}", flush=True)
    for values, seeds in ((2, 2), (2, 4), (5, 3)):
        name = f"{values} values × {seeds} seeds, the setting does nothing"
        document[name] = told_apart(values, seeds, runs)
        print(f"{name:70}{document[name]}", flush=True)
    for seeds in (3, 5, 10):
        name = f"2 values × {seeds} seeds, an effect of 4 standard errors"
        document[name] = told_apart(2, seeds, runs, four_errors(seeds))
        print(f"{name:70}{document[name]}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
