"""Next-basket recommender: bags of bought items -> MLP -> sampled candidates (Lightning)."""
import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS = 3000
BAG = 30
CANDIDATES = 64


class Baskets(Dataset):
    """Draws the negatives of each basket anew, by popularity and without those that were bought."""

    def __init__(self, customers: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        taste = rng.integers(0, ITEMS, size=(customers, 1))
        self.bought = (taste + rng.integers(0, 120, size=(customers, BAG + 1))) % ITEMS
        popularity = 1.0 / np.arange(1, ITEMS + 1) ** 0.5
        self.cumulative = np.cumsum(popularity / popularity.sum())

    def __len__(self) -> int:
        return len(self.bought)

    def __getitem__(self, row: int):
        basket = self.bought[row]
        drawn = np.searchsorted(self.cumulative, np.random.rand(2 * CANDIDATES)).clip(max=ITEMS - 1)
        negatives = drawn[~np.isin(drawn, basket)][: CANDIDATES - 1]
        candidates = np.resize(np.concatenate([basket[-1:], negatives]), CANDIDATES)
        return {"bag": torch.from_numpy(basket[:-1]), "candidates": torch.from_numpy(candidates)}


class BasketDataModule(L.LightningDataModule):
    def __init__(self, batch_size: int = 256, num_workers: int = 1):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        self.train = Baskets(60_000)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(
            self.train,
            batch_size=self.hparams.batch_size,
            num_workers=self.hparams.num_workers,
            persistent_workers=self.hparams.num_workers > 0,
            shuffle=True,
            drop_last=True,
        )


class Recommender(L.LightningModule):
    def __init__(self, dim: int = 128, width: int = 1536):
        super().__init__()
        self.bag = nn.EmbeddingBag(ITEMS, dim, mode="mean")
        self.items = nn.Embedding(ITEMS, dim)
        self.tower = nn.Sequential(
            nn.Linear(dim, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, dim),
        )

    def training_step(self, batch, batch_idx):
        user = self.tower(self.bag(batch["bag"]))
        scores = torch.einsum("bd,bcd->bc", user, self.items(batch["candidates"]))
        target = torch.zeros(len(scores), dtype=torch.long)
        loss = nn.functional.cross_entropy(scores, target)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main():
    L.seed_everything(8)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=5, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Recommender(), datamodule=BasketDataModule())


if __name__ == "__main__":
    main()
