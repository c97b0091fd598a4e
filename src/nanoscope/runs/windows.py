"""The validation loss of each window, of a run's best and last evaluation.

Evaluations of nanoscope read the same windows every time, so two runs on the same data can be compared window by
window: that is far more exact than comparing two means. A run keeps windows/last.bin and windows/best.bin. Each is one
line of JSON, then the numbers of the windows (32-bit, unsigned) and their losses (32-bit floats), all little-endian.
"""

from dataclasses import dataclass
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.files import read_small

FOLDER = "windows"
NAMES = ("last.bin", "best.bin")
MOST_WINDOWS = 1 << 16  # more make a file too large to keep; the mean of so many is exact enough
MOST_BYTES = 1024 + 8 * MOST_WINDOWS


@dataclass(eq=False, repr=False)
class WindowLosses:
    """The losses of the windows of one evaluation, by the window's number in the validation split."""

    step: int
    block_size: int
    losses: dict[int, float]


def encode_windows(step: int, block_size: int, numbers: list[int], losses: list[float]) -> bytes:
    """The content of a file."""
    import json  # late, here and below: logs are explained without these

    import numpy as np

    header = {"step": step, "block_size": block_size, "windows": len(numbers)}
    line = json.dumps(header, separators=(",", ":")).encode()
    return line + b"\n" + np.array(numbers, "<u4").tobytes() + np.array(losses, "<f4").tobytes()


def decode_windows(content: bytes) -> WindowLosses | None:
    """The inverse; None if it is damaged."""
    import json

    import numpy as np

    line, _, body = content.partition(b"\n")
    try:
        header = json.loads(line)
        step, block_size, count = (header[name] for name in ("step", "block_size", "windows"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    counts = all(type(each) is int and each >= 0 for each in (step, block_size, count))
    if not counts or len(body) != 8 * count:
        return None
    numbers, losses = np.frombuffer(body[: len(body) // 2], "<u4"), np.frombuffer(body[len(body) // 2 :], "<f4")
    if not np.isfinite(losses).all():
        return None
    return WindowLosses(step, block_size, dict(zip(numbers.tolist(), losses.tolist(), strict=True)))


def read_windows(run: Path) -> list[WindowLosses]:
    """What the folder of a run holds; damaged and missing files are left out."""
    found = []
    for name in NAMES:
        try:
            windows = decode_windows(read_small(run / FOLDER / name, MOST_BYTES))
        except (OSError, JobError):
            continue
        if windows is not None:
            found.append(windows)
    return found
