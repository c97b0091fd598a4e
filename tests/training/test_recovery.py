"""What a run does about a loss that is not finite, and about too little memory."""

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nanoscope.data.loader import Batch
from nanoscope.model import Modern
from nanoscope.optim.muon import Muon
from nanoscope.training.engine import Engine
from small_runs import TINY, Folder

pytestmark = pytest.mark.slow


@pytest.fixture
def breaks_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the loss of some iterations NaN."""
    original = Engine.passes

    def set_up(*steps: int) -> None:
        def passes(self: Engine, batches: list[Batch], step: int, *rest: Any, **more: Any) -> torch.Tensor | None:
            total = original(self, batches, step, *rest, **more)
            return total * math.nan if total is not None and step in steps else total

        monkeypatch.setattr(Engine, "passes", passes)

    return set_up


def test_a_rollback_returns_to_the_last_checkpoint_and_skips_the_batch(
    folder: Folder, breaks_at: Callable[..., None]
) -> None:
    folder.train("--out_dir=whole", "--max_iters=30")
    breaks_at(13)
    out = folder.train("--on_nan=rollback", "--max_iters=30")
    assert (
        "not finite at iteration 13: back to iteration 10 without that batch, learning rates × 0.5 (rollback 1 of"
        in out
    )
    (event,) = folder.events(kind="rollback")
    assert (event["step"], event["to"], event["lr_factor"], event["count"]) == (13, 10, 0.5, 1)
    steps = [event["step"] for event in folder.events(kind="iter")]
    assert steps == [*range(13), 10, 11, 12, *range(14, 30)]
    whole = folder.losses("whole")
    first = {event["step"]: event["loss"] for event in folder.events(kind="iter")[:13]}
    assert first == {step: whole[step] for step in range(13)}
    rates = {event["step"]: event["lr"] for event in folder.events(kind="iter")}
    usual = {event["step"]: event["lr"] for event in folder.events("whole", "iter")}
    assert rates[20] == pytest.approx(usual[20] / 2)


def test_a_rollback_before_the_first_evaluation_returns_to_the_beginning(
    folder: Folder, breaks_at: Callable[..., None]
) -> None:
    breaks_at(3)
    folder.train("--on_nan=rollback")
    assert [event["to"] for event in folder.events(kind="rollback")] == [0]
    steps = [event["step"] for event in folder.events(kind="iter")]
    assert steps == [0, 1, 2, 0, 1, 2, *range(4, 20)]


def test_a_run_that_breaks_again_and_again_is_stopped(folder: Folder, breaks_at: Callable[..., None]) -> None:
    breaks_at(12, 13, 14, 15)
    out = folder.train("--on_nan=rollback", status=1)
    assert len(folder.events(kind="rollback")) == 3
    assert "the loss is not finite at iteration 15" in out
    assert folder.events(kind="end")[-1]["reason"] == "non_finite"


def test_without_rollback_a_loss_that_is_not_finite_ends_the_run(
    folder: Folder, breaks_at: Callable[..., None]
) -> None:
    breaks_at(13)
    out = folder.train(status=1)
    assert "The last good checkpoint, step-000010, is intact" in out
    assert folder.events(kind="rollback") == []


def test_a_run_that_rolled_back_is_resumed_exactly(folder: Folder, breaks_at: Callable[..., None]) -> None:
    breaks_at(13)
    common = ["--on_nan=rollback", "--lr_decay_iters=40", "--dropout=0.1"]
    folder.train("--out_dir=whole", *common, "--max_iters=40")
    folder.train("--out_dir=parts", *common, "--max_iters=20")
    folder.run("train", "parts", "--init_from=resume", "--max_iters=40")
    assert folder.losses("parts") == folder.losses("whole")
    assert folder.weights(40, "parts") == folder.weights(40, "whole")


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A device that has memory for only `most` sequences at once."""
    original = Modern.forward

    def set_up(most: int) -> None:
        def forward(self: Modern, tokens: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
            if self.training and len(tokens) > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
            return original(self, tokens, *rest, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(Modern, "forward", forward)

    return set_up


def test_too_little_memory_halves_the_micro_batch_and_leaves_the_tokens_of_an_iteration(
    folder: Folder, small_memory: Callable[[int], None]
) -> None:
    common = ["--batch_size=8", "--gradient_accumulation_steps=2"]
    folder.train("--out_dir=whole", *common)
    small_memory(3)
    out = folder.train(*common)
    assert "out of memory at iteration 0: micro-batches of 2 sequences instead of 8" in out
    events = folder.events(kind="out_of_memory")
    assert [(event["micro_batch_before"], event["micro_batch"]) for event in events] == [(8, 2)]
    assert folder.losses() == pytest.approx(folder.losses("whole"), rel=1e-3)  # rounding apart the same sequences
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=25")  # it knows already
    assert "out of memory" not in out


def test_too_little_memory_for_the_first_compiled_pass_halves_the_micro_batch_and_training_stays_compiled(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    class Compiled(torch.nn.Module):
        def __init__(self, model: torch.nn.Module, **_: object) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            if len(tokens) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
            sizes.append(len(tokens))
            return self.model(tokens, targets)  # type: ignore[no-any-return]

    monkeypatch.setattr(torch, "compile", Compiled)
    out = folder.train("--batch_size=8", "--compile=True")
    assert "torch.compile does not work here" not in out
    events = folder.events(kind="out_of_memory")
    assert [(event["micro_batch_before"], event["micro_batch"]) for event in events] == [(8, 2)]
    assert folder.events(kind="start")[0]["compiled"] is True
    assert sizes[-80:] == [2] * 80  # all 20 iterations
    folder.run("train", "run", "--init_from=resume", "--max_iters=25")  # it knows already
    assert len(folder.events(kind="out_of_memory")) == 1


def test_a_sequence_that_does_not_fit_alone_ends_the_run_with_advice(
    folder: Folder, small_memory: Callable[[int], None]
) -> None:
    small_memory(1)
    folder.train("--batch_size=3")
    small_memory(0)
    out = folder.train("--out_dir=none", status=1)
    assert "out of memory" in out
    assert "Reduce --block_size" in out


def test_too_little_memory_for_the_optimizer_ends_the_run_with_advice_and_keeps_nothing_half_done(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.train("--out_dir=whole")
    with monkeypatch.context() as patch:
        original, calls = Muon.step, itertools.count()

        def step(self: Muon) -> None:
            if next(calls) == 13:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
            original(self)

        patch.setattr(Muon, "step", step)
        out = folder.train(status=1)
    assert "nanoscope: out of memory in the optimizer's step" in out
    assert "reduce --n_layer or --n_embd" in out
    assert [path.name for path in (folder.path / "run/checkpoints").glob("step-*")] == ["step-000010"]
    folder.run("train", "run", "--init_from=resume")
    assert folder.weights(20) == folder.weights(20, "whole")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited through Linux's RLIMIT_AS")
def test_a_run_survives_memory_that_really_runs_out(folder: Folder) -> None:
    """A step of 2048 sequences takes over 1.5 GB; the process may have 0.9 GB more than it has now."""
    code = (
        "import sys, resource, torch\n"
        "from nanoscope import cli\n"
        "from nanoscope.training import launch\n"
        "train = launch.train\n"
        "def limited(*parts):\n"
        "    pages = int(open('/proc/self/statm').read().split()[0])\n"
        "    limit = pages * resource.getpagesize() + 900_000_000\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "    return train(*parts)\n"
        "launch.train = limited\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    words = [*TINY, "--n_layer=1", "--n_embd=128", "--batch_size=2048", "--block_size=64", "--max_iters=1"]
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *words],
        cwd=folder.path, env=folder.environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "out of memory at iteration 0: micro-batches of " in done.stdout
    assert " sequences instead of 2048" in done.stdout
    assert "finished 1 iterations" in done.stdout


def test_a_rollback_is_explained_as_one_run_that_went_back(folder: Folder, breaks_at: Callable[..., None]) -> None:
    breaks_at(13)
    folder.train("--on_nan=rollback", "--max_iters=30")
    found = json.loads(folder.run("explain", "run", "--json"))
    (run,) = found["runs"]
    assert (run["first_step"], run["last_step"], run["finished"]) == (0, 29, True)
    assert run["loss"]["non_finite_from"] is None
    explained = " ".join(folder.run("explain", "run").split())
    assert "At step 13 the loss was not a number: the run went back to step 10" in explained
    assert "resumed" not in explained
