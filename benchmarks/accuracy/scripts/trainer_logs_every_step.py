"""Fits a small mixture to sensor windows with the HF Trainer; each log line is on disk before the next step begins."""

import json
import os

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

CHANNELS = 48


class Journal(TrainerCallback):
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.file.write(json.dumps({"step": state.global_step, **logs}) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


class Windows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.rows = torch.randn(count, CHANNELS, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"window": self.rows[index], "labels": self.rows[index].square().sum()}


class Mixture(nn.Module):
    def __init__(self, experts=8, width=64):
        super().__init__()
        self.gate = nn.Linear(CHANNELS, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(CHANNELS, width), nn.Tanh(), nn.Linear(width, 1)) for _ in range(experts)
        )

    def forward(self, window, labels=None):
        votes = torch.cat([expert(window) for expert in self.experts], 1)
        value = (votes * self.gate(window).softmax(1)).sum(1)
        return {"loss": nn.functional.mse_loss(value, labels), "logits": value}


def main():
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=32,
        num_train_epochs=10,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    Trainer(Mixture(), args, train_dataset=Windows(20_000), callbacks=[Journal("journal.jsonl")]).train()


if __name__ == "__main__":
    main()
