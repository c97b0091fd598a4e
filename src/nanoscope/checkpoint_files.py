"""The checkpoints of a run on disk: their names, which there are, and their state.json. Imports no torch.

    checkpoints/step-000500/{model.safetensors, optimizer.safetensors, tokenizer.json, state.json}
    checkpoints/last, checkpoints/best      each holds the name of one of these folders

model/checkpoint.py reads a checkpoint, training/checkpoint.py writes one.
"""

import hashlib
import json
import re
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError
from nanoscope.files import read_json, read_small

STATE_VERSION = 1

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


def checkpoints_from(folder: Path, wanted: str = LAST) -> list[Path]:
    """The checkpoint that `wanted` names (`last`, `best` or its own name) and those before it, newest first."""
    available = checkpoint_folders(folder)
    if wanted in (LAST, BEST):
        wanted = read_pointer(folder, wanted) or "".join(path.name for path in available[:1])
    return list(dropwhile(lambda path: path.name != wanted, available))


def read_state(folder: Path) -> dict[str, Any]:
    """The undamaged state.json of a checkpoint, else an error: JobError, OSError, or what damaged JSON leads to."""
    content = read_json(folder / STATE)
    if content["version"] != STATE_VERSION:
        raise JobError(
            "{folder} was written by another version of nanoscope (format {version})",
            folder=folder,
            version=f"{content['version']!r:.20}",
        )
    if content.get("checksum") != state_checksum(content):
        raise JobError("{file} is damaged: its checksum differs from the one it holds", file=folder / STATE)
    return dict(content)


def state_checksum(state: dict[str, Any]) -> str:
    """The checksum that state.json holds of the rest of its content."""
    rest = {key: value for key, value in state.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def saved_settings(run: Path) -> tuple[dict[str, Any], str]:
    """The settings that the checkpoint keeps with which a run resumes, and its name; nothing if none keeps any."""
    for checkpoint in checkpoints_from(run / "checkpoints"):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, JobError):
            settings = read_state(checkpoint).get("settings")
            if isinstance(settings, dict) and settings:
                return settings, checkpoint.name
    return {}, ""
