"""A run that is read while it grows is the run that is read at its end, whatever else is in its file."""

import json
from pathlib import Path
from random import Random

import pytest

from nanoscope.runs import own
from nanoscope.runs.events import (
    EVENTS_VERSION,
    MAX_EXTRAS,
    AnyEvent,
    End,
    Eval,
    Iter,
    NewerVersionError,
    Resume,
    Rollback,
    Start,
)
from nanoscope.runs.own import OwnRun
from nanoscope.runs.reader import read_log
from nanoscope.runs.run import NOT_FINITE, Log
from nanoscope.runs.summary import summary_of
from written_runs import EventFile, write_run

EARLIER_RUN = Path(__file__).parent / "run_of_0.1.0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", steps=200)


def seen(log: Log) -> list[object]:
    """All that was read, as plain values; floats as text, for NaN is not NaN."""
    runs = []
    for run in log.runs:
        assert run.details is not None
        runs.append(
            (
                [list(map(repr, column)) for column in run.steps.columns()],
                [vars(evaluation) for evaluation in run.evals],
                (run.phases, run.wall_seconds, run.said_finished, run.failed, run.resumed_at, run.samples, run.config),
                vars(run.details),
            )
        )
    return [runs, log.lines, log.format, [(error.line, error.kind, error.message) for error in log.errors]]


def damaged(folder: Path, *lines: bytes) -> Path:
    """Put other lines between the events."""
    file = folder / "events.jsonl"
    events = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*events[:50], *(line + b"\n" for line in lines), *events[50:]]))
    return folder


@pytest.mark.parametrize("piece_bytes", [97, 5_000, 1 << 20])
def test_a_run_read_in_pieces_is_the_run_read_at_once(folder: Path, tmp_path: Path, piece_bytes: int) -> None:
    written = (folder / "events.jsonl").read_bytes()
    growing = tmp_path / "growing"
    growing.mkdir()
    (growing / "events.jsonl").touch()
    (folder / "samples").rename(growing / "samples")
    run = OwnRun(growing)
    for start in range(0, len(written), piece_bytes):
        with (growing / "events.jsonl").open("ab") as file:
            file.write(written[start : start + piece_bytes])
        log = run.read()
    (growing / "samples").rename(folder / "samples")
    assert seen(log) == seen(read_log(str(folder)))


def test_the_folder_and_its_events_file_are_the_same_run(folder: Path) -> None:
    assert seen(read_log(str(folder))) == seen(read_log(str(folder / "events.jsonl")))


def test_events_under_another_name_are_the_same_run(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copied.jsonl"
    copy.write_bytes((folder / "events.jsonl").read_bytes())
    (folder / "samples").rename(tmp_path / "samples")  # those are not in the file
    assert seen(read_log(str(copy))) == seen(read_log(str(folder)))


@pytest.mark.parametrize(
    "damage",
    [
        b'{"event": "iter", "step": 1',
        b"\x00\xff\xfe rubbish",
        b"[" * 5000,
        b'{"a": 1}, {"b": 2}',
        b"\xe2\x80\xa8",
        b'{"event": "of a later version", "step": 1}',
        b'{"event": "iter", "step": "1", "loss": 2.0}',
        b'{"event": "iter", "step": -1, "loss": 2.0}',
        b'{"event": "iter", "loss": 2.0}',
        b'{"event": "spike", "step": 5, "loss": {}, "usual": 1e999}',
        b'{"event": "slow_step", "step": 9, "cause": 3}',
    ],
)
def test_a_line_that_is_no_event_costs_that_line_alone(folder: Path, damage: bytes) -> None:
    whole = seen(OwnRun(folder).read())
    assert seen(OwnRun(damaged(folder, damage)).read())[0] == whole[0]


def test_what_another_version_adds_to_an_event_is_ignored(folder: Path) -> None:
    whole = seen(OwnRun(folder).read())
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    (folder / "events.jsonl").write_bytes(b"".join(line[:-1] + b',"mood":[1]}\n' for line in lines))
    assert seen(OwnRun(folder).read()) == whole


def test_a_loss_that_is_not_finite_may_be_null_or_nan(folder: Path) -> None:
    events = [
        b'{"event": "iter", "step": %d, "loss": %s}' % (step, loss) for step, loss in ((300, b"null"), (301, b"NaN"))
    ]
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b"\n".join(events) + b"\n")
    (run,) = OwnRun(folder).read().runs
    assert list(run.steps.loss[-2:]) == [float("inf")] * 2


