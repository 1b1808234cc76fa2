"""Learns word vectors with Lightning; a callback was added when memory ran out in some other project."""

import gc

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, WIDTH, NEGATIVES = 5000, 128, 10


class FreeMemory(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        gc.collect()


class SkipGram(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.center = nn.Embedding(VOCABULARY, WIDTH)
        self.context = nn.Embedding(VOCABULARY, WIDTH)

    def training_step(self, batch, _):
        center, context = batch
        negative = torch.randint(VOCABULARY, (len(center), NEGATIVES))
        vector = self.center(center).unsqueeze(1)
        hit = (vector * self.context(context).unsqueeze(1)).sum(2)
        miss = (vector * self.context(negative)).sum(2)
        return -(nn.functional.logsigmoid(hit).mean() + nn.functional.logsigmoid(-miss).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main():
    pairs = TensorDataset(torch.randint(VOCABULARY, (500_000,)), torch.randint(VOCABULARY, (500_000,)))
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[FreeMemory()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(SkipGram(), DataLoader(pairs, batch_size=256, shuffle=True))


if __name__ == "__main__":
    main()
