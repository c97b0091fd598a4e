"""`nanoscope runs`: the list of runs in a terminal."""

import io
import json
import os
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from nanoscope.cli import run
from nanoscope.runs.events import AnyEvent, End, EndReason, Eval, Iter, Resume, Start
from nanoscope.runs.listing import list_runs
from nanoscope.views.runs import print_runs
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language
from written_runs import EventFile, write_events

Capture = pytest.CaptureFixture[str]


def write(
    folder: Path, *, reason: EndReason | None = "finished", best: float = 1.5, age: float = 60, **config: object
) -> None:
    events: list[AnyEvent] = [
        Start(config={"max_iters": 100, "learning_rate": 1e-3, **config}),
        Iter(step=39, loss=2.0, eta_seconds=75.0),
        Eval(step=40, val_loss=best, best=True),
        Eval(step=100, val_loss=best + 0.1),
        *([] if reason is None else [End(reason=reason, step=100)]),
    ]
    write_events(folder, events)
    os.utime(folder / "events.jsonl", (time.time() - age, time.time() - age))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("COLUMNS", "80")
    write(tmp_path / "runs/old", age=90_000, best=1.25, learning_rate=3e-3)
    write(tmp_path / "runs/lr1.0", reason="non_finite", age=7200, best=2.5, learning_rate=1.0)
    write(tmp_path / "runs/sweep/lr=0.01,seed=1", reason="interrupted", age=3600, best=1.75, learning_rate=1e-2)
    write(tmp_path / "runs/now", reason=None, age=30, best=3.0)
    (tmp_path / "runs/notes").mkdir()
    return tmp_path


def listed(capsys: Capture, *words: str) -> list[str]:
    """The names, in order."""
    assert run(["runs", *words, "--json"]) == 0
    return [each["name"] for each in json.loads(capsys.readouterr().out)["runs"]]


def test_the_table_has_the_newest_first_with_state_step_best_time_left_and_age(here: Path, capsys: Capture) -> None:
    assert run(["runs"]) == 0
    table = re.sub(r"3\d s", "30 s", capsys.readouterr().out)  # time passes
    assert table.splitlines() == [
        "run                   state        step  best validation   time left   age",
        "now                   training   39/100           3.0000  1 min 15 s  30 s",
        "sweep/lr=0.01,seed=1  stopped   100/100           1.7500               1 h",
        "lr1.0                 failed    100/100           2.5000               2 h",
        "old                   finished  100/100           1.2500               1 d",
    ]


def test_a_narrow_terminal_gets_fewer_columns_and_a_state_in_color(here: Path) -> None:
    console = Console(file=io.StringIO(), width=62, force_terminal=True, color_system="standard", highlight=False)
    print_runs(list_runs(here / "runs"), [], Page(Language("en"), console))
    assert isinstance(console.file, io.StringIO)
    header, *rows = console.file.getvalue().splitlines()
    assert "age" not in header
    assert "best validation" in header
    assert "\x1b[31mfailed" in rows[2]


def test_runs_are_sorted_and_filtered(here: Path, capsys: Capture) -> None:
    for words, names in (
        (["--sort=name"], ["lr1.0", "now", "old", "sweep/lr=0.01,seed=1"]),
        (["--sort=val"], ["old", "sweep/lr=0.01,seed=1", "lr1.0", "now"]),
        (["--sort=-val"], ["now", "lr1.0", "sweep/lr=0.01,seed=1", "old"]),
        (["--sort=learning_rate"], ["now", "old", "sweep/lr=0.01,seed=1", "lr1.0"]),
        (["--sort=left"], ["now", "sweep/lr=0.01,seed=1", "lr1.0", "old"]),
        (["--sort=-age"], ["old", "lr1.0", "sweep/lr=0.01,seed=1", "now"]),
        (["--filter=state=failed"], ["lr1.0"]),
        (["--filter=state=running"], ["now"]),
        (["--filter=state!=finished", "--filter=val<2.6"], ["sweep/lr=0.01,seed=1", "lr1.0"]),
        (["--filter=learning_rate>=1e-2"], ["sweep/lr=0.01,seed=1", "lr1.0"]),
        (["--filter=learning_rate=0.003"], ["old"]),
        (["--filter=o"], ["now", "old"]),
        (["--filter=lr=0.01"], ["sweep/lr=0.01,seed=1"]),  # a text in a name, although it has an equals sign
        (["--filter=nowhere"], []),
        (["runs/sweep"], ["lr=0.01,seed=1"]),
        (["runs/old"], ["old"]),
    ):
        assert listed(capsys, *words) == names, words


