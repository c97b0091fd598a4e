"""A small run of the Hugging Face Trainer: 60 steps, in seconds. Its argument is the folder of its checkpoints."""

import sys

import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.layer(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


torch.manual_seed(0)
inputs = torch.randn(320, 8)
data = [{"inputs": row, "labels": row[:4].argmax()} for row in inputs]
settings = TrainingArguments(
    sys.argv[1], max_steps=60, per_device_train_batch_size=16, logging_steps=5, eval_strategy="steps", eval_steps=20,
    save_steps=30, learning_rate=0.05, report_to=[], use_cpu=True, remove_unused_columns=False,
)  # fmt: skip
Trainer(Model(), settings, train_dataset=data, eval_dataset=data[:64]).train()
