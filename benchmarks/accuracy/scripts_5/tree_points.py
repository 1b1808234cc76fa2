"""Estimate the stem volume of single trees from airborne laser points with a PointNet, under Accelerate."""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker, on_main_process
from accelerate.utils import set_seed
from torch import nn

POINTS = 256
TREES = 3200
BATCH = 16
EPOCHS = 40
LR = 1e-3


class LinesTracker(GeneralTracker):
    """One JSON object a line, in a file that stays open."""

    name = "lines"
    requires_logging_directory = False

    @on_main_process
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("w", encoding="utf-8")

    @property
    def tracker(self):
        return self.file

    @on_main_process
    def store_init_configuration(self, values: dict) -> None:
        self.file.write(json.dumps({"settings": values}) + "\n")

    @on_main_process
    def log(self, values: dict, step: int | None = None, **kwargs) -> None:
        self.file.write(json.dumps({"step": step, **values}) + "\n")

    @on_main_process
    def finish(self) -> None:
        self.file.close()


def forest(trees: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on the crowns of conical trees, metres above ground, and the logarithm of the stem volume."""
    height = 6.0 + 26.0 * torch.rand(trees, 1)
    crown = 0.3 + 0.5 * torch.rand(trees, 1)
    radius = 0.08 * height * (0.8 + 0.4 * torch.rand(trees, 1))
    level = torch.rand(trees, POINTS).sqrt()
    angle = 2 * math.pi * torch.rand(trees, POINTS)
    reach = radius * level * (0.85 + 0.15 * torch.rand(trees, POINTS))
    z = height * (1.0 - crown * level)
    points = torch.stack([reach * angle.cos(), reach * angle.sin(), z], dim=-1)
    volume = torch.log(0.00004 * height.squeeze(1) ** 2.6 * (radius.squeeze(1) * 10) ** 0.7)
    return points + 0.05 * torch.randn_like(points), volume


class PointMLP(nn.Sequential):
    """Linear layers that every point goes through alone."""

    def __init__(self, *widths: int) -> None:
        layers: list[nn.Module] = []
        for entering, leaving in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(entering, leaving), nn.LayerNorm(leaving), nn.ReLU()]
        super().__init__(*layers)


class VolumeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.local = PointMLP(3, 128, 256)
        self.joint = PointMLP(512, 320, 384)
        self.head = nn.Sequential(nn.Linear(384, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        local = self.local(points / 10.0)
        whole = local.amax(dim=1, keepdim=True).expand_as(local)
        return self.head(self.joint(torch.cat([local, whole], dim=-1)).amax(dim=1)).squeeze(-1)


def turned(points: torch.Tensor) -> torch.Tensor:
    """Each tree turned about its stem by an angle of its own."""
    angle = 2 * math.pi * torch.rand(len(points), 1)
    x, y, z = points.unbind(dim=-1)
    return torch.stack([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos(), z], dim=-1)


def main() -> None:
    set_seed(21)
    accelerator = Accelerator(cpu=True, log_with=LinesTracker(Path("volume.jsonl")))
    accelerator.init_trackers("volume", config={"points": POINTS, "batch": BATCH, "lr": LR})
    points, volume = forest(TREES)
    volume = (volume - volume.mean()) / volume.std()
    model = VolumeNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (TREES // BATCH))
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    log_every = 1
    step = 0
    for epoch in range(EPOCHS):
        for rows in torch.randperm(TREES).split(BATCH):
            loss = F.smooth_l1_loss(model(turned(points[rows])), volume[rows])
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if step % log_every == 0:
                values = {"loss": loss.item(), "norm": norm.item(), "lr": schedule.get_last_lr()[0]}
                accelerator.log(values, step=step)
                print(f"epoch {epoch} step {step} loss {values['loss']:.4f} norm {values['norm']:.2f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
