"""Classify the pattern of failed dies on silicon wafers (scratch, ring, cluster, edge, grid or none)."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PATTERNS = ("none", "scratch", "ring", "cluster", "edge", "grid")
SIDE = 52


def probability(pattern: str, xs: torch.Tensor, ys: torch.Tensor) -> torch.Tensor:
    radius = (xs**2 + ys**2).sqrt()
    if pattern == "scratch":
        slope, offset = torch.randn(2) * 0.5
        return torch.exp(-(((ys - slope * xs - offset) / 0.05) ** 2)) * (xs.abs() < 0.6)
    if pattern == "ring":
        return torch.exp(-(((radius - 0.35 - 0.4 * torch.rand(())) / 0.08) ** 2))
    if pattern == "cluster":
        x, y = torch.rand(2) * 1.2 - 0.6
        return torch.exp(-((xs - x) ** 2 + (ys - y) ** 2) / 0.03)
    if pattern == "edge":
        angle = torch.atan2(ys, xs) - 6.28 * torch.rand(())
        return (radius > 0.85) * (torch.cos(angle) > 0.2) * 0.8
    if pattern == "grid":
        step = 5 + int(4 * torch.rand(()))
        rows = torch.arange(SIDE)
        return 0.5 * ((rows % step == 0)[:, None] | (rows % step == 0)[None]).float()
    return torch.zeros_like(xs)


def make_wafers(count: int) -> TensorDataset:
    axis = torch.linspace(-1.05, 1.05, SIDE)
    ys, xs = torch.meshgrid(axis, axis, indexing="ij")
    disc = (xs**2 + ys**2 <= 1).float()
    kinds = torch.randint(len(PATTERNS), (count,))
    chances = torch.stack([probability(PATTERNS[kind], xs, ys) for kind in kinds.tolist()])
    failed = (torch.rand(count, SIDE, SIDE) < (0.9 * chances + 0.06).clamp(max=1)).float()
    maps = torch.stack([failed * disc, disc.expand(count, -1, -1)], dim=1)
    return TensorDataset(maps, kinds)


def vary(maps: torch.Tensor, flips: float, drop: float) -> torch.Tensor:
    """The same wafers, turned by quarters and mirrored at random, some dies gone unread."""
    maps = torch.rot90(maps, int(torch.randint(4, ())), dims=(2, 3))
    mirrored = torch.rand(len(maps), 1, 1, 1) < flips
    maps = torch.where(mirrored, maps.flip(3), maps)
    read = (torch.rand(len(maps), 1, SIDE, SIDE) >= drop).to(maps.dtype)
    return maps * read


class Stage(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm_one = nn.BatchNorm2d(after)
        self.two = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm_two = nn.BatchNorm2d(after)
        self.short = nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norm_one(self.one(maps)))
        return F.relu(self.norm_two(self.two(inner)) + self.short(maps))


def make_model(widths: list[int]) -> nn.Sequential:
    stages = [Stage(before, after, 2) for before, after in zip(widths, widths[1:])]
    enter = nn.Conv2d(2, widths[0], 3, padding=1)
    return nn.Sequential(
        enter, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(widths[-1], len(PATTERNS))
    )


@torch.inference_mode()
def score(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = sum((model(maps).argmax(1) == kinds).sum() for maps, kinds in loader)
    model.train()
    return right.item() / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wafers", type=int, default=9600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 96, 128])
    parser.add_argument("--flips", type=float, default=0.5)
    parser.add_argument("--drop", type=float, default=0.03)
    args = parser.parse_args()

    torch.manual_seed(29)
    train_set, test_set = make_wafers(args.wafers), make_wafers(512)
    train_loader = DataLoader(train_set, batch_size=args.batch, shuffle=True, drop_last=True, num_workers=0)
    test_loader = DataLoader(test_set, batch_size=128)
    model = make_model(args.widths)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

    for epoch in range(args.epochs):
        began, total = time.perf_counter(), torch.zeros(())
        for maps, kinds in train_loader:
            maps = vary(maps, args.flips, args.drop)
            loss = F.cross_entropy(model(maps), kinds, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        schedule.step()
        spent, mean = time.perf_counter() - began, total.item() / len(train_loader)
        print(f"epoch {epoch}: loss {mean:.4f}, test {score(model, test_loader):.3f}, {spent:.0f} s", flush=True)
    torch.save(model.state_dict(), "wafers.pt")


if __name__ == "__main__":
    main()
