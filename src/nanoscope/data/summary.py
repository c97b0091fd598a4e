"""What `prepare` says at the end: the size of the dataset, warnings, and the command that trains on it."""

import shlex
from pathlib import Path
from typing import Any

from nanoscope.config_sources import DEFAULT_PRESET, resolve
from nanoscope.data.dataset import SPLITS, read_meta
from nanoscope.messages import Text
from nanoscope.untrusted import on_terminal


def summary(folder: Path, seconds: float, warnings: list[str]) -> dict[str, Any]:
    """Return the summary of a dataset that has just been prepared, as --json prints it."""
    meta = read_meta(folder)
    train, val = meta.splits["train"], meta.splits["val"]
    command = ["nanoscope", "train", DEFAULT_PRESET, f"--dataset={folder.as_posix()}"]
    shortest = min(SPLITS, key=lambda name: meta.splits[name].tokens)
    tokens, wanted = meta.splits[shortest].tokens, resolve([]).config.block_size
    if tokens <= wanted:
        block_size = 1 << (tokens - 1).bit_length() - 1  # a window needs one token more
        command.append(f"--block_size={block_size}")
        warnings = [
            *warnings,
            Text(
                "very little text: the {split} split has {tokens:,} tokens, and the preset {preset} reads windows of "
                "{wanted:d}. Use a block_size below {tokens:d}, or prepare more text",
                split=shortest,
                tokens=tokens,
                preset=DEFAULT_PRESET,
                wanted=wanted,
            ),
        ]
    return {
        "dataset": folder.as_posix(),
        "tokenizer": meta.tokenizer["kind"],
        "vocab_size": meta.vocab_size,
        "train_tokens": train.tokens,
        "val_tokens": val.tokens,
        "characters_per_token": round((train.characters + val.characters) / (train.tokens + val.tokens), 4),
        "documents": meta.documents,
        "skipped_files": meta.skipped_files,
        "fingerprint": meta.fingerprint,
        "seconds": round(seconds, 2),
        "warnings": warnings,
        "next": shlex.join(command),
    }


def in_words(summary: dict[str, Any]) -> str:
    """Return the summary as lines for a person."""
    lines = [
        Text("prepared {dataset} in {seconds:.1f} s", **summary),
        Text("  tokens      {train_tokens:,} train, {val_tokens:,} val", **summary),
        Text(
            "  vocabulary  {vocab_size:,} ({tokenizer}), {characters_per_token:.2f} characters per token",
            **summary,
        ),
        Text("  documents   {documents:,}", **summary),
        *(Text("warning: {text}", text=warning) for warning in summary["warnings"]),
        Text("next: {command}", command=summary["next"]),
    ]
    return "\n".join(map(on_terminal, lines))
