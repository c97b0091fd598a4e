"""Weights & Biases and TensorBoard, by their real packages: what they are given is what events.jsonl has."""

import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.messages import Text
from nanoscope.runs.events import AnyEvent, Iter, Note, Start
from nanoscope.training import tracker_process, trackers
from nanoscope.training.reporter import EventsFile, Reporter, Sink
from nanoscope.training.run_folder import RunFolder
from nanoscope.training.trackers import Trackers, check_trackers
from small_runs import TINY, Folder

ITERATION = {
    "train/batch_loss": "loss", "lr": "lr", "grad_norm": "grad_norm", "tokens_per_second": "tokens_per_second",
    "step_seconds": "seconds",
}  # fmt: skip
EVALUATION = {
    "train/loss": "train_loss", "val/loss": "val_loss", "train/loss_stderr": "train_stderr",
    "val/loss_stderr": "val_stderr",
}  # fmt: skip

Point = tuple[str, int, float]


def logged(folder: Folder) -> list[Point]:
    """Every number of events.jsonl that trackers show: name, step, value."""
    points = []
    for event in folder.events():
        names = {"iter": ITERATION, "eval": EVALUATION}.get(str(event["event"]), {})
        points += [(name, event["step"], event[field]) for name, field in names.items() if event[field] is not None]
        if event["event"] == "iter" and event["mfu"] is not None:
            points.append(("mfu", event["step"], 100 * event["mfu"]))  # type: ignore[operator]
    return points  # type: ignore[return-value]


def approximately(points: list[Point]) -> list[tuple[str, int, Any]]:
    return [(name, step, pytest.approx(value, rel=1e-5)) for name, step, value in sorted(points)]


# --- Weights & Biases --------------------------------------------------------------------------------------------


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file: blocks of 32 KB in which a record may be broken into pieces, after 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, position, record = file.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or its last piece
            found = wandb_internal_pb2.Record()
            found.ParseFromString(record)
            yield found
            record = b""


class WandbRun:
    """What one session logged, read back from its file."""

    def __init__(self, file: Path) -> None:
        records = {kind: [] for kind in ("run", "history", "summary", "metric", "exit")}
        for record in wandb_records(file):
            kind = record.WhichOneof("record_type")
            if kind in records:
                records[kind].append(getattr(record, kind))
        (self.run,), (self.exit,) = records["run"], records["exit"]
        self.metrics = records["metric"]
        self.config = {item.key: json.loads(item.value_json) for item in self.run.config.update}
        rows = [_values(row.item) for row in records["history"]]
        self.points = [
            (name, row["iter"], value)
            for row in rows
            for name, value in row.items()
            if name[0] != "_" != name != "iter"
        ]
        self.summary = {key: value for item in records["summary"] for key, value in _values(item.update).items()}


def _values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def wandb_runs(folder: Folder) -> list[WandbRun]:
    return [WandbRun(file) for file in sorted((folder.path / "run/wandb").glob("offline-run-*/*.wandb"))]


@pytest.fixture
def wandb_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Without anybody's login."""
    pytest.importorskip("wandb")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(folder.path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(folder.path))
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, wandb_folder: Folder) -> Folder:
    monkeypatch.setenv("WANDB_MODE", "offline")
    return wandb_folder


@pytest.mark.slow
def test_wandb_has_every_number_of_the_run_and_its_settings(offline: Folder) -> None:
    out = offline.train("--wandb_log=True")
    (found,) = wandb_runs(offline)
    assert sorted(found.points) == approximately(logged(offline))
    assert {step for name, step, _ in found.points if name == "train/batch_loss"} == set(range(20))
    assert (found.run.project, found.run.display_name, found.exit.exit_code) == ("nanoscope", "run", 0)
    assert (found.config["n_embd"], found.config["max_iters"], found.config["device"]) == (32, 20, "cpu")
    assert {(metric.name, metric.glob_name, metric.step_metric) for metric in found.metrics} >= {("", "*", "iter")}
    (end,) = offline.events(kind="end")
    assert found.summary["best_val_loss"] == pytest.approx(end["best_val_loss"])
    assert found.summary["best_step"] == end["best_step"]
    assert "wandb:" not in out
    assert not (offline.path / "wandb").exists()


