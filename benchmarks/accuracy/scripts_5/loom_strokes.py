"""Recognise which of 40 weaving gestures a worker made, from the wrist sensor's recording, with a GRU."""

from __future__ import annotations

import dataclasses
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SETTINGS = {
    "recordings": 4800,
    "classes": 40,
    "sensors": 9,
    "shortest": 112,
    "longest": 120,
    "hidden": 160,
    "layers": 2,
    "batch": 48,
    "epochs": 40,
    "lr": 1.5e-3,
    "clip": 1.0,
}


@dataclasses.dataclass
class Recording:
    signal: torch.Tensor
    gesture: int


def record(number: int, prototypes: torch.Tensor, generator: torch.Generator) -> Recording:
    """One gesture at the pace of the loom: nearly as long as any other, warped a little and noisy."""
    gesture = number % len(prototypes)
    length = int(torch.randint(SETTINGS["shortest"], SETTINGS["longest"] + 1, (1,), generator=generator))
    path = prototypes[gesture].T.unsqueeze(0)
    signal = nn.functional.interpolate(path, size=length, mode="linear", align_corners=True)[0].T
    return Recording(signal + 0.4 * torch.randn(signal.shape, generator=generator), gesture)


def make_recordings() -> list[Recording]:
    generator = torch.Generator().manual_seed(29)
    prototypes = torch.randn(SETTINGS["classes"], 12, SETTINGS["sensors"], generator=generator)
    return [record(number, prototypes, generator) for number in range(SETTINGS["recordings"])]


def to_batch(recordings: list[Recording]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    signals = pad_sequence([item.signal for item in recordings], batch_first=True)
    lengths = torch.tensor([len(item.signal) for item in recordings])
    return signals, lengths, torch.tensor([item.gesture for item in recordings])


class GestureGRU(nn.Module):
    def __init__(self, sensors: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.project = nn.Sequential(nn.Linear(sensors, 64), nn.LayerNorm(64), nn.ReLU())
        self.gru = nn.GRU(64, hidden, num_layers=layers, batch_first=True)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, signals: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.project(signals))
        present = torch.arange(states.shape[1]) < lengths[:, None]
        pooled = (states * present.unsqueeze(-1)).sum(dim=1) / lengths[:, None]
        return self.classify(pooled)


class Trainer:
    def __init__(self, model: nn.Module, loader: DataLoader) -> None:
        self.model, self.loader = model, loader
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=SETTINGS["lr"], fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=SETTINGS["lr"], total_steps=SETTINGS["epochs"] * len(loader)
        )

    def step(self, signals: torch.Tensor, lengths: torch.Tensor, gestures: torch.Tensor) -> torch.Tensor:
        scores = self.model(signals, lengths)
        loss = self.loss(scores, gestures)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), SETTINGS["clip"])
        self.optimizer.step()
        self.schedule.step()
        return (scores.argmax(dim=1) == gestures).float().mean().detach()

    def run(self) -> None:
        for epoch in range(SETTINGS["epochs"]):
            began = time.perf_counter()
            right = torch.stack([self.step(*batch) for batch in self.loader])
            took = time.perf_counter() - began
            print(f"epoch {epoch + 1}: accuracy {right.mean().item():.3f}, {took:.0f} s", flush=True)


def main() -> None:
    torch.manual_seed(29)
    recordings = make_recordings()
    loader = DataLoader(
        recordings,
        batch_size=SETTINGS["batch"],
        shuffle=True,
        collate_fn=to_batch,
        drop_last=True,
    )
    model = GestureGRU(SETTINGS["sensors"], SETTINGS["hidden"], SETTINGS["layers"], SETTINGS["classes"])
    Trainer(model, loader).run()


if __name__ == "__main__":
    main()
