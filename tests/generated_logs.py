"""Small logs that together make nanoscope say everything it can say, each named after what it shows."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from hypothesis import strategies as st

import example_logs
from nanoscope.ladder import Ladder
from nanoscope.runs import events
from nanoscope.runs.details import RunDetails
from nanoscope.runs.reader import read_stream
from nanoscope.runs.run import Log, Series

Curve = Callable[[int], float]


def falling(step: int) -> float:
    """A loss that keeps falling, with some noise."""
    return 1.5 + 2.7 * math.exp(-step / 900) + 0.02 * math.sin(7 * step)


def level(step: int) -> float:
    return 2.0 + 0.02 * math.sin(7 * step)


def steady(step: int) -> float:
    return 100.0 + step % 7


def nanogpt(
    steps: int = 1000,
    *,
    first: int = 0,
    every: int = 10,
    loss: Curve = falling,
    ms: Curve = steady,
    mfu: Curve | None = lambda step: 11.0,
    val: Curve | None = None,
    eval_every: int = 100,
    train: Curve = falling,
    saves: Callable[[int], bool] = lambda step: step > 0,
    eval_ms: float = 2000.0,
    head: Sequence[str] = (),
    tail: Sequence[str] = (),
) -> str:
    """A log as nanoGPT prints it; with `val` it evaluates every `eval_every` steps, and saves where `saves` says so."""
    lines = list(head)
    for step in range(first, steps + 1, 1):
        evaluates = val is not None and step % eval_every == 0
        if evaluates and val is not None:
            lines.append(f"step {step}: train loss {train(step):.4f}, val loss {val(step):.4f}")
            if saves(step):
                lines.append("saving checkpoint to out")
        if step % every == 0:
            time_ms = ms(step) + (eval_ms if evaluates else 0.0)
            shown = "" if mfu is None else f", mfu {mfu(step):.2f}%"
            lines.append(f"iter {step}: loss {loss(step):.4f}, time {time_ms:.2f}ms{shown}")
    return "\n".join([*lines, *tail]) + "\n"


def settings(**values: object) -> list[str]:
    return [f"Overriding: {name} = {value}" for name, value in values.items()]


def _after(step: int, value: float, before: Curve) -> Curve:
    return lambda at: value if at >= step else before(at)


def _timestamped(seconds: Curve) -> str:
    lines, now = [], 0.0
    for step in range(1, 60):
        now += seconds(step)
        clock = f"{9 + int(now // 3600):02d}:{int(now // 60) % 60:02d}:{int(now) % 60:02d}"
        lines.append(f"2024-05-01 {clock} | step: {step} | loss: {falling(step):.4f}")
    return "\n".join(lines) + "\n"


CONTEXT = """\
Overriding: max_iters = 2000
tokens per iteration will be: 16,384
Initializing a new model from scratch
found vocab_size = 65 (inside meta.pkl)
num decayed parameter tensors: 26, with 10,740,096 parameters
number of parameters: 10.65M
compiling the model... (takes a ~minute)
Resuming training from out
UserWarning: this is a warning
step 0: train loss 4.1700, val loss 4.1700
saving checkpoint to out
iter 0: loss 4.1700, time 30000.00ms, mfu -100.00%, lr 1e-3, norm 1.0, tok/s 3k, eta 4s
iter 10: loss 4.0, time 100.00ms, mfu -100.00%
Traceback (most recent call last):
RuntimeError: boom
"""


def _lines(line: Callable[[int], str], steps: Iterable[int]) -> str:
    return "".join(line(step) + "\n" for step in steps)


def _nanochat(total: str) -> str:
    return _lines(
        lambda s: (
            f"step {s:05d}{total} (1.0%) | loss: {falling(s):.6f} | lrm: 1.00 | dt: 100.00ms | tok/sec: 5,000 "
            "| bf16_mfu: 48.00 | total time: 1.00m"
        ),
        range(400, 900),
    )


def _rated(
    steps: int = 400, *, loss: Curve = falling, lr: Curve = lambda s: 6e-4, norm: Curve = lambda s: 0.3 + s % 5 / 50
) -> str:
    """build-nanogpt's lines, which print the learning rate and the gradient norm."""
    return _lines(
        lambda s: (
            f"step {s:5d} | loss: {loss(s):.6f} | lr {lr(s):.4e} | norm: {norm(s):.4f} | dt: 100.00ms "
            "| tok/sec: 5000.00"
        ),
        range(steps),
    )


