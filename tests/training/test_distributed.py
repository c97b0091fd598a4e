"""Two real processes under torchrun, over gloo."""

import subprocess
import sys
from datetime import timedelta

import pytest
import torch.distributed as dist

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


def torchrun_broken(folder: Folder, *words: str) -> subprocess.CompletedProcess[str]:
    """Two processes without a typed folder. The lines before the first flag replace `Engine.passes`."""
    body = [f"    {word}\n" for word in words if not word.startswith("--")]
    script = folder.path / "broken.py"
    script.write_text(
        "import math, sys, torch\n"
        "from nanoscope import cli\n"
        "from nanoscope.training.engine import Engine\n"
        "original = Engine.passes\n"
        "def passes(self, batches, step, *rest, **more):\n" + "".join(body) + "Engine.passes = passes\n"
        "sys.exit(cli.run(sys.argv[1:]))\n",
        "utf-8",
    )
    flags = [word for word in (*TINY, *words) if word.startswith("--") and not word.startswith("--out_dir")]
    return subprocess.run(
        [sys.executable, *TORCHRUN, str(script), "train", *flags],
        cwd=folder.path, env=folder.environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_a_process_that_runs_out_of_memory_says_what_to_do_and_the_other_is_no_bug(folder: Folder) -> None:
    done = torchrun_broken(
        folder,
        "if step == 3 and self.machine.processes.rank == 1:",
        "    raise torch.OutOfMemoryError('CUDA out of memory')",
        "return original(self, batches, step, *rest, **more)",
    )
    assert done.returncode == 1
    assert "out of memory at iteration 3\n  Use a --batch_size smaller than 4." in done.stderr
    assert "bug in nanoscope" not in done.stderr


def test_a_rollback_of_two_processes_needs_no_typed_folder_and_a_bad_loss_in_one_of_them_is_enough(
    folder: Folder,
) -> None:
    done = torchrun_broken(
        folder,
        "found = original(self, batches, step, *rest, **more)",
        "return found * math.nan if step == 13 and self.machine.processes.rank == 1 else found",
        "--on_nan=rollback",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (folder.path / "runs").iterdir()
    assert [event["step"] for event in folder.events(str(run), "rollback")] == [13]
    assert folder.events(str(run), "end")[-1]["reason"] == "finished"


def test_waiting_for_the_first_process_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may prepare data for hours, while exchanging numbers has a time-out."""
    waits: list[timedelta] = []
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(dist, "new_group", lambda *_, timeout, **__: timeout)
    monkeypatch.setattr(dist, "all_reduce", lambda *_: waits.append(timedelta(minutes=30)))
    monkeypatch.setattr(dist, "barrier", waits.append)
    processes = Processes(rank=1, world=2)
    processes.connect("auto", "cpu")
    processes.wait()
    assert min(waits) > timedelta(days=7)