@pytest.mark.slow
def test_a_resumed_run_is_the_same_run_in_wandb(offline: Folder) -> None:
    offline.train("--wandb_log=True", "--wandb_project=mine", "--wandb_run_name=first")
    offline.run("train", "run", "--init_from=resume", "--max_iters=30")
    first, second = wandb_runs(offline)
    kept = json.loads((offline.path / "run/trackers.json").read_text("utf-8"))["wandb"]["id"]
    assert (first.run.run_id, second.run.run_id) == (kept, kept)
    assert (second.run.project, second.run.display_name) == ("mine", "first")
    assert sorted(first.points + second.points) == approximately(logged(offline))


@pytest.mark.slow
def test_without_a_login_wandb_logs_offline_and_says_so_once(wandb_folder: Folder) -> None:
    out = wandb_folder.train("--wandb_log=True")
    (warning,) = [line for line in out.splitlines() if line.startswith("warning")]
    assert warning.startswith("warning: wandb logs offline: ")
    assert "wandb login && wandb sync run/wandb/offline-run-" in warning
    (found,) = wandb_runs(wandb_folder)
    assert sorted(found.points) == approximately(logged(wandb_folder))


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_does_not_end_the_run(
    wandb_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody_listens.getsockname()[1]}"
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", address)
        monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
        out = wandb_folder.train("--wandb_log=True")
    assert "finished 20 iterations" in out
    assert out.count("warning: wandb ") == 1
    assert "Traceback" not in out


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a terminal's Ctrl-C is sent to a process group")
def test_ctrl_c_in_a_terminal_stops_the_run_and_wandb_gets_all_of_it(offline: Folder) -> None:
    process = offline.start("train", *TINY, "--wandb_log=True", "--max_iters=100000", start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 10:"):
            os.killpg(process.pid, signal.SIGINT)
            break
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    (found,) = wandb_runs(offline)
    assert sorted(found.points) == approximately(logged(offline))
    assert found.exit.exit_code == 1


# --- TensorBoard -------------------------------------------------------------------------------------------------


@pytest.fixture
def tensorboard_folder(folder: Folder) -> Folder:
    pytest.importorskip("tensorboardX")
    pytest.importorskip("tensorboard")
    return folder


def tensorboard_events(folder: Folder) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder.path / "run/tensorboard"), size_guidance={"scalars": 0}).Reload()


def tensorboard_points(folder: Folder) -> list[Point]:
    events = tensorboard_events(folder)
    tags = [tag for tag in events.Tags()["scalars"] if tag != "best_val_loss"]
    return [(tag, event.step, event.value) for tag in tags for event in events.Scalars(tag)]


