"""The records of a JSON file, one after another in bounded memory, whatever they are wrapped in."""

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from nanoscope.messages import Text

DECODER = json.JSONDecoder()
WHITE_SPACE = re.compile(r"[ \t\n\r]*")
LONGEST_TOKEN = 16  # characters of an escape or a literal that the end of a block may have cut


class NotJsonError(ValueError):
    """The text is not JSON, or not in a form that holds records. The message says where."""


class SeveralArraysError(Exception):
    """An object has several arrays that may be the records. The message has their names."""


class JsonReader:
    """Takes the values of a JSON text that arrives in blocks."""

    def __init__(self, blocks: Iterator[str], limit_characters: int) -> None:
        self._blocks, self._limit = blocks, limit_characters
        self._text, self._at, self._lines_before = "", 0, 0

    def peek(self) -> str:
        """Return the next character that is not white space, or "" at the end."""
        while True:
            match = WHITE_SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self._error(f"Expecting {expected!r}", self._at)
        self._at += 1

    def value(self) -> Any:
        """Return the next value, which must fit into memory."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - LONGEST_TOKEN
                if cut and self._read_more():
                    continue
                raise self._error(error.msg, error.pos) from None
            except (ValueError, RecursionError) as error:  # a number with thousands of digits, deep nesting
                raise self._error(str(error), self._at) from None
            if end == len(self._text) and self._read_more():
                continue  # a number may go on
            self._at = end
            return value

    def elements(self) -> Iterator[Any]:
        """Take an array, element by element."""
        self.take("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def names(self) -> Iterator[str]:
        """Take an object, name by name. The caller takes the colon and the value of each."""
        self.take("{")
        while self.peek() != "}":
            if self.peek() != '"':
                raise self._error("Expecting a name in quotes", self._at)
            yield self.value()
            if self.peek() != "}":
                self.take(",")
        self.take("}")

    def _read_more(self) -> bool:
        """Read as much again as is waiting, so that parsing a long value takes linear time."""
        self._lines_before += self._text.count("\n", 0, self._at)
        parts = [self._text[self._at :]]
        wanted = len(parts[0]) or 1
        if wanted > self._limit:
            raise NotJsonError(Text("a value has over {n:,} characters", n=self._limit))
        while wanted > 0 and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            wanted -= len(block)
        self._text, self._at, length = "".join(parts), 0, len(parts[0])
        return len(self._text) > length

    def _error(self, what: str, position: int) -> NotJsonError:
        line = self._lines_before + self._text.count("\n", 0, position) + 1
        return NotJsonError(Text("line {line:,}: {what}", line=line, what=what))


def find_records(json_text: JsonReader, field: str) -> str | None:
    """Return the name of the array that holds the records, or None if the file itself is the list of records.

    The list is an array, or one value after another (JSON Lines).
    """
    if json_text.peek() != "{":
        return None
    firsts: dict[str, Any] = {}  # of each array, its first element
    is_record = False
    for name in json_text.names():
        json_text.take(":")
        if json_text.peek() == "[":
            elements = json_text.elements()
            firsts[name] = next(elements, None)
            deque(elements, maxlen=0)  # passes over the rest
        else:
            is_record |= isinstance(json_text.value(), str) and name == field
    if is_record or json_text.peek():
        return None
    for kind in (dict, str):
        found = [name for name, first in firsts.items() if isinstance(first, kind)]
        if len(found) > 1:
            raise SeveralArraysError(", ".join(found))
        if found:
            return found[0]
    return None


def records(json_text: JsonReader, array: str | None) -> Iterator[Any]:
    """Yield the records, from the array that `find_records` has found."""
    if array is not None:
        for name in json_text.names():
            json_text.take(":")
            if json_text.peek() != "[":
                json_text.value()
            elif name == array:
                yield from json_text.elements()
            else:
                deque(json_text.elements(), maxlen=0)
    elif json_text.peek() == "[":
        yield from json_text.elements()
    while json_text.peek():
        yield json_text.value()
