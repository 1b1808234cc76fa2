"""Day-ahead forecast of feeder load: a GRU reads a week of hourly readings and gives quantiles of the next day."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import EvalPrediction, Trainer, TrainingArguments, set_seed

HISTORY, AHEAD, CHANNELS = 168, 24, 6
QUANTILES = (0.1, 0.5, 0.9)


def readings(feeders: int, hours: int, seed: int) -> np.ndarray:
    """Load, temperature and calendar of each feeder, as float32 of the shape (feeders, hours, CHANNELS)."""
    rng = np.random.default_rng(seed)
    hour = np.arange(hours)
    season = np.sin(2 * np.pi * hour / 8760)
    temperature = 10 + 12 * season + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    temperature = temperature + rng.normal(0, 1.5, (feeders, hours))
    base = rng.uniform(0.5, 2.0, (feeders, 1))
    daily = 1 + 0.4 * np.sin(2 * np.pi * (hour - 7) / 24) + 0.15 * np.sin(4 * np.pi * hour / 24)
    is_weekend = (hour // 24) % 7 >= 5
    load = base * daily * np.where(is_weekend, 0.8, 1.0) + 0.02 * np.maximum(18 - temperature, 0)
    load = load + rng.normal(0, 0.05, (feeders, hours))
    clock = [np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24), season, is_weekend.astype(float)]
    calendar = np.broadcast_to(np.stack(clock, axis=-1), (feeders, hours, 4))
    table = np.concatenate([load[..., None], (temperature[..., None] - 10) / 10, calendar], axis=-1)
    return table.astype(np.float32)


class Windows(Dataset):
    """Windows cut out of the table; a whole batch is cut by one indexing."""

    def __init__(self, table: np.ndarray, stride: int) -> None:
        feeders, hours, _ = table.shape
        self.table = torch.from_numpy(table)
        starts = torch.arange(0, hours - HISTORY - AHEAD, stride)
        self.feeder = torch.arange(feeders).repeat_interleave(len(starts))
        self.start = starts.repeat(feeders)

    def __len__(self) -> int:
        return len(self.start)

    def __getitems__(self, indices: list[int]) -> dict[str, torch.Tensor]:
        feeder = self.feeder[indices, None]
        hours = self.start[indices, None] + torch.arange(HISTORY + AHEAD)
        cut = self.table[feeder, hours]
        return {"history": cut[:, :HISTORY], "labels": cut[:, HISTORY:, 0]}


@dataclass
class ForecasterConfig:
    hidden: int = 64
    dropout: float = 0.1


class Forecaster(nn.Module):
    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.encoder = nn.GRU(CHANNELS, config.hidden, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(config.hidden, 2 * config.hidden),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(2 * config.hidden, AHEAD * len(QUANTILES)),
        )
        self.register_buffer("levels", torch.tensor(QUANTILES))

    def forward(self, history: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        _, last = self.encoder(history)
        spread = self.head(last[0]).unflatten(1, (AHEAD, len(QUANTILES)))
        forecast = spread + history[:, -AHEAD:, :1]
        error = labels[..., None] - forecast
        loss = torch.maximum(self.levels * error, (self.levels - 1) * error).mean()
        return {"loss": loss, "forecast": forecast}


def score(found: EvalPrediction) -> dict[str, float]:
    forecast, actual = found.predictions, found.label_ids
    is_within = (actual >= forecast[..., 0]) & (actual <= forecast[..., 2])
    return {"mae": float(np.abs(forecast[..., 1] - actual).mean()), "coverage": float(is_within.mean())}


def settings() -> TrainingArguments:
    return TrainingArguments(
        output_dir="forecast",
        max_steps=4000,
        per_device_train_batch_size=64,
        per_device_eval_batch_size=256,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=100,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        eval_strategy="steps",
        eval_steps=200,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        disable_tqdm=True,
        use_cpu=True,
        seed=8,
    )


def main() -> None:
    set_seed(8)
    table = readings(feeders=40, hours=5000, seed=21)
    trainer = Trainer(
        model=Forecaster(ForecasterConfig()),
        args=settings(),
        train_dataset=Windows(table[:, :4200], stride=3),
        eval_dataset=Windows(table[:, 4200:], stride=84),
        data_collator=lambda batch: batch,
        compute_metrics=score,
    )
    trainer.train()
    print({name: round(value, 4) for name, value in trainer.evaluate().items()})


if __name__ == "__main__":
    main()
