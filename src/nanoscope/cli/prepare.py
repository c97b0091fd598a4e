"""`nanoscope prepare`: text in, a dataset folder out."""

import time
from pathlib import Path

from nanoscope.cli.logs import PathOrStdin, print_json
from nanoscope.messages import Shown


def prepare(
    *sources: PathOrStdin,
    out: Path | None = None,
    tokenizer: str = "auto",
    vocab_size: int | None = None,
    field: str | None = None,
    ext: list[str] | None = None,
    val_fraction: float = 0.1,
    encoding: str = "utf-8",
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Convert text to a dataset of tokens for training.

    For example:
      nanoscope prepare shakespeare
      nanoscope prepare book.txt --out data/book --tokenizer bpe --vocab_size 2048
      nanoscope prepare posts.jsonl more/*.parquet --field body
      nanoscope prepare project/ --ext py,md
      nanoscope prepare https://example.org/novel.txt --out data/novel
      zcat articles.txt.gz | nanoscope prepare - --out data/articles

    Files may be text of any kind, JSON Lines or Parquet. UTF-16 and UTF-32 are
    recognised by their byte order mark. Standard input may be text or JSON
    Lines. Unpack archives first.

    Parameters
    ----------
    sources
        Corpora (shakespeare, or python: its standard library), files, folders, URLs, or - for standard input.
    out
        Output folder. Default: data/NAME-TOKENIZER.
    tokenizer
        char, byte, gpt2 (GPT-2's vocabulary), bpe (trained on this text), or auto: char below 20 MB, else bpe.
    vocab_size
        Vocabulary size of bpe. Default: 4096.
    field
        The field of JSON Lines, or the column of parquet, that contains the text. Default: text.
    ext
        Extensions of the files to read in folders. Default: txt, md, jsonl, parquet.
    val_fraction
        Fraction of the text for validation: whole documents if there are at least 100, else the end of the text.
    encoding
        Text encoding of the files, for example cp1252.
    overwrite
        Replace a dataset that is already in the output folder.
    json
        Print the summary, with its warnings, as a JSON object.
    """
    from nanoscope.api.datasets import prepare as prepare_dataset
    from nanoscope.data.prepare import in_words, summary

    started = time.monotonic()
    warnings: list[Shown] = []
    folder = prepare_dataset(
        *sources,
        out=out,
        warn=warnings.append,
        tokenizer=tokenizer,
        vocab_size=vocab_size,
        field=field,
        val_fraction=val_fraction,
        encoding=encoding,
        ext=ext or (),
        overwrite=overwrite,
    )
    result = summary(folder, time.monotonic() - started, warnings)
    if json:
        print_json(result)
    else:
        print(in_words(result))
