"""Predicts stress marks of verses with Lightning; the compiled tagger meets a new width in nearly every batch."""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LETTERS, BATCH = 40, 24


class Verses(Dataset):
    """Batches of verses of one width each."""

    def __len__(self):
        return 400

    def __getitem__(self, number):
        draw = torch.Generator().manual_seed(number)
        width = int(torch.randint(24, 96, (1,), generator=draw))
        letters = torch.randint(1, LETTERS, (BATCH, width), generator=draw)
        return letters, (letters < 8).float()


class Tagger(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embed = nn.Embedding(LETTERS, width)
        self.convolve = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(4))
        self.mark = nn.Conv1d(width, 1, 1)

    def forward(self, letters):
        hidden = self.embed(letters).transpose(1, 2)
        for layer in self.convolve:
            hidden = hidden + torch.relu(layer(hidden))
        return self.mark(hidden).squeeze(1)


class Stress(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.tagger = torch.compile(Tagger(), backend="aot_eager", dynamic=False)

    def training_step(self, batch, _):
        letters, stressed = batch
        return nn.functional.binary_cross_entropy_with_logits(self.tagger(letters), stressed)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Stress(), DataLoader(Verses(), batch_size=None, shuffle=True))