@pytest.mark.slow
def test_tensorboard_has_every_number_of_the_run(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train("--tensorboard=True")
    assert sorted(tensorboard_points(tensorboard_folder)) == approximately(logged(tensorboard_folder))
    assert "_hparams_/session_start_info" in tensorboard_events(tensorboard_folder).PluginTagToContent("hparams")
    assert "format nanoscope" in tensorboard_folder.run("explain", "run")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_tensorboard_shows_each_step_once_after_a_crash_and_a_resume(tensorboard_folder: Folder) -> None:
    words = ("--tensorboard=True", "--max_iters=100000")
    status, _ = tensorboard_folder.interrupt_after("iter 15:", *words, number=signal.SIGKILL)
    assert status == -signal.SIGKILL
    tensorboard_folder.run("train", "run", "--init_from=resume", "--max_iters=40")
    expected = {(name, step): value for name, step, value in logged(tensorboard_folder)}  # the later one of two
    points = [(name, step, value) for (name, step), value in expected.items()]
    assert sorted(tensorboard_points(tensorboard_folder)) == approximately(points)


@pytest.mark.slow
def test_a_tracker_that_is_turned_on_later_gets_the_whole_history(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train()
    tensorboard_folder.run("train", "run", "--init_from=resume", "--max_iters=25", "--tensorboard=True")
    assert sorted(tensorboard_points(tensorboard_folder)) == approximately(logged(tensorboard_folder))


@pytest.mark.slow
def test_overwriting_a_run_removes_what_trackers_left(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train("--tensorboard=True")
    tensorboard_folder.train("--overwrite=True")
    assert not (tensorboard_folder.path / "run/tensorboard").exists()
    assert not (tensorboard_folder.path / "run/trackers.json").exists()


# --- what goes wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "package"), [("wandb_log", "wandb"), ("tensorboard", "tensorboardX")])
def test_a_missing_package_is_reported_before_anything_is_created(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, setting: str, package: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    out = folder.train(f"--{setting}=True", status=2)
    assert f"pip install {package}, or --{setting}=False" in out
    assert not (folder.path / "run").exists()


def test_a_folder_with_the_name_of_a_package_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(UsageError, match="pip install wandb"):
        check_trackers(TrainConfig(wandb_log=True))


class Notes(Sink):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def write(self, event: AnyEvent, lines: Any) -> None:
        if isinstance(event, Note):
            self.seen.append(f"{event.level}: {event.text}")


def test_a_tracker_that_hangs_is_waited_for_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "WAIT_SECONDS", 2.1)
    sink, notes = Trackers(tmp_path, ["wandb"]), Notes()
    sink._command = ["-c", "import time; time.sleep(600)"]
    reporter = Reporter(RunFolder(tmp_path), notes, sink)
    reporter.emit(Start(run="run"))
    reporter.close()
    assert sink._process is not None
    sink._process.kill()
    sink._process.wait()
    assert notes.seen[-1] == "warning: wandb did not finish in time; continuing in the background"


def test_a_tracker_process_that_dies_is_reported(tmp_path: Path) -> None:
    sink, notes = Trackers(tmp_path, ["wandb"]), Notes()
    sink._command = ["-c", "raise SystemExit(3)"]
    reporter = Reporter(RunFolder(tmp_path), notes, sink)
    reporter.emit(Start(run="run"))
    reporter.close()
    assert notes.seen[-1] == "warning: wandb failed with exit status 3"


def test_a_tracker_that_cannot_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "missing"))
    sink, notes = Trackers(tmp_path, ["wandb"]), Notes()
    reporter = Reporter(RunFolder(tmp_path), notes, sink)
    reporter.emit(Start(run="run"))
    reporter.advance(1)
    reporter.close()
    (warning,) = notes.seen
    assert warning.startswith("warning: can't start wandb: ")


def test_a_tracker_that_raises_is_left_out_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keeps(tracker_process.Tracker):
        name = "keeps"
        steps: list[int] = []  # noqa: RUF012

        def write(self, event: AnyEvent) -> None:
            self.steps.append(getattr(event, "step", -1))

        def close(self) -> None: ...

    class Raises(Keeps):
        name, way_out = "raises", Text("Leave it.")

        def write(self, event: AnyEvent) -> None:
            if isinstance(event, Iter):
                raise ConnectionError("no route to host")

    monkeypatch.setattr(tracker_process, "TRACKERS", {"raises": Raises, "keeps": Keeps})
    events = EventsFile(tmp_path / "events.jsonl")
    for event in (Start(run="run"), Iter(step=0, loss=2.0), Iter(step=1, loss=1.9)):
        events.write(event)
    said: list[str] = []
    over = threading.Event()
    over.set()
    follower = tracker_process.Follower(tmp_path, Start(run="run"), lambda text, level="": said.append(text))
    follower.follow(["raises", "keeps"], over)
    assert Keeps.steps == [-1, 0, 1]
    assert said == ["raises failed, training continues without it: no route to host. Leave it."]


def test_trackers_leave_a_run_alone_that_took_the_place_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"

    class Moves(tracker_process.Tracker):
        name = "moves"

        def write(self, event: AnyEvent) -> None:
            run.rename(moved)
            run.mkdir()
            EventsFile(run / "events.jsonl").write(Start(run="another"))

        def close(self) -> None: ...

    monkeypatch.setattr(tracker_process, "TRACKERS", {"moves": Moves})
    monkeypatch.setattr(tracker_process.Follower, "_write_state", lambda self: None)
    EventsFile(run / "events.jsonl").write(Start(run="run"))
    said: list[str] = []
    follower = tracker_process.Follower(run, Start(run="run"), lambda text, level="": said.append(text))
    follower.follow(["moves"], threading.Event())
    assert said == ["the run's folder was moved: moves gets the rest when it is resumed"]
    assert [path.name for path in run.iterdir()] == ["events.jsonl"]


@pytest.mark.parametrize("text", ["", "[]", '{"keeps": 5}', '{"wandb": {"read": "x", "id": 7}}', "[" * 100_000])
def test_a_damaged_trackers_json_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "trackers.json").write_text(text, "utf-8")
    (tmp_path / "events.jsonl").write_text("", "utf-8")
    state = tracker_process._read_state(tmp_path)
    assert tracker_process.Tracker(tmp_path, Start(), state.get("wandb", {}), print).read == 0