def test_a_line_longer_than_any_event_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "PIECE_BYTES", 4096)
    whole = seen(OwnRun(folder).read())
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b"x" * 20_000 + b"\n")
    assert seen(OwnRun(folder).read())[0] == whole[0]


@pytest.mark.parametrize("change", ["truncated", "replaced"])
def test_a_file_that_was_truncated_or_replaced_is_read_from_its_beginning(
    folder: Path, tmp_path: Path, change: str
) -> None:
    run = OwnRun(folder)
    run.read()
    events = folder / "events.jsonl"
    if change == "truncated":
        events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:60]))
    else:
        (write_run(tmp_path / "other", steps=500) / "events.jsonl").replace(events)
    assert seen(run.read()) == seen(read_log(str(folder)))


# --- versions ---


@pytest.mark.parametrize("name", ["", "events.jsonl", "console.log"])
def test_a_run_written_by_the_first_release_stays_readable(name: str) -> None:
    log = read_log(str(EARLIER_RUN / name))
    (run,) = log.runs
    assert log.format == "nanoscope"
    assert (list(run.steps.step), run.said_finished) == ([0, 10, 20, 30, 40, 50], True)
    assert [(e.step, e.stderr) for e in run.evals] == [
        (20, pytest.approx(0.0140, abs=1e-4)), (40, pytest.approx(0.0152, abs=1e-4)),
        (60, pytest.approx(0.0148, abs=1e-4)),
    ]  # fmt: skip
    assert [c.step for c in run.checkpoints] == [20, 40, 60]
    assert run.config["tokens_per_step"] == 1024
    assert run.wall_seconds == pytest.approx(72, abs=0.5)
    assert run.phases["eval"] == pytest.approx(9.73, abs=0.5)


def newer(folder: Path) -> Path:
    """The same run, as a later nanoscope would have begun it."""
    file = folder / "events.jsonl"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    start = {**json.loads(lines[0]), "version": EVENTS_VERSION + 1, "device": ["of", "another", "type"]}
    file.write_text("".join([json.dumps(start) + "\n", *lines[1:]]), "utf-8")
    return folder


def test_events_of_a_newer_version_are_refused_each_time_they_are_read(folder: Path) -> None:
    run = OwnRun(newer(folder))
    for _ in range(2):
        with pytest.raises(NewerVersionError, match=f"events version {EVENTS_VERSION + 1}"):
            run.read()


def test_events_of_a_newer_version_are_refused_under_any_name(folder: Path, tmp_path: Path) -> None:
    (newer(folder) / "events.jsonl").rename(tmp_path / "train.log")
    with pytest.raises(NewerVersionError, match="pip install --upgrade nanoscope"):
        read_log(str(tmp_path / "train.log"))


def test_another_trainers_log_with_a_version_of_its_own_is_read(tmp_path: Path) -> None:
    lines = ['{"event": "start", "version": 7, "trainer": "mine"}']
    lines += [f"iter {step}: loss {4 - step / 50:.4f}, time 30.00ms, mfu 1.00%" for step in range(100)]
    (tmp_path / "train.log").write_text("\n".join(lines), "utf-8")
    log = read_log(str(tmp_path / "train.log"))
    assert (log.format, len(log.runs[0].steps)) == ("nanogpt", 100)


def test_a_run_of_a_newer_version_is_listed_as_unreadable_with_the_reason(folder: Path) -> None:
    found = summary_of(newer(folder))
    assert found.state == "unreadable"
    assert found.reason is not None
    assert "newer nanoscope" in found.reason


# --- numbers under names of their own ---


def iterations(folder: Path, *extras: dict[str, object]) -> Path:
    """A run of another trainer, whose iterations carry more than the contract names."""
    folder.mkdir(exist_ok=True)
    records = [{"event": "iter", "step": i, "loss": 2.0, "seconds": 0.1, **extra} for i, extra in enumerate(extras)]
    lines = [json.dumps(record) for record in [{"event": "start"}, *records]]
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def test_any_number_of_an_iteration_becomes_a_series_of_its_name(tmp_path: Path) -> None:
    extras: list[dict[str, object]] = [{"my_metric": 0.5}, {}, {"my_metric": 3, "loss/aux": -1.5}, {"my_metric": 0.25}]
    (run,) = OwnRun(iterations(tmp_path / "run", *extras)).read().runs
    assert {name: (list(s.steps), list(s.values)) for name, s in run.series.items()} == {
        "my_metric": ([0, 2, 3], [0.5, 3.0, 0.25]),
        "loss/aux": ([2], [-1.5]),
    }
    assert len(run.steps) == 4


