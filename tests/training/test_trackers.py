"""Weights & Biases and TensorBoard, by their real packages: what they are given is what events.jsonl has."""

import importlib.util
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.runs.events import AnyEvent, Start
from nanoscope.training import trackers
from nanoscope.training.trackers import Wandb, requested, wandb_id
from small_runs import TINY, TORCHRUN, Folder

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
        if event["event"] == "eval" and event["best"]:
            points.append(("best_val_loss", event["step"], event["val_loss"]))
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
        records = {kind: [] for kind in ("run", "history", "summary", "exit")}
        for record in wandb_records(file):
            kind = record.WhichOneof("record_type")
            if kind in records:
                records[kind].append(getattr(record, kind))
        (self.run,), (self.exit,) = records["run"], records["exit"]
        self.config = {item.key: json.loads(item.value_json) for item in self.run.config.update}
        rows = [_values(row.item) for row in records["history"]]
        self.points = [
            (name, row["_step"], value) for row in rows for name, value in row.items() if not name.startswith("_")
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
    (end,) = offline.events(kind="end")
    assert found.summary["best_val_loss"] == pytest.approx(end["best_val_loss"], rel=1e-5)
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
def test_without_a_login_the_run_goes_on_without_wandb_and_says_so_once(wandb_folder: Folder) -> None:
    out = wandb_folder.train("--wandb_log=True")
    (warning,) = [line for line in out.splitlines() if line.startswith("warning")]
    assert warning.startswith("warning: wandb failed, training continues without it: ")
    assert "finished 20 iterations" in out


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
    return [(tag, event.step, event.value) for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]


@pytest.mark.slow
def test_tensorboard_has_every_number_of_the_run(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train("--tensorboard=True")
    assert sorted(tensorboard_points(tensorboard_folder)) == approximately(logged(tensorboard_folder))
    assert "format nanoscope" in tensorboard_folder.run("explain", "run")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_tensorboard_shows_each_step_once_after_a_crash_and_a_resume(tensorboard_folder: Folder) -> None:
    words = ("--tensorboard=True", "--max_iters=100000")
    status, _ = tensorboard_folder.interrupt_after("iter 15:", *words, number=signal.SIGKILL)
    assert status == -signal.SIGKILL
    tensorboard_folder.run("train", "run", "--init_from=resume", "--max_iters=40")
    (resumed,) = tensorboard_folder.events(kind="resume")
    expected = {(name, step): value for name, step, value in logged(tensorboard_folder)}  # the later one of two
    found = [point for point in tensorboard_points(tensorboard_folder) if point[1] != resumed["step"]]
    points = [(name, step, value) for (name, step), value in expected.items() if step != resumed["step"]]
    assert sorted(found) == approximately(points)


@pytest.mark.slow
def test_tensorboard_keeps_the_evaluation_that_a_resumed_run_begins_with(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train("--tensorboard=True")
    tensorboard_folder.run("train", "run", "--init_from=resume", "--max_iters=30")
    assert sorted(tensorboard_points(tensorboard_folder)) == approximately(logged(tensorboard_folder))


@pytest.mark.slow
def test_overwriting_a_run_removes_what_trackers_left(tensorboard_folder: Folder) -> None:
    tensorboard_folder.train("--tensorboard=True")
    (tensorboard_folder.path / "run/trackers.json").touch()
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
        requested(TrainConfig(wandb_log=True))


class Broken:
    """A package in place of wandb."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.file = folder, folder.path / "packages/wandb.py"
        self.file.parent.mkdir()
        folder.extra["PYTHONPATH"] = str(self.file.parent)

    def write(self, init: str = "return Run()", log: str = "pass", finish: str = "pass", first: str = "") -> None:
        self.file.write_text(
            f"""
import atexit, sys, threading, time
from nanoscope.training import trackers
from nanoscope.training.lock import RunLock
from nanoscope.training.reporter import EventsFile, Reporter, Terminal
from nanoscope.training.run_folder import RunFolder
trackers.WAIT_SECONDS = 1.0
run, Settings = None, dict
def hang(): threading.Event().wait()
{first}
class Run:
    url, summary = None, {{}}
    def log(self, numbers, step):
        {log}
    def finish(self, exit_code): {finish}
def setup(settings): pass
def teardown(): pass
def init(**options): {init}
""",
            "utf-8",
        )

    def train(self, *words: str) -> str:
        out = self.folder.process("train", *TINY, "--wandb_log=True", *words)
        assert "finished 20 iterations" in out
        assert len(self.folder.events(kind="iter")) == 20
        return out


@pytest.fixture
def broken(folder: Folder) -> Broken:
    return Broken(folder)


HANGS = {
    "the import": {"first": "hang()"},
    "the start": {"init": "hang()"},
    "an event": {"log": "hang()"},
    "the end": {"finish": "hang()"},
    "its exit hook too": {"first": "atexit.register(hang)", "finish": "hang()"},
    "every number is slow": {"log": "time.sleep(0.5)"},
}
FAILS = {
    "the import": {"first": "raise ImportError('no protobuf')"},
    "the start": {"init": "raise OSError('no protobuf')"},
    "the start, and its exit hook hangs": {"first": "atexit.register(hang)", "init": "raise OSError('no protobuf')"},
    "an event": {"log": "if step == 9: raise ConnectionError('no protobuf')"},
    "the program is told to exit": {"log": "sys.exit('no protobuf')"},
    "the end": {"finish": "raise OSError('no protobuf')"},
}


@pytest.mark.slow
@pytest.mark.parametrize("where", HANGS)
def test_a_tracker_that_hangs_is_waited_for_only_at_the_end_and_not_for_long(broken: Broken, where: str) -> None:
    broken.write(**HANGS[where])
    out = broken.train()
    said = [line for line in out.splitlines() if "wandb" in line]
    assert said == ["warning: wandb did not finish in time; events.jsonl has every number"]
    assert out.index("finished 20 iterations") < out.index("did not finish in time")


@pytest.mark.slow
@pytest.mark.parametrize("where", FAILS)
def test_a_tracker_that_fails_is_left_out_with_one_warning(broken: Broken, where: str) -> None:
    broken.write(**FAILS[where])
    said = [line for line in broken.train().splitlines() if "wandb" in line]
    assert said == [
        "warning: wandb failed, training continues without it: no protobuf. Turn it off with: --wandb_log=False"
    ]


@pytest.mark.slow
def test_a_tracker_that_hangs_holds_up_no_other(broken: Broken) -> None:
    pytest.importorskip("tensorboardX")
    broken.write(init="hang()")
    broken.train("--tensorboard=True")
    assert sorted(tensorboard_points(broken.folder)) == approximately(logged(broken.folder))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_with_a_tracker_that_hangs_stops_and_saves_as_any_other(broken: Broken, number: int) -> None:
    broken.write(init="hang()")
    status, out = broken.folder.interrupt_after("iter 15:", "--wandb_log=True", "--max_iters=100000", number=number)
    assert status == 128 + number, out
    (end,) = broken.folder.events(kind="end")
    assert end["saved_step"] == end["step"]
    assert not (broken.folder.path / "run/lock.json").exists()


@pytest.mark.slow
def test_only_the_first_of_several_processes_has_trackers(broken: Broken) -> None:
    broken.write(init="open('opened', 'a').write('once\\n'); return Run()")
    broken.folder.process("train", *TINY, "--wandb_log=True", module=TORCHRUN)
    assert (broken.folder.path / "opened").read_text("utf-8") == "once\n"


class FakeWandb(Wandb):
    """Takes events without the package."""

    def follow(self, start: Start, events: Iterable[AnyEvent]) -> None:
        wandb_id(self.folder)
        self.taken = list(events)


def test_a_hanging_tracker_does_not_fill_the_memory_and_never_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(FakeWandb):
        def follow(self, start: Start, events: Iterable[AnyEvent]) -> None:
            threading.Event().wait()

    monkeypatch.setattr(trackers, "MOST_WAITING", 10)
    tracker = Hanging(tmp_path)
    for _ in range(100):
        tracker.write(Start())
    assert tracker._queue.qsize() <= 10


@pytest.mark.parametrize("text", ["", "[]", '{"wandb": 5}', '{"wandb": {"read": "x"}}', "[" * 100_000])
def test_a_damaged_trackers_json_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "trackers.json").write_text(text, "utf-8")
    chosen = wandb_id(tmp_path)
    assert re.fullmatch("[0-9a-f]{8}", chosen)
    assert chosen == json.loads((tmp_path / "trackers.json").read_text("utf-8"))["wandb"]["id"]
