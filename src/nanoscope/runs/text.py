"""Turns any bytes into clean lines, as a stream: memory stays bounded whatever the input is."""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
LINE_LIMIT = 8_192  # characters; the rest of a longer line is dropped: no record is that long

# Escape sequences that terminals obey, and keys that a terminal echoed as text (^[[A).
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;:?<=>!]{0,40}[ -/]{0,4}[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,400}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[@-_]|\^\[\[[A-H0-9;~]?"
)
_UNSEEN = r"\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff"  # among them marks that change the writing direction
_CONTROLS = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]")
_DIRT = re.compile(rf"[\x00-\x08\x0b-\x1f`>^{_UNSEEN}]")  # what `clean` may have to remove
_PLAIN = bytes({*b"\t\n", *range(0x20, 0x7F)} - {*b"`>^"})  # the ASCII that it never removes
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#x?[0-9a-fA-F]{1,6});")
_BACKSPACES = re.compile(r"\x08{2,}")
_QUOTES = re.compile(r"^(?:\s{0,3}>){1,4} ?")


def _is_clean(text: str) -> bool:
    if "&" in text and _ENTITY.search(text):
        return False
    if text.isascii():
        return not text.encode().translate(None, _PLAIN)  # four times as fast as the search
    return _DIRT.search(text) is None


def clean_lines(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line, as a person sees it.

    The carriage returns of a progress bar split a line, but do not count.
    """
    chunk = stream.read(CHUNK_BYTES)
    # UTF-16 without a mark comes out as ASCII with NULs between, which are dropped below.
    encoding = "utf-16" if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    number, tail = 1, ""
    while chunk:
        text = tail + decoder.decode(chunk)
        chunk = stream.read(CHUNK_BYTES)
        if not chunk:
            text += decoder.decode(b"", final=True)
        is_clean = _is_clean(text)
        if "^M" in text:  # a carriage return that somebody's editor spelled out
            text = text.replace("^M", "\r")
        if not is_clean:
            text = text.replace("\0", "")  # UTF-16 without a mark; a log that was emptied while it was written
        if not is_clean and "\b\b" in text:  # Keras takes its bar back letter by letter
            text = _BACKSPACES.sub("\r", text)
        *lines, tail = text.split("\n")
        if is_clean and max(map(len, lines), default=0) <= LINE_LIMIT:
            yield from enumerate(lines, number)  # nearly every log, and much faster
        else:
            for at, line in enumerate(lines, number):
                for part in [line] if is_clean else filter(None, line.split("\r")):
                    yield at, clean(part[:LINE_LIMIT])
        number += len(lines)
        if "\r" in tail:  # a file with carriage returns only, or an endless progress bar: pass on what is complete
            *parts, tail = tail.split("\r")
            yield from ((number, clean(part[:LINE_LIMIT])) for part in parts if part)
        tail = tail[:LINE_LIMIT]
    if tail:
        yield number, clean(tail)


def clean(line: str) -> str:
    """The line as a person sees it: no colour codes, control characters, quote marks or code fences."""
    if "\x1b" in line or "^[" in line or "\x9b" in line or "\x9d" in line:
        line = _ESCAPES.sub("", line)
    if "&" in line and _ENTITY.search(line):
        from html import unescape  # loaded only where it is needed: it has a large table

        line = unescape(line).replace("\xa0", " ")
    if not line.isprintable():
        line = _CONTROLS.sub("", line)
    if line[:4].lstrip().startswith(">"):
        line = _QUOTES.sub("", line, count=1)
    if "```" in line:
        line = line.replace("```", "")
    return line


# What loggers and launchers write before a line: a rank, a time, a logger's name and level.
_LAUNCHER = r"(?:\[(?:rank)?\d{1,5}\]:\s?|\d{1,4}: (?!(?:train(?:ing)? )?loss))"
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d/\d\d/\d{2,4})"
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_LEVEL = r"(?:INFO|WARN(?:ING)?|DEBUG|ERROR|CRITICAL)"
# One of the decorations that a line may begin with; several may follow each other.
_DECORATION = (
    rf"\s{{0,8}}(?:\[(?!CU|NCCL|MPI)[^\]]{{0,60}}(?:{_DATE}|{_TIME}|{_LEVEL}|rank|RANK|\.py)[^\]]{{0,60}}\]:?"
    r"|\[(?!(?i:train(?:ing)?|val\w{0,7}|eval\w{0,7}|test)\])[A-Za-z_][\w.-]{0,40}\]:?"
    r"|\(\w{1,40} pid=\d{1,9}(?:, ip=[\d.]{7,15})?\)"
    rf"|{_DATE}[ T,]{{1,2}}{_TIME}(?:Z|[+-]\d\d:?\d\d)?(?: [AP]M)?|{_TIME}(?=[\s\]|])"
    rf"|(?:[A-Z][a-z]{{2}} ){{1,2}}\s?\d{{1,2}},? (?:\d{{4}} )?{_TIME}(?: \d{{4}})?"
    rf"|(?:- )?[\w.]{{1,120}} - {_LEVEL} - |- {_LEVEL} - [\w.]{{1,80}} - |(?:\| )?{_LEVEL}\b(?: \||:)?"
    r"|[IWE]\d{4} [\d:.]{8,16}\s{1,8}\d{1,9} [^\]\s]{1,80}\]|rank\s?\d{1,5}:|[-|>:]{1,3}(?=\s))\s?"
)
_PREFIX = re.compile(rf"[ \t]*+(?:(?=[\[(0-9A-Z]){_LAUNCHER}?(?:{_DECORATION}){{0,8}}+)?")


def without_prefix(line: str) -> str:
    """The line without its indentation and what a logger or launcher wrote before it."""
    return line[prefix_end(line) :]


def prefix_end(line: str) -> int:
    """Where the message of a line begins, behind what a logger or launcher wrote before it."""
    prefix = _PREFIX.match(line)
    return prefix.end() if prefix else 0
