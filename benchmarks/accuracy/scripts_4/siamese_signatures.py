"""Contrastive training of a small siamese CNN on synthetic pen strokes (genuine or forged signature pairs)."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    run_dir: str = "runs/siamese"
    writers: int = 60
    side: int = 32
    batch: int = 48
    steps: int = 4000
    margin: float = 1.0
    lr: float = 1e-3
    bins: int = 64
    seed: int = 21


class RunLog:
    """Append-only event file that the lab's dashboard tails."""

    def __init__(self, settings: Settings):
        folder = Path(settings.run_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(asdict(settings)))
        self.file = (folder / "events.jsonl").open("a")
        self.bins = settings.bins

    def report(self, step, loss, net):
        self.scalar(step, "loss", loss)
        for name, parameter in net.named_parameters():
            self.scalar(step, f"norm/{name}", parameter.norm())
            self.histogram(step, f"weight/{name}", parameter)
            self.histogram(step, f"gradient/{name}", parameter.grad)

    def scalar(self, step, tag, value):
        self._write({"step": step, "tag": tag, "value": float(value), "wall": time.time()})

    def histogram(self, step, tag, tensor):
        flat = tensor.detach().flatten().float()
        low, high = flat.min().item(), flat.max().item()
        counts = torch.histc(flat, self.bins, low, high)
        quantiles = torch.quantile(flat[:100_000], torch.tensor([0.05, 0.5, 0.95]))
        event = {"low": low, "high": high, "counts": counts.tolist(), "quantiles": quantiles.tolist()}
        self._write({"step": step, "tag": tag, "wall": time.time(), **event})

    def _write(self, event):
        self.file.write(json.dumps(event) + "\n")
        self.file.flush()


class Pen:
    """Every writer is a smooth curve; a genuine pair shares it, a forged pair does not."""

    def __init__(self, settings: Settings):
        self.side = settings.side
        self.coefficients = torch.randn(settings.writers, 2, 4)
        phase = torch.linspace(0, 6.28, 80)
        self.basis = torch.stack([phase.sin(), phase.cos(), (2 * phase).sin(), (3 * phase).cos()])
        self.axis = torch.linspace(-1, 1, self.side)

    def draw(self, writer):
        shaky = self.coefficients[writer] + 0.1 * torch.randn(len(writer), 2, 4)
        x, y = torch.tanh(0.5 * (shaky @ self.basis)).unbind(dim=1)
        column = torch.exp(-200 * (x[:, :, None] - self.axis) ** 2)
        row = torch.exp(-200 * (y[:, :, None] - self.axis) ** 2)
        return torch.bmm(row.transpose(1, 2), column).clamp(max=1).unsqueeze(1)

    def pairs(self, count):
        left = torch.randint(len(self.coefficients), (count,))
        same = torch.rand(count) < 0.5
        right = torch.where(same, left, torch.randint(len(self.coefficients), (count,)))
        return self.draw(left), self.draw(right), (left == right).float()


def tower():
    layers, width = [], 1
    for out in (32, 64, 96):
        layers += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        width = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(96 * 16, 128))


def contrastive(a, b, same, margin):
    distance = F.pairwise_distance(a, b)
    return (same * distance**2 + (1 - same) * F.relu(margin - distance) ** 2).mean()


def main(settings: Settings):
    torch.manual_seed(settings.seed)
    pen, net, log = Pen(settings), tower(), RunLog(settings)
    optimizer = torch.optim.Adam(net.parameters(), lr=settings.lr, fused=True)
    bank = [pen.pairs(settings.batch) for _ in range(64)]
    for step in range(settings.steps):
        left, right, same = bank[step % len(bank)]
        loss = contrastive(net(left), net(right), same, settings.margin)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        log.report(step, loss, net)
        optimizer.step()
    torch.save(net.state_dict(), Path(settings.run_dir) / "tower.pt")


if __name__ == "__main__":
    main(Settings())
