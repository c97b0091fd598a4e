"""Folders of experiment trackers: they are read like the console's lines."""

import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanoscope.errors import JobError
from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Run
from nanoscope.runs.trackers import open_lines

CONSOLE = "".join(f"iter {s}: loss {4 - s / 100:.4f}, time 100.00ms, mfu 3.00%\n" for s in range(0, 50, 10))
WANDB_RUN = "run-20260105_100000-ab12cd34"
STEPS = range(0, 200, 10)
BEGAN = 1_760_000_000.0


def loss_at(step: int) -> float:
    return round(4 - step / 100, 4)


def metrics() -> dict[str, list[tuple[float, int, float]]]:
    """What a run logs by name: (seconds, step, value); a step takes half a second."""
    train = [(BEGAN + step / 2, step) for step in STEPS]
    return {
        "eval/loss": [(at + 2, step, loss_at(step) + 0.1) for at, step in train if step % 50 == 0],
        "train/loss": [(at, step, loss_at(step)) for at, step in train],
        "train/learning_rate": [(at, step, 1e-3) for at, step in train],
        "train/accuracy": [(at, step, 0.5) for at, step in train],
        "train/epoch": [(at, step, step / 100) for at, step in train],
        "train/train_loss": [(BEGAN + 100, 195, 9.5)],
        "system/memory": [(BEGAN + n, n, 1.0) for n in range(5)],
    }


def write_mlflow(run: Path) -> Path:
    for name, points in metrics().items():
        file = run / "metrics" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{at * 1e3:.0f} {value} {step}\n" for at, step, value in points), "utf-8")
    (run / "params" / "optimizer").mkdir(parents=True)
    (run / "params" / "optimizer" / "kind").write_text("adam", "utf-8")
    (run / "params" / "max_steps").write_text("400", "utf-8")
    (run / "params" / "name").write_text("first try", "utf-8")
    return run


def assert_read(run: Run) -> None:
    assert list(run.steps.step) == list(STEPS)
    assert list(run.steps.loss) == pytest.approx([loss_at(step) for step in STEPS])
    assert list(run.steps.lr) == pytest.approx([1e-3] * len(STEPS))
    assert list(run.steps.time_s)[1:] == pytest.approx([0.5] * (len(STEPS) - 1), abs=0.01)
    assert [(e.step, e.val) for e in run.evals] == [(s, pytest.approx(loss_at(s) + 0.1)) for s in STEPS if s % 50 == 0]
    assert run.unit == "step"
    assert run.unused_columns == ("train/accuracy",)


@pytest.mark.parametrize("given", [f"wandb/{WANDB_RUN}", f"wandb/{WANDB_RUN}/files", "wandb", "."])
def test_a_wandb_folder_stands_for_its_console_output(tmp_path: Path, given: str) -> None:
    for name, text in ((WANDB_RUN, CONSOLE), ("offline-run-20250105_100000-zz", "")):
        files = tmp_path / "wandb" / name / "files"
        files.mkdir(parents=True)
        (files / "output.log").write_text(text, "utf-8")
    log = read_log(str(tmp_path / given))

    assert log.format == "nanogpt"
    assert list(log.runs[0].steps.step) == [0, 10, 20, 30, 40]


def test_a_wandb_run_without_console_output_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "run-ab12cd34.wandb").write_bytes(b":W&B")

    with pytest.raises(JobError, match="console output was not kept"):
        read_log(str(tmp_path))


@pytest.mark.parametrize("given", ["mlruns/0/5f3a", "mlruns/0", "mlruns", "."])
def test_the_metrics_of_an_mlflow_run_are_read_by_their_meaning(tmp_path: Path, given: str) -> None:
    write_mlflow(tmp_path / "mlruns" / "0" / "5f3a")
    (run,) = read_log(str(tmp_path / given)).runs

    assert_read(run)
    assert run.config["max_steps"] == 400


def test_the_numbers_of_a_tracker_have_no_lines_to_annotate(tmp_path: Path) -> None:
    write_mlflow(tmp_path / "5f3a")

    with pytest.raises(JobError, match="nothing to annotate"):
        open_lines(tmp_path / "5f3a")


def test_of_several_mlflow_runs_one_has_to_be_chosen(tmp_path: Path) -> None:
    write_mlflow(tmp_path / "0" / "5f3a")
    write_mlflow(tmp_path / "0" / "6f3a")

    with pytest.raises(JobError, match=r"2 runs in .*5f3a"):
        read_log(str(tmp_path))


def test_damaged_lines_of_a_metric_are_skipped(tmp_path: Path) -> None:
    run = write_mlflow(tmp_path / "5f3a")
    with (run / "metrics" / "train" / "loss").open("a", encoding="utf-8") as file:
        file.write("17600\nx y z\n99999999999999999999999 1.0 500\n")
    (read,) = read_log(str(run)).runs

    assert list(read.steps.step) == [*STEPS, 500]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9" * 5000 + "\n",
        "9" * 400 + " 1 1\n",
        f"1 nan {10**30}\n",
        "1e9 1 1\n",
        "1 1e400 -5\n",
        "\0\x1b[2J 1 2\n",
        "-9 1 1\n",
    ],
)
def test_metrics_of_any_content_do_no_harm(tmp_path: Path, text: str) -> None:
    for name in ("loss", "val_loss", "step", "loss, step 5"):
        (tmp_path / "metrics").mkdir(exist_ok=True)
        (tmp_path / "metrics" / name).write_text(text + "1760000000000 2.5 10\n", "utf-8")
    (run,) = read_log(str(tmp_path)).runs

    assert 10 in run.steps.step or run.evals


