"""What a label and a unit stand for: the role that a column may have, if its numbers behave accordingly.

The words are data: `roles.toml` says how they are written.
"""

import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GROUPS: dict[str, list[str]] = WORDS["groups"]
CHINESE: dict[str, str] = WORDS["chinese"]
SECONDS: dict[str, float] = WORDS["units"]["seconds"]
_BYTES: dict[str, float] = WORDS["units"]["bytes"]
_MULTIPLES: dict[str, float] = WORDS["units"]["multiples"]
UNITLESS: list[str] = WORDS["unitless"]
COUNTERS = ("global_step", "step", "batch", "pair", "first")


def _phrases(patterns: Iterable[str]) -> Iterator[str]:
    """Phrases between spaces, for each word of the groups they name."""
    for pattern in patterns:
        before, brace, rest = pattern.partition("{")
        group, _, after = rest.partition("}")
        if brace:
            yield from _phrases(f"{before}{word}{after}" for word in GROUPS[group])
        else:
            yield f" {pattern} ".replace(" *", "")


class _Meaning:
    """What a number is if its label and unit fit."""

    def __init__(
        self, role: str = "", unit: Iterable[str] = (), factor: float = 1.0, most: int = 7, **words: list[str]
    ) -> None:
        self.role, self.units, self.factor, self.most = role, frozenset(unit), factor, most
        self.ends, self.has, self.lacks, self.only = (
            tuple(_phrases(words.get(key, ()))) for key in ("ends", "has", "lacks", "only")
        )

    def fits(self, label: str, words: list[str], kind: str) -> bool:
        return (
            (not self.units or kind in self.units)
            and len(words) <= self.most
            and (not self.ends or label.endswith(self.ends))
            and (not self.has or any(phrase in label for phrase in self.has))
            and not any(phrase in label for phrase in self.lacks)
            and (not self.only or all(f" {word} " in self.only for word in words))
        )


@lru_cache(maxsize=1)
def _meanings() -> list[_Meaning]:
    return [_Meaning(**row) for row in WORDS["meanings"]]


def _unit(text: str) -> tuple[str, float]:
    """What kind of unit this is, and the factor to the base unit."""
    base, slash, each = text.partition("/")
    base = base.strip()
    if "tok" in text or "tps" in text:
        return "tok/s", _MULTIPLES.get(text[0], 1.0)
    if base in SECONDS:
        return "s/step" if slash else "s", SECONDS[base] / (int(each) if each.isdigit() else 1)  # '58.7s/10 iters'
    if slash:
        return ("steps/s" if base.startswith(("it", "step", "batch")) else "samples/s"), 1.0
    if text in _MULTIPLES:
        return "multiple", _MULTIPLES[text]
    return ("bytes", _BYTES[text]) if text in _BYTES else ("other" if text else "", 1.0)


@lru_cache(maxsize=4096)
def role_of(label: str, unit: str) -> tuple[str, float]:
    """What a labelled number may be ('' if nothing), and the factor to its base unit."""
    kind, factor = _unit(unit)
    words = label.split()
    if "loss" in words:
        at = len(words) - words[::-1].index("loss")
        if set(words[at:]) <= set(GROUPS["behind loss"]):  # 'loss/train' is the train loss
            words = words[at:] + words[:at]
    label = f" ^ {' '.join(words)} "
    meaning = next((each for each in _meanings() if each.fits(label, words, kind)), None)
    if meaning is None or not meaning.role:
        return "", 1.0
    if kind == "multiple":  # of bytes or of a count, but a loss of '2.1 M' is none
        factor = _BYTES.get(unit, 1.0) if meaning.role == "memory_gb" else 1.0 if "loss" in meaning.role else factor
    return meaning.role, meaning.factor * factor


def is_validation(label: str) -> bool:
    """Whether a label speaks of validation."""
    return not set(GROUPS["val"]).isdisjoint(label.split())
