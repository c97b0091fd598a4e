"""The checkpoints of a run on disk: their names, and which there are. Imports no torch.

    checkpoints/step-000500/{model.safetensors, optimizer.safetensors, tokenizer.json, state.json}
    checkpoints/last, checkpoints/best      each holds the name of one of these folders

model/checkpoint.py reads a checkpoint, training/checkpoint.py writes one.
"""

import re
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.untrusted import read_small

WEIGHTS, OPTIMIZER, TOKENIZER, STATE = "model.safetensors", "optimizer.safetensors", "tokenizer.json", "state.json"
LAST, BEST = "last", "best"
NANOGPT = "ckpt.pt"  # nanoGPT's checkpoint, in a folder of its own


def checkpoint_name(step: int) -> str:
    return f"step-{step:06d}"


def checkpoint_folders(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, newest first.

    While a step is saved again, its old checkpoint is called `.step-N.old`. A process killed at that moment leaves it.
    """
    found: dict[int, Path] = {}
    paths = list(folder.iterdir()) if folder.is_dir() else []
    for pattern in (r"\.step-(\d+)\.old", r"step-(\d+)"):  # the new one wins
        for path in paths:
            if (match := re.fullmatch(pattern, path.name)) and path.is_dir():
                found[int(match[1])] = path
    return [found[step] for step in sorted(found, reverse=True)]


def read_pointer(folder: Path, pointer: str) -> str | None:
    """The name of the checkpoint that LAST or BEST points to; None if there is no such checkpoint."""
    try:
        name = read_small(folder / pointer, limit_bytes=100).decode("ascii").strip()
    except (OSError, UnicodeDecodeError, JobError):
        return None
    return name if re.fullmatch(r"step-[0-9]{1,12}", name) and (folder / name).is_dir() else None
