"""The messages of the source code, for pybabel.

What makes a message is read as text. Help is shown once, and what was looked up in the catalogue is taken down.
"""

import ast
import contextlib
import io
from collections.abc import Iterator
from typing import Any

from nanoscope import cli, messages
from nanoscope.config_sources import presets
from nanoscope.messages import Writer

# What is given a message as a literal: a template, or the two forms of one.
MAKERS = ("Message", "say", "JobError", "UsageError", "NewerVersionError")


class _Recorder(Writer):
    """Takes down what is looked up."""

    def __init__(self) -> None:
        self.pieces: dict[str, None] = {}

    def translate(self, message: str, other: str | None = None, n: int = 1, context: str = "") -> str:
        if other is None:
            self.pieces[message] = None
        return super().translate(message, other, n, context)


def pieces() -> list[str]:
    """All pieces of help, and of the comments of presets."""
    recorder = _Recorder()
    shown = [[], ["--help"], ["train", "--help"], *([command, cli.HELP_ALL] for command in cli.COMMANDS)]
    shown += [["presets"], *(["presets", preset] for preset in presets())]
    messages.current = recorder
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for words in shown:
                cli.call(words)
    finally:
        messages.current = messages.ENGLISH
    return list(recorder.pieces)


def messages_in(source: str, makers: tuple[str, ...] = MAKERS) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The line, the gettext function and the arguments of every message of a file."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        texts = tuple(arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        if name == "label" and len(texts) == 2:
            yield node.lineno, "pgettext", texts
        elif name in makers and texts:
            yield node.lineno, "ngettext" if len(texts) > 1 else "gettext", texts


def extract(
    fileobj: Any, keywords: Any, comment_tags: Any, options: Any
) -> Iterator[tuple[int, str, object, list[str]]]:
    """Extract the messages of a file, for pybabel; the present one stands for all help."""
    source = fileobj.read().decode("utf-8")
    for line, function, texts in messages_in(source):
        yield line, function, texts if len(texts) > 1 else texts[0], []
    if fileobj.name.endswith("extraction.py"):
        for piece in pieces():
            yield 1, "gettext", piece, []
