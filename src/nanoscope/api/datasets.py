"""`nanoscope.prepare`: text in, a dataset out."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path


def prepare(
    *sources: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    tokenizer: str = "auto",
    vocab_size: int | None = None,
    field: str | None = None,
    ext: Sequence[str] = (),
    val_fraction: float = 0.1,
    encoding: str = "utf-8",
    overwrite: bool = False,
) -> Path:
    """Convert text to a dataset of tokens, and return its folder.

    >>> data = nanoscope.prepare("book.txt", tokenizer="char")
    >>> run = nanoscope.train("laptop", dataset=data)

    `sources` are corpora (shakespeare, python), files, folders or URLs; the options are those of `nanoscope prepare`.
    """
    from nanoscope.data.prepare import prepare as prepare_dataset
    from nanoscope.errors import UsageError
    from nanoscope.training.console import StageDisplay

    if not sources:
        raise UsageError("Nothing to prepare: name a corpus, file or folder, as in nanoscope.prepare('shakespeare')")
    with StageDisplay() as display:
        return prepare_dataset(
            [os.fspath(source) for source in sources],
            None if out is None else Path(out),
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            field=field,
            ext=ext,
            val_fraction=val_fraction,
            encoding=encoding,
            overwrite=overwrite,
            on_progress=display.show,
            on_warning=lambda text: warnings.warn(str(text), stacklevel=2),
        )
