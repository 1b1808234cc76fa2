"""Dwell time from online target statistics: mean log seconds of hashed feature pairs feed a small network."""

import itertools
import math
from dataclasses import dataclass, field

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CARDINALITIES = (
    (900_000, 450_000, 220_000, 120_000, 80_000, 60_000, 40_000, 30_000)
    + (24_000, 18_000, 12_000, 9_000, 7_000, 5_000, 4_000, 3_000)
    + (2_400, 1_800, 1_200, 900)
)


@dataclass
class StreamSettings:
    events: int = 8192 * 48
    batch: int = 8192
    seed: int = 29


@dataclass
class ModelSettings:
    table_bits: int = 25
    hidden: int = 48
    prior_shows: float = 20.0
    prior_mean: float = 3.0
    half_life: float = 400.0
    lr: float = 2e-3


@dataclass
class RunSettings:
    epochs: int = 40
    reproducible: bool = True
    clip: float = 1.0
    stream: StreamSettings = field(default_factory=StreamSettings)
    model: ModelSettings = field(default_factory=ModelSettings)

    def trainer(self) -> L.Trainer:
        return L.Trainer(
            max_epochs=self.epochs,
            accelerator="cpu",
            deterministic=self.reproducible,
            gradient_clip_val=self.clip,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )


class EventStream(Dataset):
    """Whole batches of categorical events, in the order of their time."""

    def __init__(self, settings: StreamSettings):
        draw = torch.Generator().manual_seed(settings.seed)
        columns = [torch.randint(high, (settings.events,), generator=draw) for high in CARDINALITIES]
        taste = [torch.randn(high, generator=draw) * 0.4 for high in CARDINALITIES]
        score = sum(values[column] for column, values in zip(columns, taste, strict=True))
        noise = torch.randn(settings.events, generator=draw)
        self.dwell = (3.0 + score + 0.5 * noise).split(settings.batch)
        self.fields = torch.stack(columns, dim=1).split(settings.batch)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.fields[at], self.dwell[at]


class TargetStatistics(nn.Module):
    """Time-decayed shows and log seconds of each hashed pair of fields."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        slots = 1 << settings.table_bits
        self.mask = slots - 1
        left, right = zip(*itertools.combinations(range(len(CARDINALITIES)), 2), strict=True)
        self.pairs = len(left)
        self.register_buffer("left", torch.tensor(left))
        self.register_buffer("right", torch.tensor(right))
        self.register_buffer("salt", torch.arange(self.pairs) * 7_368_787)
        self.register_buffer("shows", torch.zeros(slots))
        self.register_buffer("dwell", torch.zeros(slots))
        self.register_buffer("touched", torch.zeros(slots))
        self.register_buffer("now", torch.zeros(()))

    def slots(self, fields: torch.Tensor) -> torch.Tensor:
        mixed = fields[:, self.left] * 2_654_435_761
        mixed += fields[:, self.right] * 805_459_861
        mixed += self.salt
        return mixed.bitwise_and_(self.mask)

    @torch.no_grad()
    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """The smoothed mean of each pair as it was before this batch."""
        fade = (self.touched[slots] - self.now).mul_(math.log(2) / self.settings.half_life).exp_()
        shown = self.shows[slots].mul_(fade).add_(self.settings.prior_shows)
        total = self.dwell[slots].mul_(fade).add_(self.settings.prior_shows * self.settings.prior_mean)
        return total.div_(shown)

    @torch.no_grad()
    def write(self, slots: torch.Tensor, dwell: torch.Tensor) -> None:
        ones = torch.ones((), dtype=self.shows.dtype)
        self.shows.index_put_((slots,), ones, accumulate=True)
        self.dwell.index_put_((slots,), dwell[:, None], accumulate=True)
        self.now += 1
        self.touched.index_put_((slots,), self.now)


class DwellModel(L.LightningModule):
    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        self.statistics = TargetStatistics(settings)
        pairs = self.statistics.pairs
        self.head = nn.Sequential(
            nn.BatchNorm1d(pairs),
            nn.Linear(pairs, settings.hidden),
            nn.GELU(),
            nn.Linear(settings.hidden, 1),
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        fields, dwell = batch
        slots = self.statistics.slots(fields)
        guess = self.head(self.statistics.read(slots)).squeeze(1)
        self.statistics.write(slots, dwell)
        return nn.functional.mse_loss(guess, dwell)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.head.parameters(), lr=self.settings.lr, weight_decay=1e-4, fused=True)


def main(settings: RunSettings) -> None:
    L.seed_everything(settings.stream.seed, verbose=False)
    loader = DataLoader(EventStream(settings.stream), batch_size=None, shuffle=False, num_workers=0)
    model = DwellModel(settings.model)
    settings.trainer().fit(model, loader)
    print("slots in use:", int((model.statistics.shows > 0).sum()))


if __name__ == "__main__":
    main(RunSettings())
