"""`nanoscope.prepare`: text in, a dataset out."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanoscope.messages import Shown


def _warn(text: Shown) -> None:
    warnings.warn(str(text), stacklevel=4)


def prepare(
    *sources: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    warn: Callable[[Shown], None] = _warn,
    **options: Any,
) -> Path:
    """Convert text to a dataset of tokens, and return its folder.

    >>> data = nanoscope.prepare("book.txt", tokenizer="char")
    >>> run = nanoscope.train("laptop", dataset=data)

    `sources` are corpora (shakespeare, python), files, folders or URLs; the options are those of `nanoscope prepare`.
    """
    from nanoscope.data.prepare import prepare as prepare_dataset
    from nanoscope.errors import UsageError
    from nanoscope.training.console import stages

    if not sources:
        raise UsageError(
            "Nothing to prepare: name a corpus, file or folder. For example: nanoscope prepare shakespeare"
        )
    given = [os.fspath(source) for source in sources]
    folder = None if out is None else Path(out)
    with stages() as show:
        return prepare_dataset(given, folder, on_progress=show, on_warning=warn, **options)
