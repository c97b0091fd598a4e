"""What is taught about one number."""

from dataclasses import KW_ONLY, dataclass

from nanoscope.analysis.known import KnownNumbers
from nanoscope.words.language import Language
from nanoscope.words.templates import First, Say, Words


@dataclass(frozen=True, eq=False, repr=False)
class Taught:
    """A concept in one language, with the numbers of one run or without."""

    key: str
    title: str
    summary: str
    here: str  # what it is in this run; empty if the run does not have the number
    example: str  # instead
    normal: str  # and what to try
    mistake: str


@dataclass(frozen=True, eq=False, repr=False)
class Concept:
    """A term of training. The fields of `KnownNumbers` fill what is said about a run."""

    key: str
    title: Say
    summary: Say
    _: KW_ONLY
    normal: Say
    mistake: Say
    aliases: tuple[str, ...]
    related: tuple[str, ...]
    here: Words = First()
    example: Words = First()
    shown: tuple[str, ...] = ()  # it is taught with a run that has one of these numbers

    def is_shown(self, numbers: KnownNumbers) -> bool:
        return any(getattr(numbers, name) not in (None, False, 0) for name in self.shown)

    def teach(self, numbers: KnownNumbers, language: Language) -> Taught:
        title, summary, normal, mistake, here = (
            words.write(numbers, language) for words in (self.title, self.summary, self.normal, self.mistake, self.here)
        )
        example = "" if here else self.example.write(numbers, language)
        return Taught(self.key, title, summary, here, example, normal, mistake)
