"""A folder that looks like a checkout of nanoGPT: a model and scripts of a few lines each."""

from pathlib import Path

import pytest

MODEL = """
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class GPTConfig:
    vocab_size: int; block_size: int; n_layer: int; n_head: int; n_embd: int; dropout: float; bias: bool

class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)
        print("number of parameters: few")
    def forward(self, tokens, targets=None):
        logits = self.table(tokens)
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        return torch.optim.AdamW(self.parameters(), lr=learning_rate)
    def generate(self, tokens, count, temperature, top_k):
        return tokens.repeat(1, count + 1)
"""

PREPARE = """
import requests
from pathlib import Path
import numpy as np
folder = Path(__file__).parent
ids = np.frombuffer((folder / "input.txt").read_bytes(), np.uint8).astype(np.uint16) % 65
ids[:-1000].tofile(folder / "train.bin")
ids[-1000:].tofile(folder / "val.bin")
"""

FILES = {
    "model.py": MODEL,
    "train.py": "import sys; sys.exit('RuntimeError: no GPU')",
    "configurator.py": "",
    "config/train_shakespeare_char.py": "",
    "data/shakespeare_char/prepare.py": PREPARE,
}


@pytest.fixture
def fake_nanogpt(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "their nanoGPT" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path / "their nanoGPT"
