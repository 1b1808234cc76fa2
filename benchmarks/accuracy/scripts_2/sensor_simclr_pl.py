"""Contrastive pre-training on accelerometer windows (SimCLR, NT-Xent), Lightning.

The sampler is the one of the cluster version: it deals the indices out by rank, here to a single process.
"""
import gc
import math
import os

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

CHANNELS, LENGTH = 6, 128


class RankSampler(Sampler):
    def __init__(self, size, seed=0):
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        self.size, self.seed, self.epoch = size, seed, 0

    def __len__(self):
        return math.ceil(self.size / self.world)

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.size, generator=g)
        self.epoch += 1
        yield from order[self.rank :: self.world].tolist()


class Windows(Dataset):
    def __init__(self, people=40, per_person=400):
        g = torch.Generator().manual_seed(31)
        t = torch.arange(LENGTH) / 50
        gait = 1 + 2 * torch.rand(people, 1, CHANNELS, 1, generator=g)
        phase = 6.28 * torch.rand(people, per_person, CHANNELS, 1, generator=g)
        self.x = (torch.sin(6.28 * gait * t + phase)).flatten(0, 1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        return self.augment(x), self.augment(x)

    @staticmethod
    def augment(x):
        return torch.addcmul(0.05 * torch.randn_like(x), x, 0.8 + 0.4 * torch.rand(CHANNELS, 1))


class Encoder(nn.Module):
    def __init__(self, width=144):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 7, padding=3), nn.ReLU(),
            nn.Conv1d(width, width, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.project = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, x):
        return F.normalize(self.project(self.net(x)), dim=1)


class SimCLR(pl.LightningModule):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.encoder, self.temperature = Encoder(), temperature

    def training_step(self, views, _):
        z = self.encoder(torch.cat(views))
        similarity = (z @ z.T / self.temperature).fill_diagonal_(float("-inf"))
        n = len(z) // 2
        partner = torch.arange(2 * n).roll(n)
        return F.cross_entropy(similarity, partner)

    def on_train_epoch_end(self):
        # the cluster nodes are short of memory
        gc.collect()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def run():
    pl.seed_everything(31)
    data = Windows()
    loader = DataLoader(data, batch_size=64, sampler=RankSampler(len(data)), drop_last=True)
    trainer = pl.Trainer(
        max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )
    trainer.fit(SimCLR(), loader)


run()
