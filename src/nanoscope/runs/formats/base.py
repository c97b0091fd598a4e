"""What every log format is: a reader of lines."""

from abc import ABC, abstractmethod
from typing import ClassVar

from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.run import Traits


class Format(ABC):
    """A log format; subclasses set the name and traits and read lines into the builder."""

    name: ClassVar[str]
    traits: ClassVar[Traits] = Traits()

    def __init__(self) -> None:
        self.log = RunBuilder(self.name, self.traits)

    @abstractmethod
    def read(self, line: str) -> str | None:
        """Take one clean line; what it is, or None if it is not of this format."""

    def end(self) -> None:  # noqa: B027  most formats have nothing left to do
        """No more lines will come."""
