"""The validation loss of each window, of a run's best and last evaluation.

Evaluations of nanoscope read the same windows every time, so two runs on the same data can be compared window by
window: that is far more exact than comparing two means. A run keeps windows/last.bin and windows/best.bin. Each is one
line of JSON, then the numbers of the windows (32-bit, unsigned) and their losses (32-bit floats), all little-endian.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

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


class _Header(msgspec.Struct):
    step: Annotated[int, Meta(ge=0)]
    block_size: Annotated[int, Meta(ge=0)]
    windows: Annotated[int, Meta(ge=0, le=MOST_WINDOWS)]


def encode_windows(step: int, block_size: int, numbers: list[int], losses: list[float]) -> bytes:
    """The content of a file."""
    header = msgspec.json.encode(_Header(step, block_size, len(numbers)))
    return header + b"\n" + struct.pack(_format(len(numbers)), *numbers, *losses)


def decode_windows(content: bytes) -> WindowLosses | None:
    """The inverse; None if it is damaged."""
    line, _, body = content.partition(b"\n")
    try:
        header = msgspec.json.decode(line, type=_Header)
        values = struct.unpack(_format(header.windows), body)
    except (ValueError, struct.error):  # msgspec's errors are ValueErrors too
        return None
    losses = dict(zip(values[: header.windows], values[header.windows :], strict=True))
    return WindowLosses(header.step, header.block_size, losses) if all(map(math.isfinite, losses.values())) else None


def _format(count: int) -> str:
    return f"<{count}I{count}f"


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
