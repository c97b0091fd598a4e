"""JSON files: the records of lines and arrays are found, and raw JSON is never taken for text."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanoscope.data import readers
from nanoscope.data.readers import TextFile
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
    return readers.RECORDS[".json"](TextFile("a.json", ".json", 0, io.BytesIO), blocks, "text")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=2, ensure_ascii=False),
        "\n".join(map(json.dumps, RECORDS)),
        "\n".join(json.dumps(record, indent=2) for record in RECORDS),
        json.dumps(TEXTS),
    ],
    ids=["array", "pretty array", "lines", "pretty objects", "strings"],
)
@pytest.mark.parametrize("block_size", [1, 7, 1 << 19])
def test_records_are_found_in_lines_and_arrays(
    content: str, block_size: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BLOCK_SIZE", block_size)
    path.write_text(content, "utf-8")
    assert "".join(texts(path)) == "".join(TEXTS)  # blocks also cut the documents


def test_one_object_with_the_field_is_one_document(path: Path) -> None:
    path.write_text('{"title": "x", "text": "all of it", "tags": ["a", "b"]}', "utf-8")
    assert texts(path) == ["all of it"]


def test_a_field_can_be_chosen(path: Path) -> None:
    path.write_text('[{"text": "no", "body": "yes"}]', "utf-8")
    assert texts(path, "body") == ["yes"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '[{"title": "a", "body": "longer"}]',
            r"It has: title, body\.\n.*prepare .*a\.json --field=body$",
        ),
        ("[1, 2]", "record 1: the field 'text' is int"),
        ('{"a": 1}', "no field 'text'. It has: a"),
        ('{"rows": [{"text": "a"}], "n": 1}', "no field 'text'. It has: rows, n"),
        ('[{"text": "a"},\n{"text" "b"}]', "is not a valid JSON file: line 2: Expecting ':' delimiter"),
        ('[{"text": "a"}', "is not a valid JSON file: line 1: Expecting value"),
        ('[{"text": "a"},\n', "is not a valid JSON file: line 2: Expecting value"),
        ('{"text": "a"}]', "is not a valid JSON file: line 1: Expecting value"),
        ('{"a": "b"', r"is not a valid JSON file: line 1: Expecting ','"),
        ("hello", "is not a valid JSON file: line 1: Expecting value"),
        ("[" * 100_000, "is not a valid JSON file"),
        ('[{"text": ' + "9" * 5000 + "}]", "is not a valid JSON file"),
    ],
)
def test_what_holds_no_records_is_refused_with_the_place(content: str, message: str, path: Path) -> None:
    path.write_text(content, "utf-8")
    with pytest.raises(JobError, match=message):
        texts(path)


def test_the_command_in_the_message_quotes_the_name_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    from nanoscope.cli import run

    monkeypatch.chdir(tmp_path)
    rows = [{"title": "t", "my body": f"a sentence with the number {n} in it"} for n in range(200)]
    (tmp_path / "my posts.json").write_text(json.dumps(rows), "utf-8")
    assert run(["prepare", "my posts.json"]) == 1
    command = capsys.readouterr().err.partition("for example: ")[2]
    program, *words = shlex.split(command)
    assert program == "nanoscope"
    assert run(words) == 0
    assert "200" in capsys.readouterr().out


def test_a_lone_surrogate_becomes_a_question_mark(path: Path) -> None:
    path.write_text(r'["a\ud83d\ude00b\ud83d"]', "utf-8")
    assert texts(path) == ["a😀b?"]


def endless_array() -> Iterator[str]:
    yield "["
    for number in range(200_000):
        yield json.dumps({"text": f"record {number} " * 10}) + ",\n"
    yield '{"text": "last"}]'


def test_a_large_array_is_read_in_bounded_memory() -> None:
    tracemalloc.start()
    try:
        count = sum(1 for _ in records_of(endless_array()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 200_001
    assert peak < 1 << 20


def test_a_value_beyond_the_limit_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LINE_LIMIT_CHARACTERS", 5000)

    def endless_string() -> Iterator[str]:
        yield '["'
        while True:
            yield "a" * 1000

    with pytest.raises(ValueError, match="over 5,000 characters"):
        list(records_of(endless_string()))
