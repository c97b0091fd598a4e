"""Where the comparison runs: a temporary folder with the data, a copy of nanoGPT and the processes started there."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import nanoscope
from nanoscope.data.corpora import SHAKESPEARE, obtain
from nanoscope.data.prepare import prepare
from nanoscope.errors import JobError, UsageError

NANOGPT_FILES = ("model.py", "train.py", "configurator.py", "config/train_shakespeare_char.py",
                 "data/shakespeare_char/prepare.py")  # fmt: skip
README = [
    "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12",
    "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
]  # fmt: skip
"""The flags of the command for CPUs in nanoGPT's README."""
GPT2_VOCAB_SIZE = 50304  # GPT-2's 50257 as nanoGPT pads them
TASK_MINUTES = 20


class Workspace:
    """Data and copies are made when the first row needs them."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder, self.checkout = folder, checkout

    @cached_property
    def text(self) -> Path:
        return obtain(SHAKESPEARE)

    @cached_property
    def characters(self) -> Path:
        """The text as `nanoscope train` finds it in this folder."""
        return prepare([self.text], self.folder / "data" / "shakespeare-char", tokenizer="char")

    @cached_property
    def gpt2_ids(self) -> Path:
        """A dataset that both can read, with GPT-2's vocabulary: random ids, since speed doesn't depend on them."""
        folder = self.folder / "data" / "gpt2-ids"
        folder.mkdir(parents=True)
        ids = np.random.default_rng(1).integers(0, 50257, 200_000).astype(np.uint16)
        for split in ("train", "val"):
            ids.tofile(folder / f"{split}.bin")
        return folder

    @cached_property
    def nanogpt(self) -> Path:
        """A copy of the user's checkout, which stays as it is, with its data prepared."""
        left_out = shutil.ignore_patterns(".git", "__pycache__", "out*", "*.bin", "*.ipynb", "wandb")
        copy = Path(shutil.copytree(self.checkout, self.folder / "nanogpt", ignore=left_out))
        prepare_nanogpt(self, copy / "data" / "shakespeare_char", self.text.read_bytes())
        return copy

    def ours(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The result of a task of benchmarks.nanogpt.ours."""
        return self._task("ours", task, arguments, self.folder)

    def theirs(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The result of a task of benchmarks.nanogpt.theirs."""
        return self._task("theirs", task, arguments, self.nanogpt)

    def _task(self, side: str, task: str, arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
        name = f"{'nanoscope' if side == 'ours' else 'nanoGPT'}'s {task}"
        printed, _ = self.command(["-m", f"benchmarks.nanogpt.{side}", task, json.dumps(arguments)], folder, name)
        result: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return result

    def command(
        self, words: Sequence[str], folder: Path, name: str, minutes: float = TASK_MINUTES
    ) -> tuple[str, float]:
        """Run Python with these arguments; what it printed, and how many seconds it took. It never outlives us."""
        before = _descendants()
        began = time.perf_counter()
        try:
            process = subprocess.Popen(
                [sys.executable, *words], cwd=folder, env=_environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
            )  # fmt: skip
            printed, complaints = process.communicate(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            raise JobError(f"{name} timed out after {minutes:g} minutes") from None
        finally:
            _kill(_descendants() - before)  # also if Ctrl-C comes while Popen is at work
        seconds = time.perf_counter() - began
        if process.returncode:
            reason = next(reversed(complaints.strip().splitlines()), f"exit status {process.returncode}")
            raise JobError(f"{name} failed: {reason[:300]}")
        return printed, seconds


def check_nanogpt(folder: Path) -> None:
    """UsageError unless the folder has the files of nanoGPT that are used here."""
    for name in NANOGPT_FILES:
        if not (folder / name).is_file():
            raise UsageError(
                f"{folder} is not a checkout of nanoGPT: it has no {name}\n"
                "Get one with: git clone https://github.com/karpathy/nanoGPT"
            )


def prepare_nanogpt(workspace: Workspace, folder: Path, text: bytes) -> float:
    """Run nanoGPT's prepare.py in its folder on this text; its seconds."""
    (folder / "input.txt").write_bytes(text)
    if find_spec("requests") is None:  # it imports it, but needs it only to download what is already there
        (folder / "requests.py").touch()
    return workspace.command([str(folder / "prepare.py")], folder, "nanoGPT's prepare.py")[1]


def _environment() -> dict[str, str]:
    """Ours, so that children can import this nanoscope and this package from any folder, and cache bytecode."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    paths = [str(Path(__file__).parents[2]), str(Path(nanoscope.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "utf-8"}


def _descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _kill(processes: set[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(processes))
