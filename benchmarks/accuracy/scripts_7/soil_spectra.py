"""Estimate organic carbon, clay and pH of soil from near-infrared reflectance, with attention over spectral patches."""

import json
import math
import time
from pathlib import Path

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {
    "bands": 1024,
    "patch": 16,
    "width": 96,
    "heads": 4,
    "depth": 3,
    "targets": ("carbon", "clay", "ph"),
    "samples": 8192,
    "batch_size": 64,
    "lr": 1e-3,
    "epochs": 60,
    "journal": "progress.jsonl",
}


def spectral_library(samples: int, bands: int, seed: int = 0) -> TensorDataset:
    """Smooth reflectance curves with absorption dips whose depths follow the properties."""
    noise = torch.Generator().manual_seed(seed)
    properties = torch.randn(samples, 3, generator=noise)
    grid = torch.linspace(350.0, 2500.0, bands)
    slope = torch.rand(samples, 1, generator=noise) * 0.3
    curves = 0.2 + slope * (grid - 350.0) / 2150.0
    for centre, spread, weights in (
        (1414.0, 30.0, (0.1, 0.6, 0.0)),
        (1911.0, 45.0, (0.3, 0.5, 0.2)),
        (2207.0, 25.0, (0.0, 0.8, -0.3)),
        (660.0, 120.0, (0.9, 0.0, 0.1)),
    ):
        depth = 0.05 * (1.5 + properties @ torch.tensor(weights)).clamp(min=0.0)
        curves = curves - depth[:, None] * torch.exp(-0.5 * ((grid - centre) / spread) ** 2)
    curves = curves + 0.004 * torch.randn(samples, bands, generator=noise)
    curves = (curves - curves.mean(dim=1, keepdim=True)) / curves.std(dim=1, keepdim=True)
    return TensorDataset(curves, properties)


class PatchRegressor(nn.Module):
    def __init__(self, bands: int, patch: int, width: int, heads: int, depth: int, targets: int):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(bands // patch, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, targets))

    def forward(self, curves: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(curves.unflatten(1, (-1, self.patch))) + self.position
        return self.head(self.encoder(tokens).mean(dim=1))


class SoilModel(L.LightningModule):
    def __init__(self, config: dict):
        super().__init__()
        self.config = config
        shape = {key: config[key] for key in ("bands", "patch", "width", "heads", "depth")}
        self.net = PatchRegressor(**shape, targets=len(config["targets"]))

    def training_step(self, batch, _index):
        curves, properties = batch
        errors = (self.net(curves) - properties).square().mean(dim=0)
        return {"loss": errors.mean(), "errors": errors.detach()}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.config["lr"], weight_decay=0.05, fused=True)
        total = self.trainer.estimated_stepping_batches
        warm = max(1, total // 20)

        def factor(step: int) -> float:
            return min(1.0, (step + 1) / warm) * 0.5 * (1.0 + math.cos(math.pi * min(step, total) / total))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Journal(L.Callback):
    """One JSON line with the error of each property, for the plot that is looked at next to the run."""

    def __init__(self, path: str, names: tuple[str, ...], every: int = 1):
        self.path = Path(path)
        self.names = names
        self.every = every

    def on_train_start(self, trainer, module):
        self.file = self.path.open("w", buffering=1, encoding="utf-8")
        self.began = time.monotonic()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % self.every:
            return
        row = {"step": trainer.global_step, "seconds": round(time.monotonic() - self.began, 3)}
        row |= dict(zip(self.names, outputs["errors"].tolist()))
        row["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        self.file.write(json.dumps(row) + "\n")

    def on_train_end(self, trainer, module):
        self.file.close()


def main(config: dict) -> None:
    L.seed_everything(11, verbose=False)
    library = spectral_library(config["samples"], config["bands"])
    loader = DataLoader(library, batch_size=config["batch_size"], shuffle=True, drop_last=True)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=config["epochs"],
        callbacks=[Journal(config["journal"], config["targets"])],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        gradient_clip_val=1.0,
    )
    trainer.fit(SoilModel(config), loader)


if __name__ == "__main__":
    main(CONFIG)
