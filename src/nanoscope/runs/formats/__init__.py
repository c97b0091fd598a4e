"""Log formats, one in each file of this folder. They are discovered, so adding one needs no other change."""

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from nanoscope.runs.formats.base import Format


@lru_cache(maxsize=1)
def all_formats() -> list[type[Format]]:
    """The format classes, those with the highest priority first."""
    names = {file.stem for folder in __path__ for file in Path(folder).glob("[a-z]*.py")} - {"base"}
    modules = [import_module(f"{__name__}.{name}") for name in sorted(names)]
    formats = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Format) and value.__module__ == module.__name__
    ]
    return sorted(formats, key=lambda format: -format.priority)
