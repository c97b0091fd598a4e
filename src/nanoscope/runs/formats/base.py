"""What every log format is: a reader of lines."""

from typing import ClassVar

from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.run import Traits


class Format:
    """A log format; subclasses set the name and traits and read lines into the builder."""

    name: ClassVar[str]
    traits: ClassVar[Traits] = Traits()

    def __init__(self) -> None:
        self.log = RunBuilder(self.name, self.traits)

    def read(self, line: str) -> str | None:
        """Take one clean line; what it is, or None if it is not of this format."""
        raise NotImplementedError

    def end(self) -> None:
        """No more lines will come."""
