"""JSON Lines: the records are found, and raw JSON is never taken for text."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoscope.data import readers
from nanoscope.data.sources import Documents
from nanoscope.errors import JobError

RECORDS = [{"text": "नदी के किनारे"}, {"text": 'two\n"quoted" \\ words', "id": 2}, {"text": None}, {"text": "three"}]
TEXTS = ["नदी के किनारे", 'two\n"quoted" \\ words', "three"]


def texts(path: Path, field: str | None = None) -> list[str]:
    documents, text = [], ""
    for piece in Documents([path], field).pieces():
        text += piece.text
        if piece.ends_document:
            documents, text = [*documents, text], ""
    return documents


def records_of(blocks: Iterator[str]) -> Iterator[object]:
    return readers._json_lines(blocks)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


@pytest.mark.parametrize("block_size", [1, 7, 1 << 19])
@pytest.mark.parametrize("records", [RECORDS, TEXTS], ids=["objects", "strings"])
def test_records_are_found_in_lines(
    records: list[object], block_size: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BLOCK_SIZE", block_size)
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    assert "".join(texts(path)) == "".join(TEXTS)  # blocks also cut the documents


def test_one_object_with_the_field_is_one_document(path: Path) -> None:
    path.write_text('{"title": "x", "text": "all of it", "tags": ["a", "b"]}', "utf-8")
    assert texts(path) == ["all of it"]


def test_a_field_can_be_chosen(path: Path) -> None:
    path.write_text('{"text": "no", "body": "yes"}', "utf-8")
    assert texts(path, "body") == ["yes"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"title": "a", "body": "longer"}', r"It has: title, body\.\n.*--field=NAME$"),
        ("1\n2", "record 1: the field 'text' is int"),
        ('[{"text": "a"}]', "write an object in each line instead of a list: jq"),
        ('[\n {"text": "a"}\n]', "write an object in each line instead of a list: jq"),
        ('{"a": 1}', "no field 'text'. It has: a"),
        ('{"rows": [{"text": "a"}], "n": 1}', "no field 'text'. It has: rows, n"),
        ('{"text": "a"}\n{"text" "b"}', "is not a valid JSON file: line 2: Expecting ':' delimiter"),
        ('{"text": "a"}]', "is not a valid JSON file: line 1: Extra data"),
        ('{"a": "b"', r"is not a valid JSON file: line 1: Expecting ','"),
        ("hello", "is not a valid JSON file: line 1: Expecting value"),
        ("[" * 100_000, "is not a valid JSON file"),
        ('{"text": ' + "9" * 5000 + "}", "is not a valid JSON file"),
    ],
)
def test_what_holds_no_records_is_refused_with_the_place(content: str, message: str, path: Path) -> None:
    path.write_text(content, "utf-8")
    with pytest.raises(JobError, match=message):
        texts(path)


def test_a_lone_surrogate_becomes_a_question_mark(path: Path) -> None:
    path.write_text(r'"a\ud83d\ude00b\ud83d"', "utf-8")
    assert texts(path) == ["a😀b?"]


def test_many_lines_are_read_in_bounded_memory() -> None:
    lines = (json.dumps({"text": f"record {number} " * 10}) + "\n" for number in range(100_000))
    tracemalloc.start()
    try:
        count = sum(1 for _ in records_of(lines))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 1 << 20


def test_a_value_beyond_the_limit_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LINE_LIMIT_CHARACTERS", 5000)
    monkeypatch.setattr(readers, "BLOCK_SIZE", 1000)

    def endless_string() -> Iterator[str]:
        yield '"'
        while True:
            yield "a" * 1000

    with pytest.raises(ValueError, match="over 5,000 characters"):
        list(records_of(endless_string()))
