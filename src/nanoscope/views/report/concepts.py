"""What the numbers of a page mean: the concepts that its labels open, and no others."""

from collections.abc import Iterable
from functools import lru_cache

from nanoscope.views.labels import table
from nanoscope.words.concepts import CONCEPTS, NOTHING_KNOWN
from nanoscope.words.language import Language


def concepts_of_names(charts: Iterable[str], phases: Iterable[str], settings: Iterable[str]) -> dict[str, str]:
    """The charts, phases and settings of a run that open a concept: 'chart lr' opens learning_rate."""
    names = {"chart": set(charts), "phase": set(phases), "setting": set(settings)}
    return {
        f"{kind} {name}": concept
        for kind, concepts in table("concepts").items()
        for name, concept in concepts.items()
        if name in names[kind]
    }


@lru_cache(maxsize=256)
def lesson(key: str, code: str) -> dict[str, str]:
    """What a concept is, whatever the run."""
    taught = vars(CONCEPTS[key].teach(NOTHING_KNOWN, Language(code)))
    return {part: taught[part] for part in ("title", "summary", "example", "normal", "mistake")}