def test_event_files_of_tensorboard_without_its_package_say_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    (tmp_path / "events.out.tfevents.1760000000.host").write_bytes(b"")

    with pytest.raises(JobError, match=r"pip install 'nanoscope\[tensorboard\]'"):
        read_log(str(tmp_path))


def write_events(folder: Path, scalars: dict[str, list[tuple[float, int, float]]], as_tensors: bool = False) -> Path:
    """Write scalars as PyTorch does, or as TensorFlow 2 does."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for name, points in scalars.items():
        for at, step, value in points:
            plain = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            summary = scalar_pb(name, value) if as_tensors else plain
            writer.add_event(Event(wall_time=at, step=step, summary=summary))
    writer.close()
    return next(folder.glob("*.tfevents.*"))


def test_event_files_of_tensorboard_are_read_by_meaning(tmp_path: Path) -> None:
    file = write_events(tmp_path / "runs" / "first", metrics())

    for given in (file, file.parent, tmp_path):
        (run,) = read_log(str(given)).runs
        assert_read(run)


def test_training_and_validation_in_folders_of_their_own_are_one_run(tmp_path: Path) -> None:
    for part, extra in (("train", 0.0), ("validation", 0.1)):
        epochs = [(BEGAN + 60 * n, n, 3 - n / 10 + extra) for n in range(8)]
        write_events(tmp_path / part, {"epoch_loss": epochs, "epoch_accuracy": epochs}, as_tensors=True)
    (run,) = read_log(str(tmp_path)).runs

    assert run.unit == "epoch"
    assert list(run.steps.loss) == pytest.approx([3 - n / 10 for n in range(8)])
    assert [e.val for e in run.evals] == pytest.approx([3.1 - n / 10 for n in range(8)])


def test_a_damaged_event_file_is_no_run(tmp_path: Path) -> None:
    file = write_events(tmp_path, metrics())
    file.write_bytes(b"\x18\0\0\0\0\0\0\0" + bytes(range(256)) * 40)

    assert read_log(str(file)).runs == []


def write_trackio(file: Path, earlier: bool = False) -> Path:
    """A project's database; earlier versions had no ids of runs, and no settings."""
    run_id = [] if earlier else ["ab12"]
    with closing(sqlite3.connect(file)) as base, base:
        ids = "" if earlier else "run_id TEXT NOT NULL, "
        base.execute(
            f"CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, {ids}timestamp TEXT NOT NULL, "
            "run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"
        )
        places = ", ".join("?" * (len(run_id) + 4))
        columns = ("run_id, " if run_id else "") + "timestamp, run_name, step, metrics"
        rows: dict[tuple[float, int], dict[str, object]] = {}
        for name, points in metrics().items():
            for at, step, value in points:
                rows.setdefault((at, step), {"note": "text", "table": {"rows": []}})[name] = value
        insert = f"INSERT INTO metrics ({columns}) VALUES ({places})"
        base.execute(insert, [*run_id, "2025-10-08T09:00:00", "before", 7, '{"train/loss": 9.0}'])
        for (at, step), logged in sorted(rows.items()):
            time = datetime.fromtimestamp(at, UTC).isoformat()
            base.execute(insert, [*run_id, time, "second", step, json.dumps(logged).encode()])
        if not earlier:
            base.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name TEXT, config TEXT)")
            base.execute("INSERT INTO configs VALUES (1, 'second', ?)", ['{"max_steps": 400, "optimizer": "adam"}'])
    return file


@pytest.mark.parametrize("given", ["project.db", "."])
@pytest.mark.parametrize("earlier", [False, True], ids=["now", "earlier"])
def test_a_database_of_trackio_stands_for_the_run_that_logged_last(tmp_path: Path, given: str, earlier: bool) -> None:
    write_trackio(tmp_path / "project.db", earlier)
    (run,) = read_log(str(tmp_path / given)).runs

    assert_read(run)
    assert run.config.get("max_steps") == (None if earlier else 400)
    assert [path.name for path in tmp_path.iterdir()] == ["project.db"]


def test_a_database_of_trackio_is_read_while_its_run_logs(tmp_path: Path) -> None:
    with closing(sqlite3.connect(write_trackio(tmp_path / "project.db"))) as base:
        base.execute("PRAGMA journal_mode = wal")
        values = json.dumps({"train/loss": float("nan"), "val/loss": "Infinity", "train/global_step": 250})
        base.execute("INSERT INTO metrics VALUES (NULL, 'ab12', '2025-10-09T09:00:00', 'second', 3, ?)", [values])
        base.commit()
        (run,) = read_log(str(tmp_path / "project.db")).runs

    assert run.steps.step[-1] == 250
    assert run.steps.loss[-1] == float("inf")


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "another", "values"])
def test_a_damaged_database_of_trackio_is_refused_with_one_message(tmp_path: Path, damage: str) -> None:
    file = write_trackio(tmp_path / "project.db")
    content = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "overwritten":
        file.write_bytes(b"not a database" * 1000)
    else:
        with closing(sqlite3.connect(file)) as base, base:
            base.execute("DROP TABLE metrics" if damage == "another" else "UPDATE metrics SET metrics = '[1'")

    with pytest.raises(JobError, match=r"^Cannot read .*project\.db as a database of trackio: .+\.$"):
        read_log(str(file))
