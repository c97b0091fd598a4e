"""The messages in help, for pybabel: all help is shown once, and what was looked up in the catalogue is taken down."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, ClassVar

from nanoscope import cli, messages
from nanoscope.config_sources import presets
from nanoscope.words.language import Language


class _Recorder(Language):
    """Takes down what is looked up."""

    pieces: ClassVar[dict[str, None]] = {}

    def translate(self, message: str, many: str | None = None, n: int = 1) -> str:
        self.pieces[message] = None
        return super().translate(message, many, n)


def pieces() -> list[str]:
    """All pieces of help, and of the comments of presets."""
    recorder = _Recorder("en")
    messages.use(recorder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for words in ([], ["--help"], *([name, cli.HELP_ALL] for name in cli.COMMANDS), ["presets"]):
                cli.call(words)
            for preset in presets():
                cli.call(["presets", preset])
    finally:
        messages.use(None)
    return list(recorder.pieces)


def extract(fileobj: Any, keywords: Any, comment_tags: Any, options: Any) -> Iterator[tuple[int, None, str, list[str]]]:
    """Extract the pieces of help, for pybabel, which calls this for the present file."""
    for piece in pieces():
        yield 1, None, piece, []
