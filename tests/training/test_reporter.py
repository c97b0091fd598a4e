import json
import sys
from pathlib import Path

import pytest

from nanoscope.runs.events import AnyEvent, Eval, Iter, Note, Start, decode
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import ConsoleLog, EventsFile, LogFile, Reporter, Terminal, open_sinks
from nanoscope.training.run_folder import RunFolder


class Lines(Terminal):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def line(self, text: str) -> None:
        self.seen.append(text)


def events_in(path: Path) -> list[AnyEvent | None]:
    return [decode(line) for line in path.read_text("utf-8").splitlines()]


def test_terminal_console_log_and_events_agree(tmp_path: Path) -> None:
    terminal = Lines()
    reporter = Reporter(RunFolder(tmp_path), PhaseClock(5.0), *open_sinks(RunFolder(tmp_path), terminal))
    reporter.emit(Start(run="run", nanoscope="0.1.0"))
    reporter.emit(Eval(step=10, train_loss=1.5, val_loss=1.6))
    reporter.close()
    assert terminal.seen[-1] == "step 10: train loss 1.5000, val loss 1.6000, eval n/a"
    assert (tmp_path / "console.log").read_text("utf-8").splitlines() == terminal.seen
    start, evaluation = events_in(tmp_path / "events.jsonl")
    assert isinstance(start, Start)
    assert isinstance(evaluation, Eval)
    assert evaluation.val_loss == 1.6
    assert evaluation.time is not None
    assert start.t is not None
    assert start.t >= 5


def test_a_reporter_without_sinks_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter(RunFolder(tmp_path), PhaseClock())
    reporter.emit(Note(text="something"))
    reporter.advance(3)
    reporter.close()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_text_of_others_is_printable_on_the_terminal_and_in_the_log(tmp_path: Path) -> None:
    terminal = Lines()
    Reporter(RunFolder(tmp_path), PhaseClock(), ConsoleLog(tmp_path / "console.log", terminal), terminal).emit(
        Note(text="\x1b[31mred")
    )
    assert terminal.seen == ["note: ␛[31mred"]
    assert (tmp_path / "console.log").read_text("utf-8") == "note: ␛[31mred\n"


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path) -> None:
    EventsFile(tmp_path / "events.jsonl", Lines()).write(Iter(step=1, loss=float("nan"), seconds=float("inf")))
    event = json.loads((tmp_path / "events.jsonl").read_text("utf-8"))
    assert (event["loss"], event["seconds"]) == (None, None)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_each_log_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    for name in ("events.jsonl", "console.log"):
        (tmp_path / name).symlink_to("/dev/full")
    terminal = Lines()
    reporter = Reporter(RunFolder(tmp_path), PhaseClock(), *open_sinks(RunFolder(tmp_path), terminal))
    for _ in range(3):
        reporter.emit(Note(text="something"))
    assert [line for line in terminal.seen if line.startswith("warning")] == [
        f"warning: can't write {tmp_path / name}: No space left on device; training continues, and will "
        "retry with every line"
        for name in ("events.jsonl", "console.log")
    ]


class FullDisk:
    """Takes `room` more bytes, then none until there is room again."""

    def __init__(self, path: Path, room: int) -> None:
        self.file, self.room = path.open("ab", buffering=0), room

    def write(self, data: bytes) -> int:
        taken = data[: self.room]
        if not taken:
            raise OSError(28, "No space left on device")
        self.room -= len(taken)
        return self.file.write(taken)


def test_text_that_a_full_disk_refused_is_written_when_there_is_room_again(tmp_path: Path) -> None:
    terminal = Lines()
    file = LogFile(tmp_path / "console.log", terminal)
    disk = file._file = FullDisk(tmp_path / "console.log", room=12)  # type: ignore[assignment]
    for text in ("one line\n", "another line\n", "a third\n"):
        file.append(text)
    assert len(terminal.seen) == 1
    assert "No space left on device" in terminal.seen[0]
    disk.room = 1000
    file.append("a fourth\n")
    assert (tmp_path / "console.log").read_text("utf-8") == "one line\nanother line\na third\na fourth\n"


def test_a_line_cut_off_by_a_crash_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("one\ntw", "utf-8")
    LogFile(path, Lines()).append("three\n")
    assert path.read_text("utf-8") == "one\ntw\nthree\n"


def test_what_a_file_begins_with_appears_as_a_whole_and_the_rest_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    file = LogFile(path, Lines())
    beginning = path.stat().st_ino
    file.append_durably("start\n")
    assert path.stat().st_ino != beginning  # written aside, and renamed
    file.append("one\n")
    file.append_durably("again\n")
    file.append("two\n")
    assert path.read_text("utf-8") == "start\none\nagain\ntwo\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not rename folders of open files")
def test_a_log_is_followed_when_its_folder_is_renamed(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "run/console.log", Lines())
    file.append("one\n")
    (tmp_path / "run").rename(tmp_path / "renamed")
    (tmp_path / "run").mkdir()
    file.append("two\n")
    assert (tmp_path / "renamed/console.log").read_text("utf-8") == "one\ntwo\n"
    assert list((tmp_path / "run").iterdir()) == []
