# %% [markdown]
# Day-ahead load forecast with a patch transformer (converted from a notebook).

# %%
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

set_seed(41)
HISTORY, HORIZON, PATCH = 14 * 24, 24, 12

# %% hourly load of some substations: daily and weekly rhythm, a trend, noise
rng = np.random.default_rng(41)
hours = np.arange(24 * 365 * 2)
stations = []
for _ in range(6):
    daily = rng.uniform(0.5, 1.5) * np.sin(2 * np.pi * (hours + rng.integers(24)) / 24)
    weekly = rng.uniform(0.2, 0.6) * np.sin(2 * np.pi * hours / 168)
    series = daily + weekly + 1e-5 * hours + 0.15 * rng.standard_normal(len(hours))
    stations.append(torch.tensor((series - series.mean()) / series.std(), dtype=torch.float32))
load = torch.stack(stations)


# %%
class LoadWindows(Dataset):
    def __init__(self, load, every=6):
        self.load = load
        self.starts = range(0, load.shape[1] - HISTORY - HORIZON, every)

    def __len__(self):
        return len(self.starts) * len(self.load)

    def __getitem__(self, n):
        station, k = divmod(n, len(self.starts))
        at = self.starts[k]
        window = self.load[station, at : at + HISTORY + HORIZON]
        return {"history": window[:HISTORY], "labels": window[HISTORY:]}


class PatchForecaster(nn.Module):
    def __init__(self, width=96, depth=3):
        super().__init__()
        n_patches = HISTORY // PATCH
        self.embed = nn.Linear(PATCH, width)
        self.position = nn.Parameter(0.02 * torch.randn(1, n_patches, width))
        block = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.05, activation="gelu", batch_first=True)
        self.body = nn.TransformerEncoder(block, depth)
        self.head = nn.Linear(n_patches * width, HORIZON)

    def forward(self, history, labels=None):
        patches = history.unflatten(1, (-1, PATCH))
        forecast = self.head(self.body(self.embed(patches) + self.position).flatten(1))
        if labels is None:
            return {"logits": forecast}
        return {"loss": nn.functional.huber_loss(forecast, labels), "logits": forecast}


# %%
common = dict(output_dir="load_runs", report_to="none", save_strategy="no", logging_steps=250, seed=41)
optimisation = dict(learning_rate=2e-4, weight_decay=0.01, num_train_epochs=1, warmup_steps=100)
sizes = dict(per_device_train_batch_size=2)

windows = LoadWindows(load)
print(f"{len(windows)} windows")
trainer = Trainer(
    model=PatchForecaster(),
    args=TrainingArguments(**common, **optimisation, **sizes),
    train_dataset=windows,
)
trainer.train()
