"""Where a bench works: a temporary folder with the data and a copy of nanoGPT, and the processes it starts there."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from nanoscope.data.corpora import SHAKESPEARE, obtain
from nanoscope.data.prepare import prepare
from nanoscope.errors import JobError, UsageError

NANOGPT_FILES = ("model.py", "train.py", "configurator.py", "config/train_shakespeare_char.py",
                 "data/shakespeare_char/prepare.py")  # fmt: skip
GPT2_VOCAB_SIZE = 50304  # GPT-2's 50257 as nanoGPT pads them
TASK_MINUTES = 20


class Workspace:
    """What rows need is made when the first of them needs it."""

    def __init__(self, folder: Path, checkout: Path | None) -> None:
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
        """A dataset that both read, with GPT-2's vocabulary: random ids, for speed does not depend on them."""
        folder = self.folder / "data" / "gpt2-ids"
        folder.mkdir(parents=True)
        ids = np.random.default_rng(1).integers(0, 50257, 200_000).astype(np.uint16)
        for split in ("train", "val"):
            ids.tofile(folder / f"{split}.bin")
        return folder

    @cached_property
    def nanogpt(self) -> Path:
        """A copy of the user's checkout, so that nothing is written into that, with its data prepared."""
        assert self.checkout is not None
        left_out = shutil.ignore_patterns(".git", "__pycache__", "out*", "*.bin", "*.ipynb", "wandb")
        copy = Path(shutil.copytree(self.checkout, self.folder / "nanogpt", ignore=left_out))
        prepare_nanogpt(self, copy / "data" / "shakespeare_char", self.text.read_bytes())
        return copy

    def ours(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The result of a task of nanoscope.bench.ours."""
        return self._task("ours", task, arguments, self.folder)

    def theirs(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The result of a task of nanoscope.bench.theirs."""
        return self._task("theirs", task, arguments, self.nanogpt)

    def _task(self, side: str, task: str, arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
        name = f"{'nanoscope' if side == 'ours' else 'nanoGPT'}'s {task}"
        printed, _ = self.command(["-m", f"nanoscope.bench.{side}", task, json.dumps(arguments)], folder, name)
        result: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return result

    def command(
        self, words: Sequence[str], folder: Path, name: str, minutes: float = TASK_MINUTES
    ) -> tuple[str, float]:
        """Run Python with these words; what it printed, and its seconds from start to end. It never outlives us."""
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
        )  # fmt: skip
        try:
            printed, complaints = process.communicate(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            raise JobError(f"{name} was ended after {minutes:g} minutes: it should not take that long") from None
        finally:
            _end(process)
        seconds = time.perf_counter() - began
        if process.returncode:
            reason = next(reversed(complaints.strip().splitlines()), f"exit status {process.returncode}")
            raise JobError(f"{name} failed: {reason[:300]}")
        return printed, seconds


def check_nanogpt(folder: Path) -> None:
    """Whether the folder is a checkout, by the files that are used of it."""
    for name in NANOGPT_FILES:
        if not (folder / name).is_file():
            raise UsageError(
                f"{folder} is no checkout of nanoGPT: it has no {name}\n"
                "Get one: git clone https://github.com/karpathy/nanoGPT"
            )


def prepare_nanogpt(workspace: Workspace, folder: Path, text: bytes) -> float:
    """Run nanoGPT's prepare.py in its folder on this text; its seconds."""
    (folder / "input.txt").write_bytes(text)
    if find_spec("requests") is None:  # it imports it, but only needs it to download what is already there
        (folder / "requests.py").touch()
    return workspace.command([str(folder / "prepare.py")], folder, "nanoGPT's prepare.py")[1]


def _environment() -> dict[str, str]:
    """Ours, with this nanoscope to be imported from any folder, and bytecode kept, as it is for everybody."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "utf-8"}


def _end(process: "subprocess.Popen[str]") -> None:
    """End a child that still runs, and its own children with it."""
    if process.poll() is not None:
        return
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        family = []
    process.kill()
    for member in family:
        try:
            member.kill()
        except psutil.Error:
            pass
    process.communicate()
