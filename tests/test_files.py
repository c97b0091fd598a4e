"""nanoscope.files: a file is replaced as a whole or not at all."""

from pathlib import Path

import pytest

from nanoscope.files import write_atomically


@pytest.mark.parametrize("sync", [False, True])
def test_text_and_bytes_are_written_as_given(tmp_path: Path, sync: bool) -> None:
    write_atomically(tmp_path / "text", "é\r\n\n", sync=sync)
    write_atomically(tmp_path / "bytes", b"\x00\r\n", sync=sync)
    assert (tmp_path / "text").read_bytes() == "é\r\n\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\x00\r\n"


def test_missing_folders_are_created(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", "content")
    assert (tmp_path / "a" / "b" / "file").read_text() == "content"


def test_a_reader_with_the_old_file_open_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old content")
    with path.open() as reader:
        write_atomically(path, "new")
        assert reader.read() == "old content"
    assert path.read_text() == "new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half a character: \ud800")
    (tmp_path / "folder" / "in the way").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", "content")
    assert path.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]
