"""nanoscope's own runs. What reads them is loaded only when a line looks like one of theirs: it takes a while."""

from functools import cached_property
from typing import TYPE_CHECKING

from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import OWN_FORMAT, OWN_TRAITS

if TYPE_CHECKING:
    from nanoscope.runs.own_lines import OwnLines


class Nanoscope(Format):
    name = OWN_FORMAT
    traits = OWN_TRAITS
    priority = 1  # its console lines are nanoGPT's, with more behind them
    record_words = ("event",)
    signs = ('"event"', ", tok/s ", ", eval ", "step-")

    @cached_property
    def _lines(self) -> "OwnLines":
        from nanoscope.runs.own_lines import OwnLines

        return OwnLines(self.builder)

    def read(self, line: str) -> str | None:
        return self._lines.read(line)

    def end(self) -> None:
        self._lines.end()
