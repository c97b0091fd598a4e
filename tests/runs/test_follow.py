"""A run that is read while it grows is the run that is read at its end."""

from pathlib import Path

import pytest

from nanoscope.runs import follow
from nanoscope.runs.folder import read_folder
from nanoscope.runs.follow import FollowedRun
from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Log
from written_runs import write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", steps=200)


def seen(log: Log) -> list[object]:
    """All that was read, as plain values; floats as text, for NaN is not NaN."""
    runs = [
        (
            [list(map(repr, column)) for column in run.steps._columns()],
            [vars(evaluation) for evaluation in run.evals],
            (run.phases, run.wall_seconds, run.said_finished, run.failed, run.resumed_at, run.samples, run.config),
        )
        for run in log.runs
    ]
    return [runs, log.lines, log.format, [(error.line, error.kind, error.message) for error in log.errors]]


@pytest.mark.parametrize("piece_bytes", [97, 5_000, 1 << 20])
def test_a_run_read_in_pieces_is_the_run_read_at_once(folder: Path, tmp_path: Path, piece_bytes: int) -> None:
    written = (folder / "events.jsonl").read_bytes()
    growing = tmp_path / "growing"
    growing.mkdir()
    (growing / "events.jsonl").touch()
    followed = FollowedRun(growing)
    for start in range(0, len(written), piece_bytes):
        with (growing / "events.jsonl").open("ab") as file:
            file.write(written[start : start + piece_bytes])
        log = followed.update()
    assert seen(log) == seen(read_log(str(folder)))
    facts = read_folder(str(folder))
    assert (followed.facts.eta_steps, followed.facts.eta_seconds) == (facts.eta_steps, facts.eta_seconds)
    assert [vars(note) for note in followed.facts.notes] == [vars(note) for note in facts.notes]


@pytest.mark.parametrize(
    "damage",
    [b'{"event": "iter", "step": 1', b"\x00\xff\xfe rubbish", b"[" * 5000, b'{"a": 1}, {"b": 2}', b"\xe2\x80\xa8"],
)
def test_a_damaged_line_costs_that_line_alone(folder: Path, damage: bytes) -> None:
    whole = seen(FollowedRun(folder).update())
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join([*lines[:50], damage + b"\n", *lines[50:]]))
    assert seen(FollowedRun(folder).update())[0] == whole[0]


def test_a_line_longer_than_can_be_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "CHUNK_BYTES", 4096)
    whole = seen(FollowedRun(folder).update())
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b"x" * 20_000 + b"\n")
    assert seen(FollowedRun(folder).update())[0] == whole[0]


@pytest.mark.parametrize("change", ["truncated", "replaced"])
def test_a_file_that_is_another_one_is_read_from_its_beginning(folder: Path, tmp_path: Path, change: str) -> None:
    followed = FollowedRun(folder)
    followed.update()
    events = folder / "events.jsonl"
    if change == "truncated":
        events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:60]))
    else:
        (write_run(tmp_path / "other", steps=500) / "events.jsonl").replace(events)
    assert seen(followed.update()) == seen(read_log(str(folder)))