def _own_console() -> str:
    """Our own console: evaluations whose times are printed."""
    lines = settings(max_iters=2000)
    for step in range(0, 1001, 10):
        if step % 100 == 0:
            lines.append(
                f"step {step}: train loss {falling(step):.4f}, val loss {falling(step):.4f} ± 0.0100, eval 2.00s"
            )
        lines.append(f"iter {step}: loss {falling(step):.4f}, time {steady(step):.2f}ms, mfu n/a, tok/s 33.2k, eta 41s")
    return "\n".join(lines) + "\n"


_WIDE = range(0, 1001, 10)

LOGS: Mapping[str, str] = {
    "empty": "",
    "no training": "loading data\nhello\n",
    "too short": nanogpt(10, every=5),
    "context": CONTEXT,
    "waiting": example_logs.WAITING,
    "end of a gpu run": example_logs.GPU_END,
    "end of a laptop run": example_logs.LAPTOP_END,
    "quoted": example_logs.QUOTED,
    "quoted with evaluations": example_logs.QUOTED + example_logs.QUOTED_EVALUATIONS,
    "spiky": example_logs.spiky(),
    "laptop": example_logs.laptop(),
    "gpu": example_logs.gpu(),
    "several runs": example_logs.laptop() + example_logs.gpu(),
    "the same run twice": example_logs.laptop() + example_logs.laptop(),
    # learning
    "improving, half done": nanogpt(val=falling, head=settings(max_iters=2000, batch_size=12, block_size=64)),
    "improving to the end": nanogpt(2000, val=falling, head=settings(max_iters=2000)),
    "an end that the counter contradicts": _nanochat("/02000") + "Total training time: 2.00m\n",
    "finished, of unknown length": _nanochat("") + "Total training time: 2.00m\n",
    "an error after the end": nanogpt(head=settings(max_iters=1000), tail=["RuntimeError: no sample"]),
    "constant": nanogpt(loss=lambda s: 2.0),
    "training loss improving": nanogpt(),
    "training loss level": nanogpt(loss=level, first=2000, steps=3000),
    "validation level": nanogpt(val=level, loss=level, train=level),
    "slight overfitting": nanogpt(
        val=lambda s: 1.6 + 3 * math.exp(-s / 100) + max(0, s - 600) / 16000,
        eval_every=50,
        train=lambda s: falling(s) - 1,
    ),
    "clear overfitting": nanogpt(
        val=lambda s: 1.6 + 3 * math.exp(-s / 100) + max(0, s - 600) / 5000,
        eval_every=50,
        train=lambda s: falling(s) - 1,
    ),
    "one evaluation": nanogpt(val=level, eval_every=1000, first=10),
    "memorising": nanogpt(loss=lambda s: 0.05 + 4 * math.exp(-s / 100)),
    "memorising a small text": nanogpt(
        loss=lambda s: 0.05 + 4 * math.exp(-s / 100),
        head=["train has 10,000 tokens", "tokens per iteration will be: 1,000"],
    ),
    "a part of the data": nanogpt(head=["train has 100,000,000 tokens", "tokens per iteration will be: 1,000"]),
    "diverged": nanogpt(loss=_after(600, 6.0, falling)),
    "diverged although clipped": nanogpt(
        loss=_after(600, 6.0, falling), head=settings(learning_rate=0.1, grad_clip=1.0)
    ),
    "finished early": nanogpt(500, head=settings(max_iters=1000)) + "Training finished.\n",
    "diverged after a checkpoint": nanogpt(loss=_after(600, 6.0, falling), val=falling, saves=lambda s: s == 500),
    "nan from the start": nanogpt(loss=lambda s: math.nan),
    "nan after a checkpoint": nanogpt(loss=_after(600, math.nan, falling), val=falling),
    "nan and recovered": nanogpt(loss=lambda s: math.nan if 500 <= s < 540 else falling(s)),
    "spike": nanogpt(loss=lambda s: 8.0 if s == 500 else falling(s)),
    "warm-up": nanogpt(500, head=settings(warmup_iters=2000), loss=lambda s: 10.4 - s / 50000),
    "a poor start": nanogpt(loss=lambda s: 6 * falling(s), head=["found vocab_size = 65"]),
    "trained before": nanogpt(loss=lambda s: 0.4 * falling(s), head=["found vocab_size = 65"]),
    # verdicts
    "a trend within noise": nanogpt(loss=lambda s: 2.0 + 0.3 * math.sin(7 * s), first=400, steps=700),
    "validation within noise": nanogpt(600, first=100, val=lambda s: 2.0 + 0.02 * math.sin(s), loss=level),
    "flat as the rate is zero": _rated(loss=level, lr=lambda s: max(0.0, 6e-4 * (1 - s / 300))),
    "flat at the end of a configured schedule": nanogpt(
        1000,
        first=600,
        val=level,
        loss=level,
        train=level,
        head=settings(max_iters=1000, learning_rate=1e-3, lr_decay_iters=1000, min_lr=0),
    ),
    "getting worse": nanogpt(
        2000,
        loss=lambda s: 2 + max(0, s - 900) / 4000,
        val=lambda s: 1.6 + 3 * math.exp(-s / 100) + max(0, s - 900) / 4000,
        train=lambda s: 2 + max(0, s - 900) / 4000,
        head=settings(learning_rate=0.01),
    ),
    "only validation, getting worse": _lines(
        lambda s: f"{s} val {1.6 + 3 * math.exp(-s / 100) + max(0, s - 900) / 4000:.4f}", range(0, 2001, 100)
    ),
    "validation is easier": nanogpt(val=lambda s: 0.8 * falling(s)),
    "no gap after many passes": nanogpt(
        2000,
        val=lambda s: 0.99 * falling(s),
        train=falling,
        head=["train has 10,000 tokens", "tokens per iteration will be: 1,000", "number of parameters: 10.65M"],
    ),
    "validation stalls": nanogpt(val=lambda s: max(falling(s), 3.0 + 0.01 * math.sin(7 * s))),
    "a growing gap": nanogpt(val=lambda s: falling(s) + 0.02 + s / 2500),
    "diverged while the rate rises": _rated(
        loss=_after(300, 40.0, falling), lr=lambda s: 1e-6 * s, norm=_after(299, 25.0, lambda s: 0.3)
    ),
    "diverged above guessing": nanogpt(loss=_after(600, 9.0, falling), head=["found vocab_size = 65"]),
    "pretrained, damaged": nanogpt(
        60, every=1, eval_every=5, val=lambda s: 3.0 if s == 0 else 3.9 - s / 100, loss=level
    ),
    "pretrained, damaged, recovered": nanogpt(
        200, every=1, eval_every=5, val=lambda s: 3.0 if s == 0 else 3.9 - s / 50, loss=lambda s: 3.9 - s / 50
    ),
    "damaged above guessing": nanogpt(
        200, every=1, loss=lambda s: 4.17 if s < 3 else 6.0 - s / 60, head=["found vocab_size = 65"]
    ),
    "stuck at guessing": nanogpt(loss=lambda s: 4.174 + 0.001 * math.sin(s), head=["found vocab_size = 65"]),
    "stuck at a rate of zero": _rated(loss=lambda s: 6.0 + 0.001 * math.sin(s), lr=lambda s: 0.0),
    "stuck at the frequencies": nanogpt(
        2000,
        val=lambda s: 3.3,
        train=lambda s: 3.3,
        loss=lambda s: 3.3 + max(0, 0.87 - s / 100) + 0.01 * math.sin(s),
        head=["found vocab_size = 65"],
    ),
    "the same batch": nanogpt(val=lambda s: 4.0 + s / 900, train=lambda s: 4.2 + s / 900, loss=lambda s: 4.2 * 0.99**s),
    "a loss of zero": nanogpt(loss=lambda s: 0.0),
    "gradients not finite": _rated(norm=lambda s: math.nan if s > 200 else 0.3),
    "exploding gradients": _rated(norm=lambda s: 50.0 if s > 370 else 0.3),
    "clipped gradients": "grad_clip = 1.0\n" + _rated(norm=lambda s: 0.5 + s % 3),
    "a spike at the end": nanogpt(loss=lambda s: 8.0 if s >= 990 else falling(s)),
    "warming up": _rated(60, loss=lambda s: 10.4 - s / 1000, lr=lambda s: 1e-6 * s),
    "warming up to a full value": _lines(
        lambda s: (
            f"step {s:05d}/02000 (1.0%) | loss: {10.4 - s / 5000:.6f} | lrm: {s / 100:.2f} | dt: 100.00ms "
            "| tok/sec: 5,000 | bf16_mfu: 48.00 | total time: 1.00m"
        ),
        range(40),
    ),
    "an MFU that rounds to zero": nanogpt(mfu=lambda step: 0.0),
    "few costly evaluations": nanogpt(600, val=falling, eval_every=300, eval_ms=60_000, head=settings(eval_iters=200)),
    "bits per byte": _lines(lambda s: f"Step {s:05d} | Validation bpb: {falling(s) / 3:.4f}", range(0, 500, 100))
    + _nanochat("/02000"),
    # timing
    "slowing down": nanogpt(ms=lambda s: 100 + s / 10, head=settings(max_iters=2000)),
    "slowing down in a few lines": nanogpt(200, ms=lambda s: 100 + s / 5 + s // 10 * 3 % 4 * 8),
    "getting faster": nanogpt(ms=lambda s: 200 - s / 10, head=settings(max_iters=2000)),
    "lately slower": nanogpt(ms=lambda s: 100 + (10 if s > 800 else 0), head=settings(max_iters=2000)),
    "lately faster": nanogpt(ms=lambda s: 100 - (10 if s > 800 else 0), head=settings(max_iters=2000)),
    "jittery": nanogpt(ms=lambda s: 100 + (80 if s * 7919 % 97 < 12 else 0)),
    "coarse clock": nanogpt(ms=lambda s: 15.625 * (2 + s % 20 // 10), head=settings(max_iters=2000)),
    "regular extra work": nanogpt(ms=lambda s: 100 + (900 if s % 90 == 40 else 0)),
    "only a step with an evaluation": nanogpt(2000, first=2000, val=falling),
    "stalls": nanogpt(ms=lambda s: 5000 if s in (310, 470, 480) else steady(s)),
    "first step": nanogpt(ms=lambda s: 40_000 if s == 0 else steady(s), mfu=None),
    "resumed": nanogpt(500)
    + "Resuming training from out\n"
    + nanogpt(1000, first=400, ms=lambda s: 30_000 if s == 400 else steady(s)),
    "hidden evaluations": nanogpt(2000, every=200, val=falling, eval_every=500),
    "running total": _lines(lambda s: f"step {s} loss {falling(s):.4f} elapsed {s * 0.1:.2f}s", range(1, 200)),
    "timestamps": _timestamped(lambda step: 7.0),
    "steps without numbers": _lines(
        lambda s: f"{{'loss': {falling(s):.4f}, 'learning_rate': 1e-05, 'epoch': {s / 100:.2f}}}", range(20, 800, 20)
    ),
    "progress bar": _lines(
        lambda s: (
            f"{{'loss': {falling(s):.4f}, 'learning_rate': 1e-05, 'epoch': 0.1}}\n"
            f"  1%|          | {s}/2000 [00:{s // 20:02d}<10:00,  2.00it/s]"
        ),
        range(20, 800, 20),
    ),
    "no times": _lines(lambda s: f"step {s} loss {falling(s):.4f}", range(200)),
    "checkpoints alone": _lines(
        lambda s: (
            f"step {s} loss {falling(s):.4f} time {100 + (3000 if s % 100 == 1 else 0)}ms"
            + ("\nsaving checkpoint to out" if s % 100 == 0 else "")
        ),
        range(1, 800),
    ),
    "own console": _own_console(),
    # the log
    "interrupted": nanogpt(300, tail=["^C", "KeyboardInterrupt"]),
    "killed": nanogpt(300, val=falling, tail=["slurmstepd: error: *** JOB 1 CANCELLED DUE TO TIME LIMIT ***"]),
    "out of memory": nanogpt(300, head=settings(batch_size=12), tail=["RuntimeError: CUDA out of memory."]),
    "out of memory in a trainer that works the accumulation out": _nanochat("/01000")
    + "torch.OutOfMemoryError: CUDA out of memory.\n",
    "exception": nanogpt(300, tail=["Traceback (most recent call last):", "ValueError: boom"]),
    "twice": _lines(lambda s: f"iter {s}: loss {falling(s):.4f}, time 100.00ms, mfu 1.00%\n" * 2, _WIDE),
    "wrapped": "".join(
        f"{line[:40]}\n{line[40:]}\n"
        for line in (f"iter {s}: loss {falling(s):.4f}, time 100.00ms, mfu 1.00%" for s in _WIDE)
    ),
    "times that the clock contradicts": _lines(
        lambda s: f"2031-01-01 10:{s // 60 % 60:02d}:{s % 60:02d} step {s}: loss {falling(s):.4f}, time {7.5 + s % 3}s",
        range(1, 90),
    ),
    "middle of a run": nanogpt(3000, first=2000),
    "elided": nanogpt(300) + nanogpt(1000, first=900),
    # efficiency
    "mfu never measured": nanogpt(100, mfu=lambda s: -100.0),
    "mfu never measured by another trainer": _lines(
        lambda s: f"step {s}: loss {falling(s):.4f}, time 100ms, mfu -100.00%", _WIDE
    ),
    "mfu above one": nanogpt(mfu=lambda s: 140.0),
    "mfu zero": nanogpt(mfu=lambda s: 0.0),
    "mfu drags behind": nanogpt(mfu=lambda s: 40.0 if s < 900 else 25.0, head=["NVIDIA A100-SXM4-40GB"]),
    "mfu on an A100": nanogpt(mfu=lambda s: 40.0, head=["NVIDIA A100-SXM4-40GB"]),
    "mfu of another device": nanogpt(head=["NVIDIA GeForce RTX 4070 Ti"]),
    "mfu plausible": nanogpt(mfu=lambda s: 40.0),
    "mfu too high for the device": nanogpt(mfu=lambda s: 90.0, head=["NVIDIA GeForce RTX 3090"]),
    "mfu of an assumed peak": "Estimated FLOPs per token: 1.000000e+09\n" + _nanochat("/02000"),
    "speed and size": nanogpt(mfu=None, head=["number of parameters: 10.65M", "tokens per iteration will be: 1,000"]),
    "speed, size and device": nanogpt(
        mfu=None,
        head=["number of parameters: 10.65M", "tokens per iteration will be: 1,000", "NVIDIA A100-SXM4-40GB"],
    ),
    "speed and work": "Estimated FLOPs per token: 1.000000e+09\n" + _nanochat("/02000").replace("48.00", "0.00"),
    # reading
    "columns of its own": _lines(lambda s: f"step={s} loss={falling(s):.4f} acc={s / 1000:.3f} dt=0.1", _WIDE),
    "no validation loss is a number": _lines(lambda s: f"step {s}: train loss {falling(s):.4f}, val loss nan", _WIDE),
    # reconciling
    "a step of half the data": nanogpt(
        head=settings(gradient_accumulation_steps=40, batch_size=12, block_size=1024, dataset="shakespeare_char")
    ),
    "a step of a third of the data": nanogpt(head=["train has 100,000 tokens", "tokens per iteration will be: 30,000"]),
    "beyond the total": _nanochat("/00500"),
    "fewer tokens than there should be": "Total batch size: 4,000\n" + _nanochat("/02000"),
    "more tokens than there should be": "Total batch size: 100\n" + _nanochat("/02000"),
    # time left
    "before the second evaluation": nanogpt(80, val=falling, head=settings(max_iters=2000, eval_interval=100)),
    "only the first evaluation": nanogpt(80, val=falling, head=settings(max_iters=2000)),
    "compiled": nanogpt(
        300, val=falling, ms=lambda s: 30_000 if s == 0 else steady(s), head=settings(max_iters=2000, compile=True)
    ),
    "compiled, without evaluations": nanogpt(
        300, ms=lambda s: 30_000 if s == 0 else steady(s), head=settings(compile=True)
    ),
    "not compiled": nanogpt(
        300, val=falling, ms=lambda s: 30_000 if s == 0 else steady(s), head=settings(compile=False)
    ),
    "one evaluation in a thousand": nanogpt(2000, val=falling, eval_every=600),
    "suddenly slower": nanogpt(ms=lambda s: 100 if s < 500 else 150),
}


def made_up_logs() -> Iterable[Log]:
    """Logs with what only some trainers print, whichever way they print it."""

    def log(text: str, **fields: object) -> Log:
        read = read_stream(io.BytesIO(text.encode()), "train.log")
        for name, value in fields.items():
            setattr(read.runs[0], name, value)
        return read

    def series(value: Curve) -> Series:
        column = Series()
        column.steps.extend(_WIDE)
        column.values.extend(map(value, _WIDE))
        return column

    half_done = nanogpt(head=settings(max_iters=2000))
    yield log(half_done, series={"eta_s": series(lambda s: 100.0)})
    yield log(half_done, series={"eta_s": series(lambda s: 1000.0)})
    yield log(half_done, series={"data_s": series(lambda s: 0.05), "memory_gb": series(lambda s: 4 + s / 500)})
    yield log(half_done, series={"loss_scale": series(lambda s: 65536.0 if s < 500 else 65536 / 2 ** ((s - 490) / 30))})
    foreseen = RunDetails(forecast=events.Forecast(eval_seconds=20.0, checkpoint_seconds=2.0))
    yield log(nanogpt(head=settings(max_iters=2000, eval_interval=250)), evals=[], details=foreseen)
    yield log(half_done, loss_is_average=True)
    yield log(half_done, time_source="progress_bar")
    yield log(half_done, unit="epoch")
    yield log(nanogpt(), unit="epoch")
    yield log(nanogpt(ms=lambda s: steady(s) + s / 10 + (5000 if s in (300, 530, 620) else 0)), unit="epoch")
    yield log(nanogpt(ms=lambda s: 9000 if s == 300 else steady(s)), unit="epoch")
    yield log(nanogpt(), unit="epoch", said_finished=True)
    yield log(nanogpt(head=settings(max_iters=1000)), unit="epoch")
    one_of_many = "Number of parameters: 10,650,000\n" + _nanochat("/02000").replace("48.00", "0.00")
    yield log(one_of_many, tok_s_per_device=True)


NOTES = (
    events.Rollback(step=100, to=50, lr_factor=0.5, count=1),
    events.OutOfMemory(step=120, micro_batch_before=12, micro_batch=6),
    events.Spike(step=130, loss=3.5, usual=2.0, score=9.0),
    *(events.SlowStep(step=140, seconds=2.5, usual=0.05, cause=cause) for cause in get_args(events.SlowCause)),
    events.Asleep(step=150, seconds=200.0),
    events.CheckpointFailed(step=160, message="disk full"),
)


def own_events() -> str:
    """Our own events: a run that samples, on data whose n-gram models were counted on a part of it."""
    ladder = Ladder("token", 8.3, [6.6, 4.3, 3.7, 3.5], train_tokens=1 << 20, val_tokens=1 << 17, sampled=True)
    lines: list[events.AnyEvent] = [events.Start(config={"max_iters": 300}, t=0.0, ladder=ladder)]
    for step in range(301):
        lines.append(events.Iter(step=step, loss=falling(step), seconds=0.1, t=2 + step / 10))
        if step % 100 == 0:
            lines.append(events.Eval(step=step, val_loss=falling(step), val_stderr=0.01, t=2 + step / 10))
            lines.append(events.Sample(step=step, seconds=3.0, t=2 + step / 10))
    phases = {"startup": 2.0, "step": 30.0, "sample": 9.0}
    lines.append(events.End(reason="finished", step=300, wall_seconds=41.0, phases=phases, t=41.0))
    return "".join(map(events.encode, lines))


@st.composite
def any_log(draw: st.DrawFn) -> str:
    """nanoGPT's lines with any numbers in them."""
    numbers = st.floats(0, 30, allow_nan=False).map("{:.4f}".format) | st.sampled_from(["nan", "inf", "0.0000", "1e9"])
    times = st.floats(0, 1e7).map("{:.2f}".format) | st.just("33.22")
    line = st.one_of(
        st.tuples(st.sampled_from((1, 10, 10, 10)), numbers, times, st.floats(-100, 500)).map(_iter_line),
        st.tuples(numbers, numbers).map(_eval_line),
        st.sampled_from([(0, "saving checkpoint to out"), (-50, ""), (0, "RuntimeError: boom"), (500, "")]),
    )
    head = draw(st.lists(st.sampled_from([*CONTEXT.splitlines()[:8], "train has 1,000 tokens"]), unique=True))
    step, lines = draw(st.sampled_from((0, 0, 3000))), list(head)
    for forward, text in draw(st.lists(line, max_size=60)):
        step = max(0, step + forward)
        lines.append(text.replace("{step}", str(step)))
    return "\n".join(lines) + "\n"


def _eval_line(losses: tuple[str, str]) -> tuple[int, str]:
    return 0, f"step {{step}}: train loss {losses[0]}, val loss {losses[1]}"


def _iter_line(values: tuple[int, str, str, float]) -> tuple[int, str]:
    forward, loss, ms, mfu = values
    return forward, f"iter {{step}}: loss {loss}, time {ms}ms, mfu {mfu:.2f}%"
