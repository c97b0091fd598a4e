"""Files as nanoGPT writes them: a trained ckpt.pt with its optimizer, and the folder of a dataset."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nanoscope.model import GPT, ModelConfig

TEXT = "to be or not to be, that is the question\n" * 200
ALPHABET = "".join(sorted(set(TEXT)))
SHAPE = {"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 8, "bias": False, "vocab_size": len(ALPHABET)}
SETTINGS = {
    "out_dir": "out", "eval_interval": 5, "log_interval": 1, "eval_iters": 2, "eval_only": False, "dataset": "hamlet",
    "always_save_checkpoint": True, "init_from": "scratch", "gradient_accumulation_steps": 1, "batch_size": 4,
    "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 16, "dropout": 0.0, "bias": False, "learning_rate": 3e-3,
    "max_iters": 30, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.99, "grad_clip": 1.0, "decay_lr": True,
    "warmup_iters": 2, "lr_decay_iters": 30, "min_lr": 3e-4, "backend": "nccl", "device": "cuda", "dtype": "bfloat16",
    "compile": True, "wandb_log": False, "wandb_project": "owt", "wandb_run_name": "gpt2",
}  # fmt: skip


def write_dataset(folder: Path, text: str = TEXT) -> Path:
    """What data/shakespeare_char/prepare.py writes."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = np.array([ALPHABET.index(character) for character in text], np.uint16)
    ids[: len(ids) * 9 // 10].tofile(folder / "train.bin")
    ids[len(ids) * 9 // 10 :].tofile(folder / "val.bin")
    meta = {
        "vocab_size": len(ALPHABET),
        "itos": dict(enumerate(ALPHABET)),
        "stoi": {c: i for i, c in enumerate(ALPHABET)},
    }
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))
    return folder


def trained(steps: int = 20) -> tuple[GPT, torch.optim.Optimizer]:
    """A model trained for a few steps by AdamW, whose two groups are those of nanoGPT: matrices first."""
    torch.manual_seed(1)
    model = GPT(ModelConfig(**SHAPE, recipe="classic"))  # type: ignore[arg-type]
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.99))
    ids = torch.tensor([ALPHABET.index(character) for character in TEXT])
    for step in range(steps):
        starts = range(step, step + 16)
        model(
            torch.stack([ids[i : i + 8] for i in starts]), torch.stack([ids[i + 1 : i + 9] for i in starts])
        ).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def write_checkpoint(folder: Path, *, steps: int = 20, prefix: str = "_orig_mod.", **changes: Any) -> GPT:
    """Write folder/ckpt.pt as nanoGPT's train.py does, by default of a compiled model; the model that is in it."""
    model, optimizer = trained(steps)
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "model": {prefix + name: tensor for name, tensor in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "model_args": SHAPE | {"dropout": 0.0},
        "iter_num": steps,
        "best_val_loss": torch.tensor(2.5),
        "config": SETTINGS,
    }
    torch.save(content | changes, folder / "ckpt.pt")
    return model


@torch.no_grad()
def loss_of(model: GPT) -> float:
    """The loss on the validation split, in windows of 8."""
    ids = torch.tensor([ALPHABET.index(character) for character in TEXT[len(TEXT) * 9 // 10 :]])
    windows = ids[: (len(ids) - 1) // 8 * 8].view(-1, 8), ids[1 : (len(ids) - 1) // 8 * 8 + 1].view(-1, 8)
    return float(model.eval()(*windows))