def test_what_is_no_number_becomes_no_series(tmp_path: Path) -> None:
    extras = {"note": "warm", "flag": True, "list": [1], "nothing": None, "endless": 1e300}
    (run,) = OwnRun(iterations(tmp_path / "run", extras, extras)).read().runs
    assert run.series == {}
    assert len(run.steps) == 2


def test_the_number_of_series_is_bounded_and_the_steps_are_all_there(tmp_path: Path) -> None:
    folder = iterations(tmp_path / "run", *({f"m{i}": 1.0, "common": 2.0} for i in range(500)))
    (run,) = OwnRun(folder).read().runs
    assert len(run.series) == MAX_EXTRAS
    assert len(run.steps) == 500
    assert len(run.series["common"].steps) == 500


def test_a_resumed_run_cuts_its_series_where_it_was_resumed(tmp_path: Path) -> None:
    folder = iterations(tmp_path / "run", *({"my_metric": float(i)} for i in range(10)))
    again = [{"event": "start", "first_step": 5}, {"event": "resume", "step": 5}]
    again += [{"event": "iter", "step": i, "loss": 2.0, "seconds": 0.1, "my_metric": -1.0} for i in (5, 6)]
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in again)
    (run,) = OwnRun(folder).read().runs
    assert list(run.series["my_metric"].values) == [0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -1.0]


# --- sessions ---


def test_a_start_begins_a_run_of_its_own_even_where_the_steps_would_go_on(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(config={"seed": 1}), Iter(step=0, loss=4.0), Start(config={"seed": 2}), Eval(step=0, val_loss=4.5))
    file.write(Iter(step=1, loss=3.0), Eval(step=2, val_loss=2.5))
    first, second = OwnRun(tmp_path).read().runs
    assert (list(first.steps.step), first.evals, first.config["seed"]) == ([0], [], 1)
    assert (list(second.steps.step), [e.val for e in second.evals], second.config["seed"]) == ([1], [4.5, 2.5], 2)


def test_a_resume_that_has_not_trained_yet_has_the_evaluations_before_its_checkpoint(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(config={"max_iters": 40}), *(Iter(step=step, loss=4.0) for step in range(30)))
    file.write(*(Eval(step=step, val_loss=4.0 - step / 10) for step in (0, 10, 20)))
    file.write(Start(first_step=10, config={"max_iters": 60}), Resume(step=10))
    (run,) = OwnRun(tmp_path).read().runs
    assert [e.step for e in run.evals] == [0, 10]
    assert (run.last_step, run.resumed_at, run.config["max_iters"]) == (29, [], 60)
    file.write(Iter(step=10, loss=3.0))
    (run,) = OwnRun(tmp_path).read().runs
    assert (run.last_step, run.resumed_at) == (10, [10])


def test_lines_that_two_processes_write_count_once_and_lower_steps_alone_begin_another_run(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.write(Start(), *(Iter(step=step, loss=4.0 - step) for step in (0, 0, 1, 1, 2, 2)), Iter(step=0, loss=9.0))
    first, second = OwnRun(tmp_path).read().runs
    assert (list(first.steps.step), list(first.steps.loss), first.resumed_at) == ([0, 1, 2], [4.0, 3.0, 2.0], [])
    assert list(second.steps.step) == [0]


@pytest.mark.parametrize("seed", range(20))
def test_a_list_says_of_any_events_what_the_full_reading_says(tmp_path: Path, seed: int) -> None:
    chance, step, file = Random(seed), 0, EventFile(tmp_path)
    file.write(Start(config={"max_iters": 100}))
    for _ in range(60):
        step += chance.randrange(1, 4)
        back = max(0, step - chance.randrange(9))
        kinds: list[list[AnyEvent]] = [
            [Iter(step=step, loss=chance.random(), t=float(step))],
            [Eval(step=step, val_loss=chance.choice([None, chance.random()]))],
            [Start(first_step=back, config={"max_iters": step + 50}), Resume(step=back)] if back else [Start()],
            [Rollback(step=step, to=back), Iter(step=back, loss=1.0)],
            [End(reason=chance.choice(["finished", "interrupted", "non_finite"]), step=step)],
        ]
        which = chance.choices(range(5), weights=[60, 25, 5, 5, 5])[0]
        step = step if which in (0, 1, 4) else back
        file.write(*kinds[which])
    file.write(Eval(step=step + 1, val_loss=0.9))
    listed, evals = summary_of(tmp_path), OwnRun(tmp_path).read().runs[-1].evals
    assert [vars(evaluation) for evaluation in listed.run.evals] == [vars(evaluation) for evaluation in evals]
    assert listed.best_evaluation == min((e.val, e.step) for e in evals if e.val != NOT_FINITE)
