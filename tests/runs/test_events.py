import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from nanoscope.runs.events import AppendedFile, EventWriter, read_events


class FullDisk:
    """Takes so many bytes more, then none, until there is room again."""

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


def test_what_a_full_disk_did_not_take_is_written_when_there_is_room_again(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "events.jsonl")
    disk = file._file = FullDisk(tmp_path / "events.jsonl", room=12)  # type: ignore[assignment]
    file.write("one line\n")
    assert file.trouble is None
    file.write("another line\n")
    file.write("a third\n")
    assert file.trouble is not None
    assert "No space left on device" in file.trouble
    disk.room = 1000
    file.write("a fourth\n")
    assert file.trouble is None
    assert (tmp_path / "events.jsonl").read_text("utf-8") == "one line\nanother line\na third\na fourth\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no file that is open")
def test_a_file_that_was_deleted_with_its_folder_begins_anew_with_the_start_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    writer = EventWriter(path)
    writer.write("start", run="run")
    writer.write("iter", step=0)
    shutil.rmtree(tmp_path / "run")
    writer.write("iter", step=1)
    writer.write("iter", step=2)
    assert [(event["event"], event.get("step")) for event in read_events(path)] == [
        ("start", None), ("iter", 1), ("iter", 2),
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_folder_that_may_not_be_made_again_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    file = AppendedFile(path)
    shutil.rmtree(tmp_path / "run")
    tmp_path.chmod(0o500)
    file.write("one\n")
    assert file.trouble
    tmp_path.chmod(0o700)
    file.write("two\n")
    assert path.read_text("utf-8") == "one\ntwo\n"


def test_a_line_that_a_crash_cut_off_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "iter", "step": 1}\n{"event": "it', "utf-8")
    EventWriter(path).write("iter", step=2)
    assert [event["step"] for event in read_events(path)] == [1, 2]


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventWriter(path).write("iter", step=1, loss=float("nan"), phases={"step": float("inf")})
    event = json.loads(path.read_text("utf-8"))
    assert (event["loss"], event["phases"]["step"]) == (None, None)
