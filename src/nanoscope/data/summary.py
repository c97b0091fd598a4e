"""What `prepare` says at the end: the size of the dataset, warnings, and the command that trains on it."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nanoscope.config_sources import DEFAULT_PRESET, resolve
from nanoscope.data.dataset import SPLITS, open_dataset, read_meta
from nanoscope.data.ngrams import stored_ladder
from nanoscope.ladder import Ladder, knowledge
from nanoscope.messages import Text, on_terminal


def summary(folder: Path, seconds: float, warnings: list[str]) -> dict[str, Any]:
    """Return the summary of a dataset that has just been prepared, as --json prints it."""
    meta, ladder = read_meta(folder), stored_ladder(open_dataset(folder))
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
        "ladder": asdict(ladder) if ladder else None,
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
        *_to_beat(summary["ladder"]),
        *(Text("warning: {text}", text=warning) for warning in summary["warnings"]),
        Text("next: {command}", command=summary["next"]),
    ]
    return "\n".join(map(on_terminal, lines))


def _to_beat(measured: dict[str, Any] | None) -> list[Text]:
    """Some rungs of the ladder: guessing, the last token, the last three, and the best."""
    ladder = Ladder(**measured) if measured else None
    rungs = ladder.rungs() if ladder else []
    if ladder is None or len(rungs) < 5:  # too little text for models to differ
        return []
    last, three, best = rungs[2], rungs[min(4, len(rungs) - 2)], rungs[-1]
    return [
        Text(
            "  to beat     val loss {guessing:.2f} by guessing, {last_loss:.2f} knowing {last}, {three_loss:.2f} "
            "{three}, {best_loss:.2f} {best}",
            guessing=ladder.guessing,
            last_loss=last.loss,
            last=knowledge(last.known or 0, ladder.unit),
            three_loss=three.loss,
            three=knowledge(three.known or 0, ladder.unit),
            best_loss=best.loss,
            best=knowledge(best.known or 0, ladder.unit),
        )
    ]
