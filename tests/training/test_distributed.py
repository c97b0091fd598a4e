"""Two real processes under torchrun, over gloo."""

import pytest

from nanoscope.training.distributed import Processes
from small_runs import TINY, TORCHRUN, Folder

pytestmark = pytest.mark.slow


def torchrun(folder: Folder, *words: str, status: int = 0) -> str:
    return folder.process("train", *TINY, *words, module=TORCHRUN, status=status)


@pytest.mark.parametrize("batch", [["--batch_size=4", "--gradient_accumulation_steps=2"], ["--batch_size=7"]])
def test_two_processes_train_on_the_tokens_of_one_and_reach_the_same_losses(folder: Folder, batch: list[str]) -> None:
    batch = [*batch, "--dtype=float32"]
    folder.train("--out_dir=alone", *batch)
    out = torchrun(folder, "--out_dir=together", *batch)
    assert out.count("iter 19:") == 1  # only the first process speaks
    assert folder.losses("together") == pytest.approx(folder.losses("alone"), rel=2e-4)
    ours, theirs = folder.evaluations("together"), folder.evaluations("alone")
    for step in (10, 20):
        assert ours[step] == pytest.approx(theirs[step], rel=2e-4)
    (start,) = folder.events("together", "start")
    assert start["processes"] == 2


def test_a_run_of_two_processes_resumes_exactly(folder: Folder) -> None:
    torchrun(folder, "--out_dir=whole", "--dropout=0.1")
    torchrun(folder, "--out_dir=parts", "--dropout=0.1", "--lr_decay_iters=20", "--max_iters=10")
    torchrun(folder, "--out_dir=parts", "--init_from=resume", "--max_iters=20")
    assert folder.losses("parts") == folder.losses("whole")
    assert folder.weights(20, "parts") == folder.weights(20, "whole")


def test_alone_there_is_nothing_to_ask_the_others() -> None:
    alone = Processes()
    assert alone.any(True, False) == [True, False]
    assert alone.sum([1.5, 2.0]) == [1.5, 2.0]
