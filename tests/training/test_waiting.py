"""How threads wait for each other changes the speed of a run, and nothing else."""

from collections.abc import Iterator
from itertools import count

import pytest
import torch

from nanoscope.hardware.waiting import Waiting
from nanoscope.messages import Text
from tests.small_runs import Folder

TWO = "--threads=2"


@pytest.mark.slow
def test_switching_at_every_step_changes_no_bit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.train(TWO, "--waiting=spin", "--n_embd=64", "--batch_size=16")
    expected = folder.weights(20)
    steps = count()

    def check(waiting: Waiting) -> list[Text]:
        waiting._switch.set(sleeping=next(steps) % 2 == 0)
        return []

    monkeypatch.setattr(Waiting, "check", check)
    folder.train(TWO, "--waiting=sleep", "--n_embd=64", "--batch_size=16", "--out_dir=switched")
    assert next(steps) == 20
    assert folder.weights(20, "switched") == expected


def test_a_run_uses_as_many_threads_as_it_is_told_and_leaves_torch_as_it_was(folder: Folder) -> None:
    before = torch.get_num_threads()
    assert ", 3 threads" in folder.train("--threads=3", "--max_iters=1")
    assert torch.get_num_threads() == before


def test_what_the_machine_does_is_told_in_the_runs_events(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    said: Iterator[list[Text]] = iter([[], [], [Text("the machine has become busy")]])
    monkeypatch.setattr(Waiting, "check", lambda _: next(said, []))
    folder.train("--max_iters=5")
    assert [event["text"] for event in folder.events(kind="note")] == ["the machine has become busy"]
