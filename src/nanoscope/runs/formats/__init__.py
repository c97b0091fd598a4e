"""One file a log format; this list is the only place where they are named.

A format says of a line what it is ('step', 'eval', 'checkpoint', 'end', 'total' …, or None if it is not one of its own)
and hands the numbers to the builder. Order matters only among formats that would read a log equally well.
"""

from importlib import import_module

from nanoscope.runs.formats.base import Format

_MODULES = (
    "nanoscope",
    "lecture",
    "nanogpt",
    "nanochat",
    "llmc",
    "modded",
    "makemore",
    "mingpt",
    "litgpt",
    "torchtitan",
    "huggingface",
    "buildnanogpt",
    "generic",
)


def all_formats() -> list[type[Format]]:
    """The format classes, in order."""
    return [import_module(f"nanoscope.runs.formats.{name}").FORMAT for name in _MODULES]
