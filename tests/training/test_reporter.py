import json
import shutil
import sys
from pathlib import Path

import pytest

from nanoscope.runs.events import AnyEvent, Eval, Iter, Note, Start, decode
from nanoscope.training.reporter import ConsoleLog, EventsFile, Reporter, Terminal, open_sinks
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
    reporter = Reporter(RunFolder(tmp_path), *open_sinks(RunFolder(tmp_path), terminal, started_ago=5.0))
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
    reporter = Reporter(RunFolder(tmp_path))
    reporter.emit(Note(text="something"))
    reporter.advance(3)
    reporter.close()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_text_of_others_is_printable_on_the_terminal_and_in_the_log(tmp_path: Path) -> None:
    terminal = Lines()
    Reporter(RunFolder(tmp_path), ConsoleLog(tmp_path / "console.log"), terminal).emit(Note(text="\x1b[31mred"))
    assert terminal.seen == ["note: ␛[31mred"]
    assert (tmp_path / "console.log").read_text("utf-8") == "note: ␛[31mred\n"


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path) -> None:
    EventsFile(tmp_path / "events.jsonl").write(Iter(step=1, loss=float("nan"), seconds=float("inf")))
    event = json.loads((tmp_path / "events.jsonl").read_text("utf-8"))
    assert (event["loss"], event["seconds"]) == (None, None)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete open files")
def test_an_events_file_that_was_deleted_begins_again_with_the_start_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "run/events.jsonl"
    events = EventsFile(path)
    events.write(Start(run="run"))
    events.write(Iter(step=0, loss=2.0))
    shutil.rmtree(tmp_path / "run")
    events.write(Iter(step=1, loss=2.0))
    events.write(Iter(step=2, loss=2.0))
    assert [getattr(event, "step", "start") for event in events_in(path)] == ["start", 1, 2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_log_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    for name in ("events.jsonl", "console.log"):
        (tmp_path / name).symlink_to("/dev/full")
    terminal = Lines()
    reporter = Reporter(RunFolder(tmp_path), *open_sinks(RunFolder(tmp_path), terminal, started_ago=0.0))
    for _ in range(3):
        reporter.emit(Note(text="something"))
    assert [line for line in terminal.seen if line.startswith("warning")] == [
        f"warning: can't write {tmp_path / 'events.jsonl'}: No space left on device; training continues, and will "
        "retry with every line"
    ]
