import os
import shutil
import sys
from pathlib import Path

import pytest

from nanoscope.training.appended_file import AppendedFile


class FullDisk:
    """Takes `room` more bytes, then none until there is room again."""

    closed = False

    def __init__(self, path: Path, room: int) -> None:
        self.file, self.room = path.open("ab", buffering=0), room

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, data: bytes) -> int:
        taken = data[: self.room]
        if not taken:
            raise OSError(28, "No space left on device")
        self.room -= len(taken)
        return self.file.write(taken)


def test_text_that_a_full_disk_refused_is_written_when_there_is_room_again(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "console.log")
    disk = file._file = FullDisk(tmp_path / "console.log", room=12)  # type: ignore[assignment]
    file.write("one line\n")
    assert file.trouble is None
    file.write("another line\n")
    file.write("a third\n")
    assert file.trouble is not None
    assert "No space left on device" in file.trouble
    disk.room = 1000
    file.write("a fourth\n")
    assert file.trouble is None
    assert (tmp_path / "console.log").read_text("utf-8") == "one line\nanother line\na third\na fourth\n"


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_text_waits_for_a_folder_that_may_not_be_created_again(tmp_path: Path) -> None:
    path = tmp_path / "run/console.log"
    file = AppendedFile(path)
    shutil.rmtree(tmp_path / "run")
    tmp_path.chmod(0o500)
    file.write("one\n")
    assert file.trouble
    tmp_path.chmod(0o700)
    file.write("two\n")
    assert path.read_text("utf-8") == "one\ntwo\n"


def test_a_line_cut_off_by_a_crash_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("one\ntw", "utf-8")
    AppendedFile(path).write("three\n")
    assert path.read_text("utf-8") == "one\ntw\nthree\n"


def test_what_a_file_begins_with_appears_as_a_whole_and_the_rest_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    file = AppendedFile(path, opening="start\n")
    beginning = path.stat().st_ino
    file.write_durably("start\n")
    assert path.stat().st_ino != beginning  # written aside, and renamed
    file.write("one\n")
    file.write_durably("again\n")
    file.write("two\n")
    assert path.read_text("utf-8") == "start\none\nagain\ntwo\n"


def test_a_beginning_that_cannot_be_written_aside_waits_like_any_other_text(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    file = AppendedFile(path, opening="start\n")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("in the way", "utf-8")
    file.write_durably("start\n")
    assert file.trouble
    (tmp_path / "run").unlink()
    file.write("one\n")
    assert path.read_text("utf-8").endswith("start\none\n")
