"""Reading a log that a test makes up."""

import io
from collections.abc import Callable

import pytest

from nanoscope.runs.reader import read_stream
from nanoscope.runs.run import Log

ReadText = Callable[..., Log]


@pytest.fixture
def read() -> ReadText:
    """Read a text (or bytes) as if it were a log file."""

    def read_text(text: str | bytes, encoding: str = "utf-8") -> Log:
        data = text if isinstance(text, bytes) else text.encode(encoding)
        return read_stream(io.BytesIO(data), "made-up.log")

    return read_text


@pytest.fixture
def nanogpt_lines() -> list[str]:
    """A clean nanoGPT log: steps 0 to 400, a line every 10, an evaluation every 100, checkpoints from 100 on."""
    lines = []
    for step in range(0, 401, 10):
        loss = 4.2 - step / 200
        if step % 100 == 0:
            lines.append(f"step {step}: train loss {loss:.4f}, val loss {loss + 0.05:.4f}")
            if step:
                lines.append("saving checkpoint to out-poems")
        time_ms = 5120.25 if step % 100 == 0 else 120.25
        lines.append(f"iter {step}: loss {loss:.4f}, time {time_ms:.2f}ms, mfu 7.31%")
    return lines
