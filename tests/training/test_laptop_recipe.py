"""nanoGPT's README command for a laptop, with nanoGPT's own kind of config file, to the end."""

import re
from pathlib import Path

import pytest

from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import find_dataset
from nanoscope.errors import JobError
from small_runs import Folder

# The assignments of nanoGPT's config/train_shakespeare_char.py; the facts are its, the file is ours.
CONFIG = """
out_dir = 'out-shakespeare-char'
eval_interval = 250
eval_iters = 200
log_interval = 10
always_save_checkpoint = False
wandb_log = False
wandb_project = 'shakespeare-char'
wandb_run_name = 'mini-gpt'
dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 256
n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2
learning_rate = 1e-3
max_iters = 5000
lr_decay_iters = 5000
min_lr = 1e-4
beta2 = 0.99
warmup_iters = 100
"""
FLAGS = [
    "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12",
    "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
]  # fmt: skip


@pytest.mark.slow
def test_nanogpts_laptop_command_reaches_nanogpts_loss(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NANOSCOPE_CACHE", str(shared_cache))
    try:
        find_dataset("shakespeare_char")
    except JobError as error:
        pytest.skip(f"{sorted(CORPORA)[-1]} is not to be had here: {error}")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/train_shakespeare_char.py").write_text(CONFIG, encoding="utf-8")
    folder = Folder(tmp_path)
    out = folder.process("train", "config/train_shakespeare_char.py", *FLAGS, timeout=900)
    losses = {int(step): float(val) for step, val in re.findall(r"^step (\d+): .*val loss ([\d.]+)", out, re.M)}
    assert list(losses) == list(range(0, 2001, 250))
    assert losses[2000] == pytest.approx(1.89, abs=0.03)
    assert "iter 1999:" in out
    assert "iter 2000:" not in out
    (end,) = folder.events("out-shakespeare-char", "end")
    assert sum(end["phases"].values()) == pytest.approx(end["wall_seconds"], rel=0.01)
