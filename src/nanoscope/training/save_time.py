"""What saving a checkpoint takes: by its size, and by how fast the latest saves to the same disk were."""

import json
import platform
from contextlib import suppress
from pathlib import Path

import torch

from nanoscope.files import cache_folder, write_atomically

# To write, sync, read back and hash, on a virtual machine's disk (benchmarks/LOG.md).
FIXED_SECONDS, BYTES_PER_SECOND = 0.006, 300e6


def checkpoint_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The weights and what the optimizer keeps of each: two averages where it has betas (AdamW), else one."""
    groups = optimizer.param_groups
    return sum(p.nbytes * (3 if "betas" in group else 2) for group in groups for p in group["params"])


def save_seconds(size: int, folder: Path) -> float:
    """What saving `size` bytes below `folder` is expected to take."""
    return _usual_seconds(size) * _seen().get(_disk(folder), 1.0)


def remember_save(size: int, seconds: float, folder: Path) -> None:
    """Let later forecasts know how fast this disk is: halfway between what was known and this save."""
    seen, disk, times = _seen(), _disk(folder), seconds / _usual_seconds(size)
    with suppress(OSError):  # the next run remembers again
        known = {**seen, disk: (times * seen.get(disk, times)) ** 0.5}
        write_atomically(cache_folder() / "saves-seen.json", json.dumps(known, indent=1))


def _usual_seconds(size: int) -> float:
    return FIXED_SECONDS + size / BYTES_PER_SECOND


def _seen() -> dict[str, float]:
    """How many times as long as usual a save takes, by disk."""
    try:
        found = json.loads((cache_folder() / "saves-seen.json").read_text("utf-8"))
        return {str(disk): float(times) for disk, times in found.items() if 0 < float(times) < 1e6}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _disk(folder: Path) -> str:
    with suppress(OSError):
        return f"{platform.node()} {folder.stat().st_dev}"
    return ""
