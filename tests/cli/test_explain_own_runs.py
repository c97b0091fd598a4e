"""nanoscope explains its own runs: a real one that was resumed, and one that failed."""

import json
from pathlib import Path

import pytest

from conftest import TINY_MODEL, DatasetFactory
from nanoscope.cli import run
from nanoscope.findings.analyse import Analysis, Options, analyse
from nanoscope.runs.events import Iter, Rollback, decode, encode
from nanoscope.runs.reader import read_log
from written_runs import write_run

TRAIN = ("train", "--dataset=data/song", *TINY_MODEL, "--device=cpu", "--eval_interval=10", "--log_interval=5")


@pytest.fixture
def here(tmp_path: Path, small_dataset: DatasetFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_dataset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    return tmp_path


def analysed(folder: str) -> Analysis:
    log = read_log(folder)
    (only,) = log.runs
    return analyse(only, Options(), log)


def test_a_resumed_run_is_one_run_and_its_phases_are_shares_of_its_whole_time(here, capsys) -> None:
    assert run([*TRAIN, "--out_dir=run", "--max_iters=30"]) == 0
    assert run(["train", "run", "--init_from=resume", "--max_iters=45"]) == 0
    analysis = analysed("run")

    assert (analysis.progress.total_steps, analysis.progress.finished) == (45, True)
    assert analysis.summary.resumed_at == (30,)
    assert {cost.phase for cost in analysis.phase_costs} == {"startup", "evaluation", "checkpoint"}
    assert sum(cost.share for cost in analysis.phase_costs) < 1
    capsys.readouterr()
    assert run(["eta", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eta"]["expected_s"] == 0


def test_an_infinite_loss_is_reported_with_the_last_good_checkpoint(here, capsys) -> None:
    assert run([*TRAIN, "--out_dir=run", "--max_iters=20"]) == 0
    wild = ["--learning_rate=1e30", "--decay_lr=False", "--grad_clip=0", "--warmup_iters=0"]
    assert run(["train", "run", "--init_from=resume", "--max_iters=60", *wild]) == 1
    capsys.readouterr()
    assert run(["explain", "run"]) == 0
    text = " ".join(capsys.readouterr().out.split())

    assert "Training broke down: NaN." in text
    assert "The last checkpoint before that is from step 20." in text
    assert "The time remaining is not estimated" in text
    assert "1. Resume from the checkpoint at step 20." in text


def test_a_rollback_is_not_reported_as_a_resume(here, capsys) -> None:
    write_run(here / "run", steps=40)
    lines = (here / "run/events.jsonl").read_bytes().splitlines(keepends=True)
    events = [decode(line) for line in lines]
    again = [
        line for line, event in zip(lines, events, strict=True) if isinstance(event, Iter) and 20 <= event.step < 30
    ]
    begin = next(i for i, event in enumerate(events) if isinstance(event, Iter) and event.step == 30)
    back = encode(Rollback(t=1.0, step=30, to=20, count=1)).encode()
    (here / "run/events.jsonl").write_bytes(b"".join([*lines[:begin], back, *again, *lines[begin:]]))
    analysis = analysed("run")

    assert analysis.summary.resumed_at == ()
    assert (analysis.summary.steps_logged, analysis.progress.last_step) == (40, 40)
    assert run(["explain", "run"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "At step 30 the loss was not a number: the run went back to step 20" in text
    assert "At step 20 the loss jumped to 3.5000" in text


@pytest.mark.parametrize("command", [["explain"], ["explain", "--json"], ["eta"], ["report"], ["compare", "run"]])
def test_a_run_of_a_newer_nanoscope_is_refused_with_the_reason(here, capsys, command: list[str]) -> None:
    file = write_run(here / "run", steps=40) / "events.jsonl"
    file.write_text(file.read_text("utf-8").replace('"version":1', '"version":2', 1), "utf-8")
    assert run([*command, "run"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nanoscope: this run was written by a newer nanoscope (events version 2;")
    assert "pip install --upgrade nanoscope" in said
    assert len(said.splitlines()) <= 3