def test_settings_can_be_columns(here: Path, capsys: Capture) -> None:
    assert run(["runs", "--columns=learning_rate,max_iters", "--filter=old"]) == 0
    header, row = (line.split() for line in capsys.readouterr().out.splitlines())
    assert header[5:7] == ["learning_rate", "max_iters"]
    assert row[4:6] == ["0.003", "100"]


def test_a_setting_that_a_resume_changed_has_its_new_value(here: Path, capsys: Capture) -> None:
    EventFile(here / "runs/old").write(Start(first_step=100, config={"learning_rate": 0.5}), Resume(step=100))
    assert run(["runs", "--columns=learning_rate", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {each["name"]: each["settings"]["learning_rate"] for each in runs}["old"] == 0.5


def test_json_is_one_document_with_what_the_table_shows(here: Path, capsys: Capture) -> None:
    assert run(["runs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "nanoscope.runs/1"
    now = document["runs"][0]
    assert now.pop("updated")[:2] == "20"
    assert now == {
        "name": "now", "path": "runs/now", "state": "live", "reason": None, "step": 39, "total_steps": 100,
        "loss": 2.0, "val_loss": 3.1, "best_val_loss": 3.0, "eta_seconds": 75.0, "settings": {},
    }  # fmt: skip


def test_the_list_of_watch_says_the_same(here: Path, capsys: Capture) -> None:
    from nanoscope.views.dashboard.folder import WatchedFolder

    assert run(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    watched = WatchedFolder(here / "runs").listed().values()
    pairs = {"name": "name", "state": "state", "step": "step", "best_val_loss": "best", "eta_seconds": "eta_seconds"}
    assert [[each[key] for key in pairs] for each in listed] == [
        [getattr(each, key) for key in pairs.values()] for each in watched
    ]


def test_without_runs_the_way_to_the_first_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / "empty").mkdir()
    for words, name in ([], "runs"), (["empty"], "empty"):
        assert run(["runs", *words]) == 0
        assert capsys.readouterr().out == f"There are no runs in {name}. Start one: nanoscope train\n"


def test_mistakes_are_answered_in_a_line_or_two(here: Path, capsys: Capture) -> None:
    (here / "file").write_text("", "utf-8")
    for word, message in {
        "nowhere": "nowhere is no directory",
        "file": "nanoscope explain FILE",
        "--sort=vall": "Did you mean val?",
        "--filter=state=fialed": "Did you mean failed?",
        "--filter=lerning_rate>1": "Did you mean learning_rate?",
        "--filter=learning_rate>high": "'high' is not a number",
        "--columns=learnig_rate": "Did you mean learning_rate?",
    }.items():
        assert run(["runs", word]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) <= 3


def test_the_output_is_in_the_language_asked_for(here: Path, capsys: Capture) -> None:
    for language, word in (("ar", "اكتمل"), ("hi", "पूरा")):
        assert run(["runs", "--lang", language]) == 0
        assert word in capsys.readouterr().out


def test_names_of_other_people_cannot_control_the_terminal(here: Path, capsys: Capture) -> None:
    write(here / "runs/\x1b[31mred")
    assert run(["runs"]) == 0
    assert "␛[31mred" in capsys.readouterr().out
