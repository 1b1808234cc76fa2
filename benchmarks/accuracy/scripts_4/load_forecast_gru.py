"""Day-ahead load forecasting for a set of substations: a two-layer GRU on hourly history, quantile loss."""

import gc
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

QUANTILES = (0.1, 0.5, 0.9)


@dataclass
class ForecastConfig:
    history: int = 72
    horizon: int = 24
    hidden: int = 224
    stations: int = 40
    hours: int = 4000
    batch: int = 96
    steps: int = 3000
    tidy_every: int = 1
    seed: int = 11


def synthetic_load(cfg: ForecastConfig) -> np.ndarray:
    rng = np.random.default_rng(cfg.seed)
    hour = np.arange(cfg.hours)
    day = np.sin(2 * np.pi * hour / 24 + rng.uniform(0, 1, (cfg.stations, 1)))
    week = 0.3 * np.sin(2 * np.pi * hour / 168 + rng.uniform(0, 3, (cfg.stations, 1)))
    noise = rng.normal(0, 0.1, (cfg.stations, cfg.hours))
    return (day + week + noise).astype(np.float32)


class Windows(Dataset):
    """Sliding windows over all stations; one item is a station and a start hour."""

    def __init__(self, load: np.ndarray, cfg: ForecastConfig):
        self.load = torch.from_numpy(load)
        self.cfg = cfg
        self.per_station = load.shape[1] - cfg.history - cfg.horizon

    def __len__(self):
        return self.load.shape[0] * self.per_station

    def __getitem__(self, index):
        station, start = divmod(index, self.per_station)
        cut = start + self.cfg.history
        row = self.load[station]
        return {"past": row[start:cut], "future": row[cut : cut + self.cfg.horizon]}


class QuantileGRU(nn.Module):
    def __init__(self, cfg: ForecastConfig):
        super().__init__()
        self.horizon = cfg.horizon
        self.lift = nn.Linear(1, 32)
        self.gru = nn.GRU(32, cfg.hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(cfg.hidden, cfg.horizon * len(QUANTILES))

    def forward(self, past, future=None):
        states, _ = self.gru(torch.relu(self.lift(past.unsqueeze(-1))))
        out = self.head(states[:, -1]).view(-1, self.horizon, len(QUANTILES))
        if future is None:
            return {"logits": out}
        error = future.unsqueeze(-1) - out
        q = out.new_tensor(QUANTILES)
        return {"loss": torch.maximum(q * error, (q - 1) * error).mean(), "logits": out}


class Housekeeping(TrainerCallback):
    """Keeps the resident size of the job flat on the shared node."""

    def __init__(self, every: int):
        self.every = every

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0:
            gc.collect()


def main():
    cfg = ForecastConfig()
    set_seed(cfg.seed)
    data = Windows(synthetic_load(cfg), cfg)
    arguments = TrainingArguments(
        output_dir="forecast_out",
        per_device_train_batch_size=cfg.batch,
        max_steps=cfg.steps,
        learning_rate=1e-3,
        optim="adamw_torch_fused",
        logging_steps=250,
        save_strategy="no",
        report_to="none",
        label_names=["future"],
        dataloader_pin_memory=False,
        disable_tqdm=True,
        seed=cfg.seed,
    )
    trainer = Trainer(QuantileGRU(cfg), arguments, train_dataset=data, callbacks=[Housekeeping(cfg.tidy_every)])
    trainer.train()
    torch.save(trainer.model.state_dict(), "forecast.pt")


if __name__ == "__main__":
    main()
