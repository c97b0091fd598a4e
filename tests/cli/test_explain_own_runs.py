"""nanoscope explains what nanoscope trained: a real run, taken up again, and one that goes wrong."""

import json
from pathlib import Path

import pytest

from conftest import TINY_MODEL, DatasetFactory
from nanoscope.analysis.analyse import Options, analyse
from nanoscope.analysis.findings import Analysis
from nanoscope.cli import run
from nanoscope.runs.reader import read_log

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
