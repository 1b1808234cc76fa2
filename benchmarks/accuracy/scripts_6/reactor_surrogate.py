"""Surrogate of a stirred reactor: from feed and jacket settings to the concentration profile over one shift."""

import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SPECIES = 6
TIMES = 40
SETTINGS = 24


def simulate(runs: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Explicit Euler over a random first- and second-order reaction network, all runs at once."""
    draw = torch.Generator().manual_seed(seed)
    settings = torch.rand(runs, SETTINGS, generator=draw)
    rates = torch.rand(SPECIES, SPECIES, generator=draw) * 0.6
    mixing = torch.randn(SETTINGS, SPECIES, generator=draw) / SETTINGS**0.5
    heat = torch.exp(0.5 * torch.tanh(settings @ mixing))
    state = settings[:, :SPECIES].clone()
    profile = []
    for _ in range(TIMES):
        made = (state * heat) @ rates
        used = state * heat * rates.sum(dim=1) + 0.2 * state * state.roll(1, dims=1)
        state = (state + 0.05 * (made - used + 0.1 * settings[:, SPECIES : 2 * SPECIES])).clamp(0.0, 4.0)
        profile.append(state)
    return settings - 0.5, torch.stack(profile, dim=1).flatten(1)


class ReactorData(L.LightningDataModule):
    def __init__(self, runs: int, batch: int, seed: int) -> None:
        super().__init__()
        self.runs, self.batch, self.seed = runs, batch, seed

    def setup(self, stage: str | None = None) -> None:
        settings, profile = simulate(self.runs, self.seed)
        profile = (profile - profile.mean(dim=0)) / (profile.std(dim=0) + 1e-3)
        whole = TensorDataset(settings, profile)
        split = torch.Generator().manual_seed(self.seed)
        self.train_part, self.held_out = random_split(whole, [0.9, 0.1], generator=split)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_part, batch_size=self.batch, shuffle=True, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.held_out, batch_size=512)


class Residual(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Surrogate(L.LightningModule):
    def __init__(self, width: int, depth: int, lr: float, decay: float, dropout: float = 0.05) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(SETTINGS, width),
            *(Residual(width, dropout) for _ in range(depth)),
            nn.LayerNorm(width),
            nn.Linear(width, TIMES * SPECIES),
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        settings, profile = batch
        return nn.functional.mse_loss(self.net(settings), profile)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        settings, profile = batch
        self.log("val_error", nn.functional.l1_loss(self.net(settings), profile), batch_size=len(settings))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        matrices = [weight for weight in self.net.parameters() if weight.ndim > 1]
        vectors = [weight for weight in self.net.parameters() if weight.ndim == 1]
        groups = [
            {"params": matrices, "weight_decay": self.hparams.decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.hparams.lr, betas=(0.9, 0.99))


class Report(Callback):
    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        error = trainer.callback_metrics["val_error"].item()
        print(f"epoch {trainer.current_epoch}: error on held-out runs {error:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    L.seed_everything(args.seed, verbose=False)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=args.epochs,
        check_val_every_n_epoch=2,
        callbacks=[Report()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    model = Surrogate(args.width, args.depth, args.lr, args.decay)
    trainer.fit(model, datamodule=ReactorData(args.runs, args.batch, args.seed))


if __name__ == "__main__":
    main()
