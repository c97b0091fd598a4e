import gzip
import json
import sys

import pytest

from nanoscope.cli import run
from nanoscope.data import readers
from nanoscope.data.sources import Documents
from nanoscope.errors import JobError, UsageError


def texts(*names, **options):
    """Return whole documents, joined from their pieces."""
    documents, text = [], ""
    for piece in Documents(names, **options).pieces():
        text += piece.text
        if piece.ends_document:
            documents, text = [*documents, text], ""
    assert text == ""
    return documents


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_text_file_is_one_document_without_byte_order_mark_and_with_plain_line_ends(file):
    assert texts(file("a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\n")) == ["one\ntwo\nthree\n"]


def test_a_file_larger_than_a_block_is_read_without_tearing_characters_or_line_ends(file, monkeypatch, text_of):
    text = text_of("hindi", 50)
    path = file("a.txt", text.replace("\n", "\r\n"))
    for size in (1, 7, 64):
        monkeypatch.setattr(readers, "BLOCK_SIZE", size)
        assert texts(path) == [text]


def test_a_file_that_is_not_utf8_is_named_with_the_byte(file, monkeypatch):
    path = file("a.txt", "नमस्ते ".encode() + b"caf\xe9 noir")
    for size in (4, 1 << 20):
        monkeypatch.setattr(readers, "BLOCK_SIZE", size)
        with pytest.raises(JobError, match=r"a\.txt is not UTF-8: byte 22 .*\n.*--encoding=cp1252"):
            texts(path)


def test_a_file_cut_inside_a_character_is_not_utf8(file):
    with pytest.raises(JobError, match="byte 3 "):
        texts(file("a.txt", b"abc" + "न".encode()[:2]))


def test_the_encoding_can_be_set(file):
    assert texts(file("a.txt", b"caf\xe9"), encoding="cp1252") == ["café"]
    assert texts(file("b.txt", "café".encode("utf-16")), encoding="utf-16") == ["café"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
def test_a_byte_order_mark_names_the_encoding(file, encoding, order):
    content = "\ufeffcafé\r\nनमस्ते".encode(f"{encoding}-{order}")
    assert texts(file("a.txt", content)) == ["café\nनमस्ते"]


def test_json_lines_may_be_utf16(file):
    assert texts(file("a.jsonl", '{"text": "नदी"}\n'.encode("utf-16"))) == ["नदी"]


@pytest.mark.parametrize("content", ["The rain fell on the valley. ".encode("utf-16-le"), b"GIF\0\0\xff"])
def test_utf16_without_a_mark_and_a_binary_file_are_not_utf8(file, content):
    with pytest.raises(JobError, match=r"is not UTF-8: byte \d .*\n.*--encoding="):
        texts(file("a.txt", content))


@pytest.mark.parametrize("encoding", ["utf-9", "hex"])
def test_an_encoding_that_does_not_exist_is_wrong_usage(file, encoding):
    with pytest.raises(UsageError, match=encoding):
        texts(file("a.txt", "a"), encoding=encoding)


def test_an_empty_file_is_refused(file):
    with pytest.raises(JobError, match="empty"):
        texts(file("a.txt", ""))


def test_a_missing_file_is_named_and_a_mistyped_corpus_recognised(tmp_path):
    with pytest.raises(JobError, match="nowhere"):
        texts(tmp_path / "nowhere.txt")
    with pytest.raises(JobError, match="Did you mean the corpus shakespeare"):
        texts("shakespear")


def test_json_lines_give_one_document_per_row(file):
    rows = [{"text": "नमस्ते\nदुनिया"}, {"text": None}, {"text": ""}, {"text": "b", "id": 2}]
    path = file("a.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    assert texts(path) == ["नमस्ते\nदुनिया", "b"]


def test_a_lone_surrogate_in_json_becomes_a_question_mark(file):
    assert texts(file("a.jsonl", r'{"text": "a\ud83d\ude00b\ud83d"}')) == ["a😀b?"]


def test_a_field_can_be_chosen(file):
    assert texts(file("a.jsonl", '{"body": "x"}\n'), field="body") == ["x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": \n', r"a\.jsonl is not a valid JSONL file: line 2: Expecting value"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "record 2: the field 'text' is list"),
        ("a.jsonl", '{"text": 5}\n', "record 1: the field 'text' is int"),
        ("a.jsonl", '{"texts": "long", "note": "a"}\n', r"It has: texts, note\.\n.*--field=NAME$"),
        ("a.parquet", b"PAR1 this is not parquet", r"a\.parquet is not a valid PARQUET file"),
    ],
)
def test_damaged_rows_are_named(file, name, content, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(JobError, match=message):
        texts(file(name, content))


def test_an_endless_line_is_refused_before_it_fills_the_memory(file, monkeypatch):
    monkeypatch.setattr(readers, "LINE_LIMIT_CHARACTERS", 1000)
    monkeypatch.setattr(readers, "BLOCK_SIZE", 100)
    with pytest.raises(JobError, match="a value has over 1,000 characters"):
        texts(file("a.jsonl", '"' + "a" * 5000))


def test_parquet_is_read_in_batches(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    wanted = [f"नमस्ते {i}" for i in range(2000)]
    table = pyarrow.table({"id": list(range(2001)), "text": [*wanted, None]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    assert texts(tmp_path / "a.parquet") == wanted
    with pytest.raises(JobError, match=r"It has: id, text\.\n.*--field=NAME"):
        texts(tmp_path / "a.parquet", field="txet")


def test_parquet_without_pyarrow_says_how_to_install_it(file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["prepare", str(file("a.parquet", b"PAR1"))]) == 1
    assert "pip install 'nanoscope[data]'" in capsys.readouterr().err


def test_a_long_field_comes_in_pieces(file, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_SIZE", 10)
    path = file("a.jsonl", json.dumps({"text": "x" * 35}))
    assert [len(piece.text) for piece in Documents([path]).pieces()] == [10, 10, 10, 5]
    assert texts(path) == ["x" * 35]


def test_repeated_texts_of_parquet_are_held_once(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    rows = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 400, pyarrow.int32()), ["a" * (1 << 20)])
    pyarrow.parquet.write_table(pyarrow.table({"text": rows}), path, store_schema=False)
    pieces = Documents([path]).pieces()
    assert next(pieces).text.startswith("a")
    assert pyarrow.total_allocated_bytes() < 100e6  # of 400 MB


def test_a_packed_file_gets_a_way_out(file):
    packed = gzip.compress(b"many words")
    for name, content in (("a.txt.gz", packed), ("a.tgz", b"x"), ("a.zip", b"x"), ("a.zst", b"x")):
        with pytest.raises(JobError, match="Unpack an archive into a folder"):
            texts(file(name, content))


def test_a_table_gets_a_way_out(file):
    with pytest.raises(JobError, match="write a table as JSON Lines"):
        texts(file("a.csv", "text\nwords\n"))


def test_reading_reports_its_progress(file, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_SIZE", 10)
    seen = []
    documents = Documents(
        [file("a.txt", "x" * 25), file("b.txt", "y" * 15)], on_progress=lambda stage, done: seen.append((stage, done))
    )
    for _ in documents.pieces("reading"):
        pass
    assert documents.total_bytes == 40
    assert seen == sorted(set(seen))
    assert seen[-1] == ("reading", 1.0)
