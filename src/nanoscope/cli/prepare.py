"""`nanoscope prepare`: text in, a dataset folder out."""

import json
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.data.dataset import read_meta
from nanoscope.data.prepare import prepare as prepare_dataset
from nanoscope.errors import UsageError
from nanoscope.training.console import StageDisplay


def prepare(
    *sources: str,
    out: Path | None = None,
    tokenizer: str = "auto",
    vocab_size: int | None = None,
    field: str | None = None,
    val_fraction: float = 0.1,
    encoding: str = "utf-8",
    overwrite: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Convert text to a dataset of tokens for training.

    Examples:

      nanoscope prepare shakespeare

      nanoscope prepare book.txt --out data/book --tokenizer bpe --vocab_size 2048

      nanoscope prepare posts.jsonl more/*.csv --field body

      nanoscope prepare texts/

    Parameters
    ----------
    sources
        Corpora (shakespeare, or python: its standard library), files or folders: txt, md, jsonl, csv, parquet, .gz.
    out
        Output folder. Default: data/NAME-TOKENIZER.
    tokenizer
        char, byte, gpt2 (GPT-2's vocabulary), bpe (trained on this text), or auto: char below 20 MB, else bpe.
    vocab_size
        Vocabulary size of bpe. Default: 4096.
    field
        The jsonl field, or the csv or parquet column, that contains the text. Default: text.
    val_fraction
        Fraction of the text for validation: whole documents if there are at least 100, else the end of the text.
    encoding
        Text encoding of the files, for example cp1252.
    overwrite
        Replace a dataset that is already in the output folder.
    as_json
        Print the summary as a JSON object.
    """
    if not sources:
        raise UsageError(
            "Nothing to prepare: name a corpus, file or folder. For example: nanoscope prepare shakespeare"
        )
    started = time.monotonic()
    with StageDisplay() as display:
        out = prepare_dataset(
            sources, out, tokenizer=tokenizer, vocab_size=vocab_size, field=field, val_fraction=val_fraction,
            encoding=encoding, overwrite=overwrite, on_progress=display.show,
        )  # fmt: skip
    summary = _summary(out, time.monotonic() - started)
    print(json.dumps(summary, ensure_ascii=False) if as_json else _in_words(summary))


def _summary(out: Path, seconds: float) -> dict[str, str | int | float]:
    meta = read_meta(out)
    train, val = meta.splits["train"], meta.splits["val"]
    return {
        "dataset": out.as_posix(),
        "tokenizer": meta.tokenizer["kind"],
        "vocab_size": meta.vocab_size,
        "train_tokens": train.tokens,
        "val_tokens": val.tokens,
        "characters_per_token": round((train.characters + val.characters) / (train.tokens + val.tokens), 4),
        "documents": meta.documents,
        "skipped_files": meta.skipped_files,
        "fingerprint": meta.fingerprint,
        "seconds": round(seconds, 2),
    }


def _in_words(summary: dict[str, str | int | float]) -> str:
    lines = [
        f"prepared {summary['dataset']} in {summary['seconds']:.1f} s",
        f"  tokens      {summary['train_tokens']:,} train, {summary['val_tokens']:,} val",
        f"  vocabulary  {summary['vocab_size']:,} ({summary['tokenizer']}), "
        f"{summary['characters_per_token']:.2f} characters per token",
        f"  documents   {summary['documents']:,}",
    ]
    if summary["skipped_files"]:
        lines[-1] += f", skipped files: {summary['skipped_files']:,}"
    return "\n".join([*lines, f"next: nanoscope train laptop --dataset={summary['dataset']}"])
