"""Forecast river levels of the next day from four weeks of level, rain and temperature, as patches of a transformer."""

import argparse
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY = 672
HORIZON = 24
PATCH = 24
SERIES = ("level", "rain", "temperature")


def simulate_river(hours: int, generator: torch.Generator) -> Tensor:
    """Rain runs off through a fast and a slow reservoir; warm hours evaporate a part of it."""
    time = torch.arange(hours)
    yearly = 12 - 9 * torch.cos(2 * math.pi * time / 8766)
    daily = 4 * torch.sin(2 * math.pi * time / 24)
    temperature = yearly + daily + torch.randn(hours, generator=generator)
    wet = torch.rand(hours // 12 + 1, generator=generator).repeat_interleave(12)[:hours] < 0.18
    rain = wet * torch.rand(hours, generator=generator) ** 3 * 6
    reaching = rain * (1 - 0.02 * temperature.clamp(0, 25))
    lags = torch.arange(240)
    response = 0.7 * torch.exp(-lags / 9) / 9 + 0.3 * torch.exp(-lags / 70) / 70
    padded = F.pad(reaching, (len(lags) - 1, 0))
    level = F.conv1d(padded[None, None], response.flip(0)[None, None])[0, 0]
    river = torch.stack([level, rain, temperature])
    return (river - river.mean(dim=1, keepdim=True)) / river.std(dim=1, keepdim=True)


def forecast_windows(rivers: int, windows: int, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    past, future = [], []
    for _ in range(rivers):
        river = simulate_river(20_000, generator)
        starts = torch.randint(0, river.shape[1] - HISTORY - HORIZON, (windows // rivers,), generator=generator)
        cut = river.unfold(1, HISTORY + HORIZON, 1)[:, starts]
        past.append(cut[..., :HISTORY].transpose(0, 1).contiguous())
        future.append(cut[0, :, HISTORY:].contiguous())
    return TensorDataset(torch.cat(past), torch.cat(future))


class PatchForecaster(nn.Module):
    def __init__(self, width: int, depth: int, heads: int):
        super().__init__()
        self.embed = nn.Linear(len(SERIES) * PATCH, width)
        self.position = nn.Parameter(0.02 * torch.randn(HISTORY // PATCH, width))
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, HORIZON))

    def forward(self, past: Tensor) -> Tensor:
        patches = past.unflatten(2, (-1, PATCH)).transpose(1, 2).flatten(2)
        hidden = self.blocks(self.embed(patches) + self.position)
        return self.head(hidden[:, -1]) + past[:, 0, -1:]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivers", type=int, default=8)
    parser.add_argument("--windows", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    set_seed(options.seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=options.accumulate)

    windows = forecast_windows(options.rivers, options.windows, options.seed)
    loader = DataLoader(windows, batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = PatchForecaster(options.width, options.depth, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.05, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    updates = 0
    for epoch in range(options.epochs):
        for past, future in loader:
            with accelerator.accumulate(model):
                loss = F.smooth_l1_loss(model(past), future)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if not accelerator.sync_gradients:
                continue
            updates += 1
            if updates % 50 == 0:
                accelerator.print(f"epoch {epoch}, update {updates}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
