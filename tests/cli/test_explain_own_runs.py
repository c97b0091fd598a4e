"""nanoscope explains what nanoscope trained: a real run, taken up again, and one that goes wrong."""

import json
from pathlib import Path

import pytest

from conftest import TINY_MODEL, DatasetFactory
from nanoscope.analysis.analyse import Options, analyse
from nanoscope.analysis.findings import Analysis
from nanoscope.cli import run
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


def test_a_run_and_its_continuation_are_one_run_whose_shares_are_of_its_whole_time(here, capsys) -> None:
    assert run([*TRAIN, "--out_dir=run", "--max_iters=30"]) == 0
    assert run(["train", "run", "--init_from=resume", "--max_iters=45"]) == 0
    analysis = analysed("run")

    assert (analysis.progress.total_steps, analysis.progress.finished) == (45, True)
    assert analysis.reading.resumed_at == (30,)
    assert {cost.phase for cost in analysis.phase_costs} == {"startup", "evaluation", "checkpoint"}
    assert sum(cost.share for cost in analysis.phase_costs) < 1
    capsys.readouterr()
    assert run(["eta", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eta"]["expected_s"] == 0


def test_a_run_whose_loss_became_infinite_is_told_so_with_the_last_good_checkpoint(here, capsys) -> None:
    assert run([*TRAIN, "--out_dir=run", "--max_iters=20"]) == 0
    wild = ["--learning_rate=1e30", "--decay_lr=False", "--grad_clip=0", "--warmup_iters=0"]
    assert run(["train", "run", "--init_from=resume", "--max_iters=60", *wild]) == 1
    capsys.readouterr()
    assert run(["explain", "run"]) == 0
    text = " ".join(capsys.readouterr().out.split())

    assert "Loss is not a number." in text
    assert "The last good checkpoint is that of step 20." in text
    assert "waiting for the end is no use" in text
    assert "1. Resume from the checkpoint of step 20, the last good one." in text


def test_a_rollback_is_told_as_what_it_was_and_not_as_a_resume(here, capsys) -> None:
    write_run(here / "run", steps=40)
    lines = (here / "run/events.jsonl").read_text("utf-8").splitlines(keepends=True)
    back = json.dumps({"event": "rollback", "t": 1.0, "step": 30, "to": 20, "rollbacks": 1}) + "\n"
    again = [line for line in lines if '"event": "iter"' in line and 20 <= json.loads(line)["step"] < 30]
    begin = next(i for i, line in enumerate(lines) if '"event": "iter"' in line and json.loads(line)["step"] == 30)
    (here / "run/events.jsonl").write_text("".join([*lines[:begin], back, *again, *lines[begin:]]), "utf-8")
    analysis = analysed("run")

    assert analysis.reading.resumed_at == ()
    assert (analysis.reading.steps_logged, analysis.progress.last_step) == (40, 40)
    assert run(["explain", "run"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "At step 30 the loss was not a number: the run went back to step 20" in text
    assert "At step 20 the loss jumped to 3.5000" in text
