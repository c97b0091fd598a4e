import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nanoscope.data.dataset import mapped
from nanoscope.errors import JobError
from nanoscope.hardware.device import DeviceConfig
from nanoscope.messages import joined
from nanoscope.training.distributed import Processes
from nanoscope.training.evaluate import Evaluator, evaluation_starts
from nanoscope.training.machine import Machine

VOCAB = 8


class NextIsSame(nn.Module):
    """Bets a fixed logit on the next token being the same as this one."""

    def forward(self, tokens: Tensor) -> Tensor:
        return 2.0 * nn.functional.one_hot(tokens, VOCAB).float()


def make_evaluator(
    path: Path, tokens: np.ndarray, windows: int | None, block_size: int = 4, batch: int | Literal["auto"] = "auto"
) -> Evaluator:
    tokens.astype("<u2").tofile(path / "tokens.bin")
    split = mapped([path / "tokens.bin"], VOCAB)
    return Evaluator(
        {"train": split, "val": split}, block_size=block_size, windows=windows, vocab_size=VOCAB,
        machine=Machine(DeviceConfig("cpu", "a CPU", "float32", False, joined("", ())), Processes()), batch=batch,
    )  # fmt: skip


def test_windows_are_the_same_every_time_spread_evenly_and_do_not_overlap() -> None:
    starts = evaluation_starts(1001, 10, 7)
    assert len(starts) == 7
    assert (np.diff(starts) >= 10).all()
    assert starts[0] == 0
    assert starts[-1] > 800
    assert (starts == evaluation_starts(1001, 10, 7)).all()


def test_full_means_every_window_once() -> None:
    assert evaluation_starts(1001, 10, None).tolist() == list(range(0, 1000, 10))
    assert evaluation_starts(1001, 10, 5000).tolist() == list(range(0, 1000, 10))


def test_the_estimate_is_the_mean_over_windows_with_its_standard_error(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCAB, 401)
    found = make_evaluator(tmp_path, tokens, None).evaluate(NextIsSame())
    assert found is not None
    right, wrong = -math.log(math.exp(2) / (math.exp(2) + 7)), -math.log(1 / (math.exp(2) + 7))
    each = np.where(tokens[1:] == tokens[:-1], right, wrong).reshape(100, 4).mean(1)
    assert len(found["val"].losses) == 100
    assert found["val"].loss == pytest.approx(each.mean(), rel=1e-6)
    assert found["val"].stderr == pytest.approx(each.std(ddof=1) / 10, rel=1e-5)


def test_eval_batch_size_changes_the_number_of_batches_and_not_the_estimate(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCAB, 401)
    usual, small = make_evaluator(tmp_path, tokens, None), make_evaluator(tmp_path, tokens, None, batch=7)
    assert (usual.batches, small.batches) == (2, 2 * 15)
    assert small.evaluate(NextIsSame()) == usual.evaluate(NextIsSame())


def test_evaluation_leaves_the_model_in_training_mode_and_takes_no_random_numbers(tmp_path: Path) -> None:
    model = NextIsSame().train()
    before = torch.get_rng_state()
    make_evaluator(tmp_path, np.arange(100) % VOCAB, 5).evaluate(model)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_estimate_does_not_depend_on_how_many_windows_are_read_at_once(tmp_path: Path, batch: int) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCAB, 401)
    evaluator = make_evaluator(tmp_path, tokens, 33)
    expected = evaluator.evaluate(NextIsSame())
    evaluator.batch = batch
    found = evaluator.evaluate(NextIsSame())
    assert expected is not None
    assert found is not None
    assert found["val"].loss == pytest.approx(expected["val"].loss, rel=1e-6)
    assert len(found["val"].losses) == 33


def test_an_abandoned_evaluation_returns_nothing(tmp_path: Path) -> None:
    assert (
        make_evaluator(tmp_path, np.arange(100) % VOCAB, 5).evaluate(NextIsSame(), abandoned=lambda done, total: True)
        is None
    )


def test_a_split_shorter_than_a_window_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"block_size=16 .* 10 tokens\n.*--block_size=9"):
        make_evaluator(tmp_path, np.arange(10) % VOCAB, 5, block_size=16)


class Narrow(NextIsSame):
    """On a device that has memory for only a few sequences at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.seen = most, 0

    def forward(self, tokens: Tensor) -> Tensor:
        if len(tokens) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        self.seen += len(tokens)
        return super().forward(tokens)


def test_where_memory_does_not_suffice_an_evaluation_goes_on_in_smaller_batches(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCAB, 401)
    evaluator, narrow = make_evaluator(tmp_path, tokens, None), Narrow(10)
    whole = evaluator.evaluate(NextIsSame())
    assert evaluator.evaluate(narrow) == whole
    assert narrow.seen == 200
    assert evaluator.batch <= 10
    with pytest.raises(JobError, match="out of memory with one sequence"):
        evaluator.evaluate(Narrow(0))
