"""Finds the format of a log by its first records."""

import re
from collections import deque
from collections.abc import Iterator

from nanoscope.runs.formats import all_formats
from nanoscope.runs.formats.base import Format

ENOUGH_RECORDS = 60  # of one format, to decide on it
SAMPLE_LINES = 60_000  # searched for that many; beyond, the first record decides
# Of a line, by its kind; of any other kind 0.1. A bar without a loss decides only where there is nothing else.
_SCORES = {"step": 1.0, "eval": 0.9, "bar": 0.0, "lone bar": 1e-6}

RECORD_BEGINS = re.compile(r"(?:iter(?:ation)?|step|epoch)[:=]?\s{0,8}\d|^\s{0,3}\{['\"]", re.IGNORECASE)
_RECORD_WORDS = r"loss|train|val|bpb|checkpoint|^[\s|]{0,8}[\d.]{1,12}\s{0,24}(?:[|,\t]|\s[\d.])|<td>"


def find_format(lines: Iterator[tuple[int, str]], sample: deque[tuple[int, str]]) -> Format:
    """The format that finds most in the first records; the lines read for that are left in `sample`.

    A fallback is chosen only where it finds far more than any format that knows its trainer, or steps where that one
    finds none.
    """
    formats = all_formats()
    words = [re.escape(word) for format in formats for word in format.record_words]
    may_be_record = re.compile("|".join([_RECORD_WORDS, *words]), re.IGNORECASE)
    candidates = [format() for format in formats]
    scores = dict.fromkeys(formats, 0.0)
    with_steps: set[type[Format]] = set()
    begun = ""  # the beginning of a record that a terminal broke: the next line may complete it
    for count, numbered in enumerate(lines):
        sample.append(numbered)
        line = numbered[1]
        if not (begun or may_be_record.search(line)):
            continue
        understood = False
        for candidate in candidates:
            if candidate.signs and not any(sign in begun + line for sign in candidate.signs):
                continue
            kind = candidate.read(line) or (candidate.read(begun + line) if begun else None)
            if kind:
                scores[type(candidate)] += _SCORES.get(kind, 0.1)
                with_steps |= {type(candidate)} if kind == "step" else set()
                understood = understood or not candidate.fallback
        begun = line if not (begun or understood) and RECORD_BEGINS.search(line) else ""
        if max(scores.values()) >= (ENOUGH_RECORDS if count < SAMPLE_LINES else 1):
            break
    best = max((format for format in formats if not format.fallback), key=scores.__getitem__)
    fallback = max((format for format in formats if format.fallback), key=scores.__getitem__)
    needed = 1 if fallback in with_steps and best not in with_steps else 3
    return fallback() if scores[fallback] > needed * scores[best] else best()
