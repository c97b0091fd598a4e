"""The parts that the tables of messages are made of: a message, when it is used, and how messages make a text.

A table lists what can be said about a finding. The fields of the finding fill the placeholders of a message by name.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Protocol


class Renderer(Protocol):
    """What a template needs of a language (language.py)."""

    def translate(self, message: str, many: str | None = None, n: int = 1) -> str: ...

    def fill(self, template: str, value_of: Callable[[str], object], isolated: bool = True) -> str: ...

    def write(self, value: object, spec: str = "") -> str: ...

    def isolate(self, text: str) -> str: ...

    def number(self, value: float | None, decimals: int = 0) -> str: ...

    def significant(self, value: float | None, digits: int = 3) -> str: ...


Condition = Callable[[Any], object]


class Words:
    """Anything that becomes a text about a finding; an empty text means there is nothing to say."""

    def write(self, finding: Any, language: Renderer) -> str:
        raise NotImplementedError


class Say(Words):
    """One message, used if its condition holds.

    `values` fill placeholders that are not fields of the finding: a constant, a function of the finding, or Words.
    """

    def __init__(self, message: str, when: Condition | None = None, /, **values: object) -> None:
        self.message, self._when, self._values = message, when, values

    def write(self, finding: Any, language: Renderer) -> str:
        if self._when is not None and not self._when(finding):
            return ""
        return language.fill(self.translation(finding, language), lambda name: self._value(name, finding, language))

    def translation(self, finding: Any, language: Renderer) -> str:
        """The message in a language, with its placeholders."""
        return language.translate(self.message)

    def _value(self, name: str, finding: Any, language: Renderer) -> object:
        if name not in self._values:
            return getattr(finding, name)
        value = self._values[name]
        if isinstance(value, Words):
            return value.write(finding, language)
        return value(finding) if callable(value) else value


class Plural(Say):
    """A message in the form that goes with the field `count`, which also fills {n}."""

    def __init__(self, one: str, many: str, count: str, when: Condition | None = None, /, **values: object) -> None:
        super().__init__(one, when, n=attrgetter(count), **values)
        self._many, self._count = many, attrgetter(count)

    def translation(self, finding: Any, language: Renderer) -> str:
        return language.translate(self.message, self._many, self._count(finding))


class Verbatim(Say):
    """A value made of several fields, the same in every language: 'ln(65) = 4.17'."""

    def write(self, finding: Any, language: Renderer) -> str:
        return language.fill(self.message, lambda name: self._value(name, finding, language), isolated=False)


class First(Words):
    """The first of several choices that has something to say."""

    def __init__(self, *choices: Words) -> None:
        self._choices = choices

    def write(self, finding: Any, language: Renderer) -> str:
        return next((text for choice in self._choices if (text := choice.write(finding, language))), "")


class By(Words):
    """The choice named by the value of a field; nothing for a value without one."""

    def __init__(self, field: str, /, **choices: Words) -> None:
        self.field, self.choices = field, choices

    def write(self, finding: Any, language: Renderer) -> str:
        choice = self.choices.get(getattr(finding, self.field))
        return choice.write(finding, language) if choice else ""


class Joined(Words):
    """All parts that have something to say, with a separator between them."""

    def __init__(self, separator: str, *parts: Words) -> None:
        self._separator, self._parts = separator, parts

    def write(self, finding: Any, language: Renderer) -> str:
        texts = (part.write(finding, language) for part in self._parts)
        return self._separator.join(text for text in texts if text)


class Sentences(Joined):
    """Sentences with spaces between them."""

    def __init__(self, *parts: Words) -> None:
        super().__init__(" ", *parts)


class Clauses(Joined):
    """One sentence of several pieces; without the first there is none."""

    def __init__(self, *parts: Words) -> None:
        super().__init__("", *parts)

    def write(self, finding: Any, language: Renderer) -> str:
        return super().write(finding, language) if self._parts[0].write(finding, language) else ""


class Bracketed(Words):
    """' (a, b, c)': the parts that have something to say."""

    COMMA = Say(", ")

    def __init__(self, *parts: Words) -> None:
        self._parts = parts

    def write(self, finding: Any, language: Renderer) -> str:
        texts = [text for part in self._parts if (text := part.write(finding, language))]
        return f" ({self.COMMA.write(None, language).join(texts)})" if texts else ""


class Each(Words):
    """A text for each item of a field, joined by a separator."""

    def __init__(self, field: str, choices: Mapping[Any, Words] | Words, separator: str) -> None:
        self._field, self._choices, self._separator = field, choices, separator

    def write(self, finding: Any, language: Renderer) -> str:
        items, choices = getattr(finding, self._field), self._choices
        texts = (
            choices.write(i, language) if isinstance(choices, Words) else choices[i].write(finding, language)
            for i in items
        )
        return self._separator.join(texts)


def known(*fields: str) -> Condition:
    """Whether none of these fields is None."""
    return lambda finding: all(getattr(finding, field) is not None for field in fields)


def has(*fields: str) -> Condition:
    """Whether all these fields are neither None, nor false, nor zero."""
    return lambda finding: all(getattr(finding, field) for field in fields)
