"""A small run of Lightning: 3 epochs of 20 batches, in seconds. Its argument is the folder of its metrics.csv."""

import sys

import pytorch_lightning as lightning
import torch
from pytorch_lightning.loggers import CSVLogger


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.layer(inputs), targets)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        self.log("val_loss", self.loss(batch), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.05)


torch.manual_seed(0)
inputs = torch.randn(320, 8)
data = torch.utils.data.TensorDataset(inputs, inputs[:, :4].argmax(dim=1))
loader = torch.utils.data.DataLoader(data, batch_size=16)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=CSVLogger(sys.argv[1]), log_every_n_steps=5, enable_checkpointing=False
)
trainer.fit(Model(), loader, loader)
