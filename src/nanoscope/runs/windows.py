"""The validation loss of each window, of a run's best and last evaluation.

Evaluations of nanoscope read the same windows every time, so two runs on the same data can be compared window by
window: that is far more exact than comparing two means. A run keeps windows/last.bin and windows/best.bin. Each is one
line of JSON, then the numbers of the windows (32-bit, unsigned) and their losses (32-bit floats), all little-endian.
"""

import json
import math
import sys
from array import array
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
    header = json.dumps({"step": step, "block_size": block_size, "windows": len(numbers)})
    columns = array("I", numbers), array("f", losses)
    if sys.byteorder == "big":
        for column in columns:
            column.byteswap()
    return header.encode() + b"\n" + b"".join(column.tobytes() for column in columns)


def decode_windows(content: bytes) -> WindowLosses | None:
    """The inverse; None if it is damaged."""
    line, _, body = content.partition(b"\n")
    try:
        header = json.loads(line)
        step, block_size, count = (header[key] for key in ("step", "block_size", "windows"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not all(type(value) is int and value >= 0 for value in (step, block_size, count)) or len(body) != 8 * count:
        return None
    numbers, losses = array("I"), array("f")
    numbers.frombytes(body[: 4 * count])
    losses.frombytes(body[4 * count :])
    if sys.byteorder == "big":
        numbers.byteswap()
        losses.byteswap()
    if not all(map(math.isfinite, losses)):
        return None
    return WindowLosses(step, block_size, dict(zip(numbers, losses, strict=True)))


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
