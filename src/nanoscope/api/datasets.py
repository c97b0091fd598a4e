"""`nanoscope.prepare`: text in, a dataset out."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanoscope.api.logs import Source
from nanoscope.api.logs import warn as python_warning
from nanoscope.messages import Shown


def prepare(
    *sources: Source,
    out: Source | None = None,
    warn: Callable[[Shown], None] = python_warning,
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
