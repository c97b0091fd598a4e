"""Runs made up for the analyses: every test says only what is special about its own."""

import io
import math
import random
from collections.abc import Callable, Iterable

import pytest

from nanoscope.findings.analyse import Analysis, Options, analyse
from nanoscope.runs.reader import read_stream
from nanoscope.runs.run import Run


def learning_curve(step: int) -> float:
    return 1.5 + 2.7 * math.exp(-step / 600)


@pytest.fixture
def nanogpt_log() -> Callable[..., str]:
    """The text of a nanoGPT run with a little noise, whose times and losses a test may bend."""

    def make(
        last: int = 2000,
        every: int = 10,
        eval_every: int | None = 250,
        step_s: Callable[[int], float] = lambda step: 0.1,
        eval_s: float = 4.0,
        startup_s: float = 5.0,
        loss: Callable[[int], float] = learning_curve,
        val: Callable[[int], float] | None = None,
        saves: Callable[[int], bool] = lambda step: step > 0,
        save_s: float = 0.0,
        first: int = 0,
        header: Iterable[str] = (),
        mfu: str = "12.00",
    ) -> str:
        rng = random.Random(7)
        lines = list(header)
        for step in range(first, last + 1):
            evaluates = eval_every is not None and step % eval_every == 0
            seconds = step_s(step) * (1 + rng.gauss(0, 0.01)) + (startup_s if step == 0 else 0.0)
            noise = rng.gauss(0, 0.01)
            if evaluates:
                train, validation = loss(step), (val or (lambda s: loss(s) + 0.05))(step)
                lines.append(f"step {step}: train loss {train:.4f}, val loss {validation:.4f}")
                seconds += eval_s
                if saves(step):
                    lines.append("saving checkpoint to out")
                    seconds += save_s
            if (step - first) % every == 0:
                lines.append(f"iter {step}: loss {loss(step) + noise:.4f}, time {seconds * 1000:.2f}ms, mfu {mfu}%")
        return "\n".join(lines) + "\n"

    return make


@pytest.fixture
def read_run() -> Callable[[str], Run]:
    def read(text: str) -> Run:
        return read_stream(io.BytesIO(text.encode()), "made-up.log").runs[0]

    return read


@pytest.fixture
def explain(read_run) -> Callable[..., Analysis]:
    """The analysis of a text's first run."""

    def analyse_text(text: str, max_iters: int | None = None, device: str | None = None) -> Analysis:
        log = read_stream(io.BytesIO(text.encode()), "made-up.log")
        return analyse(log.runs[0], Options(max_iters, device), log)

    return analyse_text
