"""Folders and standard input: which files are read, and what is said about the others."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from nanoscope.cli import run
from nanoscope.data.sources import Documents
from nanoscope.errors import JobError, UsageError

FILES = {
    "b.txt": b"b",
    "a/deep.md": b"a",
    "c.jsonl": b'{"text": "c"}',
    "d.TXT": b"d",
    "packed.txt.gz": gzip.compress(b"d"),
    "image.png": b"\x89PNG\0",
    "package.json": b'{"name": "x"}',
    ".hidden.txt": b"no",
    ".git/note.txt": b"no",
    "empty.txt": b"",
    "binary.txt": b"a\0b",
    "code.py": b"print()",
    "more.py": b"pass",
    "Makefile": b"all:",
}


def write_folder(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def collection(tmp_path: Path):
    """Write some files into a folder."""

    def write(files: dict[str, bytes] = FILES) -> Path:
        return write_folder(tmp_path / "in", files)

    return write


def texts(path: Path | str, **options: object) -> list[str]:
    return [piece.text for piece in Documents([path], **options).pieces()]  # type: ignore[arg-type]


def test_files_are_read_in_order_and_others_counted_by_the_reason(collection) -> None:
    documents = Documents([collection()])
    for _ in range(2):  # a dataset takes two passes
        assert [piece.text for piece in documents.pieces()] == ["a", "b", "c", "d"]
    assert {str(kind): count for kind, count in documents.skipped.items()} == {
        ".py": 2,
        "hidden": 2,
        ".png": 1,
        ".json": 1,
        ".gz": 1,
        "empty": 1,
        "binary": 1,
        "without extension": 1,
    }


@pytest.mark.parametrize("typed", [["py"], [".py"], ["*.PY"], ["md,py"], ["md", "py"], [" md , .py "]])
def test_extensions_choose_the_files(typed: list[str], collection) -> None:
    expected = ["print()", "pass"] if len(typed) == 1 and "md" not in typed[0] else ["a", "print()", "pass"]
    assert texts(collection(), ext=typed) == expected


def test_a_chosen_extension_with_a_reader_of_its_own_is_read_by_it(collection) -> None:
    assert texts(collection({"a.json": b'"one"\n"two"', "b.py": b"no"}), ext=["json"]) == ["one", "two"]


def test_a_collection_without_text_names_what_it_has_and_the_option_that_reads_it(
    collection, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {f"{n}.py": b"print('words and words and words')\n" * 20 for n in range(12)}
    path = collection({**files, "logo.png": b"\x89PNG\0", "x.html": b"<p>", "y.html": b"<p>"})
    assert run(["prepare", str(path)]) == 1
    message = capsys.readouterr().err
    assert "contains no .txt, .md," in message
    assert "It has: 12 .py, 2 .html, 1 .png." in message
    assert "--ext=py" in message
    assert run(["prepare", str(path), "--ext=py", "--out=data/x"]) == 0


def test_an_extension_that_nothing_has_is_named(collection) -> None:
    with pytest.raises(JobError, match=r"contains no \.rs files"):
        texts(collection(), ext=["rs"])


def test_links_that_lead_nowhere_or_in_circles_are_skipped(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", {"a.txt": b"a"})
    try:
        (folder / "loop").symlink_to(folder, target_is_directory=True)
        (folder / "itself.txt").symlink_to(folder / "itself.txt")
        (folder / "gone.txt").symlink_to(folder / "nowhere.txt")
    except OSError:
        pytest.skip("this system allows no symbolic links")
    documents = Documents([folder])
    assert [piece.text for piece in documents.pieces()] == ["a"]
    assert {str(kind): count for kind, count in documents.skipped.items()} == {"not a file": 3}


def test_a_run_is_not_text(small_run: Path) -> None:
    with pytest.raises(UsageError, match=r"is a training run, not text\. Try: nanoscope explain"):
        Documents([small_run])


# --- standard input ----------------------------------------------------------------------------------------------


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


@pytest.mark.parametrize(
    ("content", "field", "expected"),
    [
        (b"plain words", None, ["plain words"]),
        ("नदी".encode("utf-16"), None, ["नदी"]),
        (b'{"text": "a"}\n{"text": "b"}\n', None, ["a", "b"]),
        (b'{"body": "a"}', "body", ["a"]),
        (b"[Verse 1]\nrow your boat", None, ["[Verse 1]\nrow your boat"]),
    ],
    ids=["text", "utf-16", "json lines", "field", "a bracket"],
)
def test_standard_input_is_recognised_by_how_it_begins(
    content: bytes, field: str | None, expected: list[str], standard_input
) -> None:
    standard_input(content)
    documents = Documents(["-"], field)
    for _ in range(2):
        assert [piece.text for piece in documents.pieces()] == expected


def test_empty_standard_input_is_refused(standard_input) -> None:
    standard_input(b"")
    with pytest.raises(JobError, match="standard input is empty"):
        Documents(["-"])


@pytest.mark.parametrize(("options", "folder"), [([], "data/stdin-char"), (["--out=data/x"], "data/x")])
def test_a_pipe_becomes_a_dataset(options: list[str], folder: str, nanoscope, tmp_path: Path) -> None:
    done = nanoscope("prepare", "-", *options, cwd=tmp_path, input="row your boat gently down the stream\n" * 100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"prepared {folder} in")
    assert (tmp_path / folder / "meta.json").is_file()
