"""`nanoscope prepare`: text in, a dataset folder out."""

import json
import re
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.data.corpora import ALIASES
from nanoscope.data.dataset import SPLITS, open_dataset, read_meta
from nanoscope.data.prepare import choose_tokenizer
from nanoscope.data.prepare import prepare as prepare_dataset
from nanoscope.errors import UsageError
from nanoscope.views.progress import StageDisplay


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
    """Turn text into token shards that training reads.

    Examples:

      nanoscope prepare shakespeare

      nanoscope prepare book.txt --out data/book --tokenizer bpe --vocab_size 2048

      nanoscope prepare posts.jsonl more/*.csv --field body

      nanoscope prepare texts/

    Parameters
    ----------
    sources
        shakespeare, python (its standard library), or files and folders: txt, md, jsonl, csv, parquet, .gz
    out
        The folder to make; data/<name>-<tokenizer> unless given.
    tokenizer
        char, byte, gpt2 (its vocabulary), bpe (learnt from this text), auto: char below 20 MB, else bpe.
    vocab_size
        Size of a bpe vocabulary; 4096 unless given.
    field
        The jsonl field or the csv or parquet column that holds the text; "text" unless given.
    val_fraction
        The part kept for validation: whole documents if there are 100, else the end of the text.
    encoding
        How the files are encoded, for example cp1252.
    overwrite
        Replace a dataset that is already in the folder.
    as_json
        Print the summary as one JSON object.
    """
    if not sources:
        raise UsageError("What is to be prepared? For example: nanoscope prepare shakespeare, or a file or folder.")
    kind = choose_tokenizer(sources, tokenizer)
    out = out or Path("data") / f"{_default_name(sources[0])}-{kind}"
    started = time.monotonic()
    with StageDisplay() as display:
        prepare_dataset(
            sources,
            out,
            tokenizer=kind,
            vocab_size=vocab_size,
            field=field,
            val_fraction=val_fraction,
            encoding=encoding,
            overwrite=overwrite,
            progress=display.show,
        )
    summary = _summary(out, kind, time.monotonic() - started)
    print(json.dumps(summary, ensure_ascii=False) if as_json else _in_words(summary))


def _default_name(source: str) -> str:
    """The corpus, or the file's or folder's name without what a command line would have to quote."""
    name = ALIASES[source][0] if source in ALIASES else Path(source).resolve().name
    stem = name.removesuffix(".gz").rpartition(".")[0] or name
    return re.sub(r"[^\w.+-]+", "-", stem)


def _summary(out: Path, kind: str, seconds: float) -> dict[str, str | int | float]:
    meta, dataset = read_meta(out), open_dataset(out)
    tokens = {name: len(dataset.split(name)) for name in SPLITS}
    characters = sum(meta["splits"][name]["characters"] for name in SPLITS)
    return {
        "dataset": out.as_posix(),
        "tokenizer": kind,
        "vocab_size": dataset.vocab_size,
        "train_tokens": tokens["train"],
        "val_tokens": tokens["val"],
        "characters_per_token": round(characters / sum(tokens.values()), 4),
        "documents": meta["documents"],
        "skipped_files": meta["skipped_files"],
        "fingerprint": dataset.fingerprint,
        "seconds": round(seconds, 2),
    }


def _in_words(summary: dict[str, str | int | float]) -> str:
    lines = [
        f"prepared {summary['dataset']} in {summary['seconds']:.1f} s",
        f"  tokens      {summary['train_tokens']:,} train, {summary['val_tokens']:,} val",
        f"  vocabulary  {summary['vocab_size']:,} ({summary['tokenizer']}), "
        f"{summary['characters_per_token']:.2f} characters a token",
        f"  documents   {summary['documents']:,}",
    ]
    if summary["skipped_files"]:
        lines[-1] += f", files of other kinds skipped: {summary['skipped_files']:,}"
    return "\n".join([*lines, f"next: nanoscope train laptop --dataset={summary['dataset']}"])
