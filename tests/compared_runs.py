"""Runs made up to be compared: each test says what is special about its own."""

import math
from collections.abc import Callable, Mapping, Sequence

from nanoscope.runs import events
from nanoscope.runs.details import RunDetails
from nanoscope.runs.run import MISSING, NOT_FINITE, Evaluation, Run, Traits
from nanoscope.runs.windows import WindowLosses

Curve = Callable[[int], float]

# As many settings as a run of nanoscope states: nothing that could matter is unknown.
ALL_SETTINGS: Mapping[str, object] = {
    "n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 64, "batch_size": 8, "gradient_accumulation_steps": 1,
    "dropout": 0.0, "bias": False, "learning_rate": 0.01, "min_lr": 0.001, "warmup_iters": 10, "weight_decay": 0.1,
    "beta1": 0.9, "beta2": 0.95, "grad_clip": 1.0, "max_iters": 400, "decay_lr": True, "seed": 1, "dtype": "float32",
    "compile": "eager", "recipe": "classic", "dataset": "song", "vocab_size": 65, "train_tokens": 10_000,
    "log_interval": 10, "out_dir": "runs/a",
}  # fmt: skip


def falling(step: int, to: float = 2.0) -> float:
    return to + (4.2 - to) * math.exp(-step / 80)


def run(
    end: float = 2.0,
    *,
    steps: int = 400,
    first: int = 0,
    loss: Curve | None = None,
    val: Curve | None = None,
    eval_every: int | None = 50,
    stderr: float | None = 0.01,
    noise: float = 0.01,
    metric: str = "loss",
    seconds: float = 0.1,
    spread: float = 0.01,
    mfu_pct: float = MISSING,
    assumes: str | None = None,
    own: events.Start | RunDetails | None = None,
    wall_seconds: float | None = None,
    in_bits: bool = False,
    **settings: object,
) -> Run:
    """A run that falls to `end`; evaluations have the standard error `stderr`, or scatter by `noise` without one."""
    made = Run("nanogpt", Traits(mfu_assumes=assumes, last_is_total_minus_one=False), config=dict(settings))  # type: ignore[arg-type]
    train = loss or (lambda step: falling(step, end))
    measured = val or train
    for step in range(first, steps + 1, 10):
        wobble = noise * math.sin(7.3 * step + 10 * end)
        time = seconds * (1 + spread * math.sin(3.1 * step + 10 * end))
        value = train(step) + wobble
        known = value if math.isfinite(value) else NOT_FINITE
        made.steps.extend([step], [known], [time], [MISSING], [MISSING], [MISSING], [mfu_pct])
    if eval_every:
        for step in range(-(-first // eval_every) * eval_every, steps + 1, eval_every):
            wobble = 0.0 if stderr is not None else noise * math.sin(5.7 * step + 10 * end)
            value = measured(step) + wobble
            finite = value if math.isfinite(value) else NOT_FINITE
            made.evals.append(Evaluation(step, finite, None, metric, None, stderr))  # type: ignore[arg-type]
    if own is not None:
        made.details = RunDetails(own) if isinstance(own, events.Start) else own
    made.wall_seconds, made.loss_in_bits = wall_seconds, in_bits
    return made


def complete(end: float = 2.0, **changes: object) -> Run:
    """The same with all settings stated, some of them changed."""
    own = {key: changes.pop(key) for key in list(changes) if key in run.__kwdefaults__}
    return run(end, **own, **{**ALL_SETTINGS, **changes})  # type: ignore[arg-type]


def started(**fields: object) -> events.Start:
    return events.Start(**fields)  # type: ignore[arg-type]


def evaluated_by_window(end: float, step: int = 400, noise: float = 0.01) -> RunDetails:
    """Our own run whose windows differ by much more than two runs do in any of them."""
    level = falling(step, end)
    losses = {number: level + math.sin(number) + noise * math.sin(3 * number * end) for number in range(60)}
    shift = level - sum(losses.values()) / len(losses)
    windows = WindowLosses(step, 64, {number: loss + shift for number, loss in losses.items()})
    return RunDetails(started(dataset_fingerprint="same"), windows=[windows])


def _broken(step: int) -> float:
    return falling(step) if step < 200 else math.nan


def _overfitting(step: int) -> float:
    return 2.0 + 2.2 * math.exp(-step / 40) + max(0, step - 150) / 500


def _diverged(step: int) -> float:
    return falling(step) if step < 250 else 9.0


_RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)

# Comparisons that together make nanoscope say everything it can say about several runs.
EXAMPLES: Mapping[str, Sequence[Run]] = {
    # which losses can be compared
    "bits per byte": [run(1.0, metric="bpb"), run(1.2, metric="bpb")],
    "other units": [run(1.0, metric="bpb"), run(3.0)],
    "bits and nats": [run(in_bits=True), run()],
    "other vocabularies": [run(vocab_size=65), run(vocab_size=300)],
    "other data": [run(dataset="one"), run(dataset="two")],
    "other fingerprints": [
        run(dataset="one", own=started(dataset_fingerprint="a")),
        run(dataset="one", own=started(dataset_fingerprint="b")),
    ],
    "more data": [run(vocab_size=65, train_tokens=1000), run(vocab_size=65, train_tokens=9000)],
    "other starts": [run(), run(loss=lambda step: falling(step) + 5)],
    "one fingerprint": [
        run(dataset="one", own=started(dataset_fingerprint="a")),
        run(2.5, dataset="two", own=started(dataset_fingerprint="a")),
    ],
    "one size": [
        run(dataset="one", vocab_size=65, train_tokens=1000),
        run(2.5, dataset="two", vocab_size=65, train_tokens=1000),
    ],
    "one vocabulary": [run(dataset="one", vocab_size=65), run(2.5, dataset="one_char", vocab_size=65)],
    # one setting
    "a sweep": [complete(2 + abs(math.log(rate / 0.01)), learning_rate=rate) for rate in _RATES],
    "a sweep with its best at the end": [complete(3 - width / 64, n_embd=width) for width in (16, 32, 64)],
    "a sweep with its best at zero": [complete(2 + share, dropout=share) for share in (0.0, 0.3, 0.6)],
    "a sweep of neighbours": [complete(2 + abs(layers - 2) + layers / 10, n_layer=layers) for layers in (1, 2, 3)],
    "a sweep with ties": [
        complete(end, learning_rate=rate) for end, rate in zip((3, 2.5, 2.0, 2.005, 2.7), _RATES, strict=True)
    ],
    "a sweep that breaks": [complete(learning_rate=0.01), complete(loss=_broken, learning_rate=1.0)],
    "a long sweep": [complete(2 + index / 10, warmup_iters=index) for index in range(12)],
    "a grid": [
        complete(2 + rate * 30 + width / 100, learning_rate=rate, n_embd=width)
        for rate in (0.001, 0.01)
        for width in (32, 64)
    ],
    "some settings": [
        run(end, dataset="song", stderr=None, learning_rate=end, **dict.fromkeys("abcdefghij", 1)) for end in (2.0, 2.5)
    ],
    "few settings": [run(learning_rate=0.1, stderr=None), run(2.5, learning_rate=0.01, stderr=None)],
    "window by window": [
        complete(2.0, own=evaluated_by_window(2.0)), complete(2.2, own=evaluated_by_window(2.2), dropout=0.1),
    ],
    "window by window, a small difference": [
        complete(2.0, own=evaluated_by_window(2.0)), complete(2.05, own=evaluated_by_window(2.05), dropout=0.1, seed=2),
    ],
    "scatter": [complete(2.0, stderr=None), complete(2.05, stderr=None, dropout=0.1)],
    "only some show it": [
        complete(2.0, learning_rate=0.1), complete(2.9, dropout=0.1), complete(2.2, dropout=0.5, n_embd=64),
        complete(3.9, dropout=0.5),
    ],
    "a small difference": [complete(2.0), complete(2.07, dropout=0.1)],
    "hardly a difference": [complete(2.0), complete(2.035, dropout=0.1)],
    "no difference": [complete(2.0), complete(2.005, dropout=0.1)],
    "judged by repeats": [
        complete(2.0), complete(2.02, seed=2), complete(1.98, seed=3), complete(2.5, dropout=0.5),
    ],
    "longer": [complete(2.2), complete(2.0, max_iters=800, steps=800)],
    "longer, without evaluations": [
        complete(2.2, eval_every=None), complete(2.0, max_iters=800, steps=800, eval_every=None),
    ],
    # several settings, or none
    "repeats": [complete(2 + seed / 100, seed=seed) for seed in range(20)],
    "repeats of two": [
        complete(2 + seed / 100 + share, seed=seed, dropout=share) for seed in (1, 2) for share in (0.0, 0.5)
    ],
    "repeats of several": [
        complete(2 + seed / 100 + share, seed=seed, dropout=share) for seed in (1, 2) for share in (0.0, 0.2, 0.5)
    ],
    "nothing tells them apart": [run(2 + index / 1000) for index in range(5)],
    "identical": [run(), run(), run()],
    "identical, all settings known": [complete(), complete()],
    "identical whatever the setting": [complete(), complete(weight_decay=0.2)],
    "two settings": [complete(2.0), complete(2.5, dropout=0.1, learning_rate=0.1)],
    "three settings": [complete(2.0), complete(2.5, dropout=0.1, learning_rate=0.1, weight_decay=0.0)],
    "several settings, nothing to compare": [
        complete(2.0, eval_every=None, steps=100), complete(2.0, first=300, dropout=0.1, n_embd=64),
    ],
    "resumed with another rate": [
        complete(2.0, own=RunDetails(started(), resumes=[events.Resume(step=200, changed={"min_lr": (0.1, 0.01)})])),
        complete(2.5, learning_rate=0.1),
    ],
    "unexplained": [complete(2.0), complete(2.5)],
    "unexplained, some settings known": [run(dropout=0.1), run(2.5, dropout=0.1)],
    "unexplained, no settings known": [run(), run(2.5)],
    "unexplained, noise unknown": [
        run(steps=50, eval_every=50, stderr=None), run(2.5, steps=50, eval_every=50, stderr=None),
    ],
    "noise": [complete(2.0), complete(2.005)],
    "noise of training": [complete(2.0, eval_every=None), complete(2.001, eval_every=None)],
    "fewer steps": [run(2.004, steps=150), run()],
    "fewer steps and more": [run(2.5, steps=300), run()],
    "fewer steps, unclear": [run(2.035, steps=300), run()],
    "no common step": [run(steps=100), run(first=300)],
    "one overfits": [run(val=_overfitting), run(steps=500)],
    "one is far above its training loss": [run(val=lambda step: 9.0, eval_every=400, first=10), run(first=10)],
    "one overfits and is shorter": [run(val=_overfitting, loss=falling), run(steps=700)],
    "one diverged": [run(loss=_diverged, eval_every=None), run(steps=700, eval_every=None)],
    "one broke": [run(loss=_broken), run()],
    # one log names its device, so does the other
    "another device": [
        complete(device_name="one card"),
        complete(2.5, device_name="another", learning_rate=0.1, dropout=0.3, seconds=0.3),
    ],
}  # fmt: skip
