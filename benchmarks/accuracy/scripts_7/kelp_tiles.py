"""Segment floating kelp canopy in five-band coastal satellite tiles."""

import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BANDS = 5


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=1536)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--validate-every", type=int, default=100)
    parser.add_argument("--report-every", type=int, default=50)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=23)
    return parser.parse_args()


def coast(count: int, side: int, seed: int) -> TensorDataset:
    """Tiles with water, a swell pattern, glint and patches of canopy that are bright in the near infrared."""
    noise = torch.Generator().manual_seed(seed)
    rough = torch.randn(count, 1, side // 8, side // 8, generator=noise)
    cover = F.interpolate(rough, size=(side, side), mode="bicubic", align_corners=False)
    canopy = (cover > 0.8).float()
    water = torch.tensor([0.06, 0.05, 0.03, 0.02, 0.01]).view(1, BANDS, 1, 1)
    leaves = torch.tensor([0.03, 0.05, 0.03, 0.12, 0.17]).view(1, BANDS, 1, 1)
    depth = torch.rand(count, 1, 1, 1, generator=noise) * 0.6 + 0.3
    ramp = torch.linspace(0.0, 20.0, side).sin().view(1, 1, 1, side) * 0.01
    image = water + ramp + depth * canopy * (leaves - water)
    image = image + 0.02 * torch.randn(count, BANDS, side, side, generator=noise)
    return TensorDataset(image * 10.0, canopy)


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.norms[0](self.first(x)), inplace=True)
        return F.relu(x + self.norms[1](self.second(inner)))


class CanopyNet(nn.Module):
    """Encoder and decoder over three scales; the finest one only sees the stem and the head."""

    def __init__(self, width: int):
        super().__init__()
        self.stem = nn.Conv2d(BANDS, width, 3, padding=1)
        self.shrink1 = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.middle = nn.Sequential(Residual(2 * width), Residual(2 * width))
        self.shrink2 = nn.Conv2d(2 * width, 4 * width, 2, stride=2)
        self.deep = nn.Sequential(Residual(4 * width), Residual(4 * width))
        self.grow2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.fuse = Residual(2 * width)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        fine = F.relu(self.stem(image))
        middle = self.middle(self.shrink1(fine))
        deep = self.deep(self.shrink2(middle))
        middle = self.fuse(middle + self.grow2(deep))
        return self.head(fine + self.grow1(middle))


def canopy_loss(logits: torch.Tensor, canopy: torch.Tensor) -> torch.Tensor:
    entropy = F.binary_cross_entropy_with_logits(logits, canopy)
    chance = logits.sigmoid()
    overlap = (chance * canopy).sum(dim=(1, 2, 3))
    sizes = (chance + canopy).sum(dim=(1, 2, 3))
    return entropy + 1.0 - ((2.0 * overlap + 1.0) / (sizes + 1.0)).mean()


@torch.no_grad()
def intersection_over_union(accelerator: Accelerator, model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    both = torch.zeros((), device=accelerator.device)
    either = torch.zeros((), device=accelerator.device)
    for image, canopy in loader:
        found, truth = model(image) > 0, canopy > 0.5
        both += (found & truth).sum()
        either += (found | truth).sum()
    model.train()
    counts = accelerator.reduce(torch.stack([both, either]))
    return (counts[0] / counts[1].clamp(min=1.0)).item()


def endless(loader: DataLoader):
    while True:
        yield from loader


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    accelerator = Accelerator()
    train = DataLoader(coast(args.tiles, args.side, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    held_out = DataLoader(coast(96, args.side, 2), batch_size=args.batch_size)
    model = CanopyNet(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps)
    model, optimizer, train, held_out, schedule = accelerator.prepare(model, optimizer, train, held_out, schedule)

    best = 0.0
    running = torch.zeros((), device=accelerator.device)
    for step, (image, canopy) in enumerate(endless(train), start=1):
        loss = canopy_loss(model(image), canopy)
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        running += loss.detach()
        if step % args.report_every == 0:
            accelerator.print(f"step {step:5d} loss {running.item() / args.report_every:.4f}")
            running.zero_()
        if step % args.validate_every == 0:
            score = intersection_over_union(accelerator, model, held_out)
            best = max(best, score)
            accelerator.print(f"step {step:5d} held-out IoU {score:.3f} (best {best:.3f})")
        if step == args.steps:
            break


if __name__ == "__main__":
    main()
