"""Denoising autoencoder for counts of single-cell RNA, with cells simulated from overlapping programs."""

from dataclasses import dataclass, field
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class CellOptions:
    cells: int = 4096
    genes: int = 3600
    programs: int = 24
    batch_size: int = 64


@dataclass
class NetOptions:
    hidden: int = 1200
    code: int = 192
    dropped: float = 0.25
    lr: float = 4e-4
    weight_decay: float = 1e-3


@dataclass
class RunOptions:
    seed: int = 21
    epochs: int = 15
    folder: Path = Path("denoiser")
    keep_every: int = 8
    cells: CellOptions = field(default_factory=CellOptions)
    net: NetOptions = field(default_factory=NetOptions)


def simulate(options: CellOptions, seed: int) -> Tensor:
    """Log-normalised counts: each cell mixes a few programs, each program raises some of the genes."""
    generator = torch.Generator().manual_seed(seed)
    programs = torch.randn(options.programs, options.genes, generator=generator).clamp(min=0.5) - 0.5
    weights = torch.rand(options.cells, options.programs, generator=generator) ** 4
    depth = torch.exp(0.4 * torch.randn(options.cells, 1, generator=generator))
    counts = torch.poisson(depth * (weights @ programs), generator=generator)
    normal = torch.log1p(1e4 * counts / counts.sum(dim=1, keepdim=True).clamp(min=1))
    return normal / normal.std()


class CellData(L.LightningDataModule):
    def __init__(self, options: CellOptions, seed: int):
        super().__init__()
        self.options = options
        self.seed = seed

    def setup(self, stage: str) -> None:
        self.expression = simulate(self.options, self.seed)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(
            TensorDataset(self.expression), batch_size=self.options.batch_size, shuffle=True, drop_last=True
        )


def dense(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(before, after), nn.LayerNorm(after), nn.ELU())


class Denoiser(L.LightningModule):
    def __init__(self, genes: int, options: NetOptions):
        super().__init__()
        self.options = options
        self.encoder = nn.Sequential(dense(genes, options.hidden), dense(options.hidden, options.code))
        self.decoder = nn.Sequential(dense(options.code, options.hidden), nn.Linear(options.hidden, genes))

    def forward(self, expression: Tensor) -> Tensor:
        return self.decoder(self.encoder(expression))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (expression,) = batch
        hidden = torch.rand_like(expression) < self.options.dropped
        restored = self(expression.masked_fill(hidden, 0.0))
        error = (restored - expression).square()
        loss = error.mean() + (error * hidden).sum() / hidden.sum()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(
            self.parameters(), lr=self.options.lr, weight_decay=self.options.weight_decay, fused=True
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.trainer.estimated_stepping_batches)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class EpochReport(Callback):
    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loss = trainer.callback_metrics["loss"].item()
        print(f"epoch {trainer.current_epoch + 1:2d}  loss {loss:.4f}", flush=True)


def build_trainer(options: RunOptions) -> L.Trainer:
    keeper = ModelCheckpoint(
        dirpath=options.folder,
        filename="denoiser-{step}",
        every_n_train_steps=options.keep_every,
    )
    return L.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        callbacks=[keeper, EpochReport()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


def main(options: RunOptions) -> None:
    L.seed_everything(options.seed, verbose=False)
    data = CellData(options.cells, options.seed)
    model = Denoiser(options.cells.genes, options.net)
    build_trainer(options).fit(model, datamodule=data)


if __name__ == "__main__":
    main(RunOptions())
