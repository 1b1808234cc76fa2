"""Soil moisture maps from stacked radar and optical tiles, with Accelerate."""

from __future__ import annotations

import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=1024)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=24)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--updates", type=int, default=2400)
    parser.add_argument("--lr", type=float, default=8e-4)
    parser.add_argument("--report-every", type=int, default=40)
    return parser.parse_args()


def smooth_field(count: int, size: int, cells: int) -> torch.Tensor:
    return F.interpolate(torch.randn(count, 1, cells, cells), size=(size, size), mode="bicubic", align_corners=False)


def make_tiles(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five bands, the moisture that they hide, and where it is known."""
    terrain, moisture, leaves = (smooth_field(count, size, cells) for cells in (4, 8, 12))
    speckle = torch.empty(count, 2, size, size).exponential_().sqrt_()
    radar = (0.6 * moisture + 0.3 * terrain + 0.2 * leaves).expand(-1, 2, -1, -1) * speckle
    green = leaves + 0.2 * torch.randn_like(leaves)
    infrared = leaves - 0.4 * moisture + 0.2 * torch.randn_like(leaves)
    bands = torch.cat([radar, green, infrared, terrain], dim=1)
    known = (smooth_field(count, size, 6) > -1.2).float()
    return bands, torch.tanh(moisture), known


class Twice(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        layers = []
        for channels in (before, after):
            layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.GroupNorm(4, after), nn.SiLU()]
        super().__init__(*layers)


class MoistureNet(nn.Module):
    def __init__(self, bands: int, channels: int) -> None:
        super().__init__()
        one, two, three = channels, 2 * channels, 4 * channels
        self.first, self.second, self.bottom = Twice(bands, one), Twice(one, two), Twice(two, three)
        self.rise_second, self.rise_first = nn.Conv2d(three, two, 1), nn.Conv2d(two, one, 1)
        self.join_second, self.join_first = Twice(2 * two, two), Twice(2 * one, one)
        self.out = nn.Conv2d(one, 1, 1)

    def forward(self, bands: torch.Tensor) -> torch.Tensor:
        fine = self.first(bands)
        middle = self.second(F.avg_pool2d(fine, 2))
        coarse = self.bottom(F.avg_pool2d(middle, 2))
        raised = F.interpolate(self.rise_second(coarse), scale_factor=2.0)
        middle = self.join_second(torch.cat([middle, raised], dim=1))
        raised = F.interpolate(self.rise_first(middle), scale_factor=2.0)
        return self.out(self.join_first(torch.cat([fine, raised], dim=1)))


def masked_error(predicted: torch.Tensor, truth: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Each tile counts the same, however much of it is known."""
    squares = ((predicted - truth).square() * known).sum((1, 2, 3))
    return (squares / known.sum((1, 2, 3)).clamp(min=1)).mean()


def cosine(update: int, total: int, rise: int = 100) -> float:
    if update < rise:
        return (update + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (update - rise) / max(1, total - rise)))


def main() -> None:
    args = parse()
    set_seed(17)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    tiles = TensorDataset(*make_tiles(args.tiles, args.size))
    loader = DataLoader(tiles, batch_size=args.micro_batch, shuffle=True, drop_last=True)
    model = MoistureNet(bands=5, channels=args.channels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.02, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: cosine(update, args.updates))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)

    updates, total = 0, torch.zeros(())
    while updates < args.updates:
        for bands, truth, known in loader:
            with accelerator.accumulate(model):
                loss = masked_error(model(bands), truth, known)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            total += loss.detach()
            if not accelerator.sync_gradients:
                continue
            updates += 1
            if updates % args.report_every == 0:
                mean = total.item() / (args.report_every * args.accumulate)
                accelerator.print(f"update {updates}: error {mean:.4f}", flush=True)
                total.zero_()
            if updates == args.updates:
                break
    torch.save(accelerator.unwrap_model(model).state_dict(), "moisture.pt")


if __name__ == "__main__":
    main()
