"""MLP-Mixer on radar returns. Scalars and weight histograms go to runs/<name>.jsonl for the dashboard."""
import argparse
import json
import os
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class JsonBoard:
    """A stand-in for SummaryWriter: one record a line, safe against a crash of the node."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("w")

    def add_scalar(self, tag, value, step):
        self._put({"tag": tag, "step": step, "value": float(value)})

    def add_histogram(self, tag, values, step, bins=64):
        values = values.detach().float().flatten()
        counts, edges = torch.histogram(values, bins)
        self._put({"tag": tag, "step": step, "counts": counts.tolist(), "edges": edges.tolist()})

    def _put(self, record):
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


class MixerBlock(nn.Module):
    def __init__(self, patches, dim, expand=2):
        super().__init__()
        self.norm_t, self.norm_c = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(patches, expand * patches), nn.GELU(), nn.Linear(expand * patches, patches))
        self.channels = nn.Sequential(nn.Linear(dim, expand * dim), nn.GELU(), nn.Linear(expand * dim, dim))

    def forward(self, x):
        x = x + self.tokens(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm_c(x))


class RadarMixer(nn.Module):
    def __init__(self, bins=32, patches=64, dim=128, depth=4, classes=6):
        super().__init__()
        self.stem = nn.Linear(bins, dim)
        self.blocks = nn.Sequential(*[MixerBlock(patches, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(1))


def returns(n, generator):
    label = torch.randint(6, (n,), generator=generator)
    doppler = torch.sin((1 + label[:, None, None]) * torch.linspace(0, 6.28, 32))
    return doppler + torch.randn(n, 64, 32, generator=generator), label


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--name", default="radar")
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--board-every", type=int, default=1, help="steps between two entries of the dashboard")
    args = ap.parse_args()

    torch.manual_seed(6)
    g = torch.Generator().manual_seed(6)
    x, y = returns(4096, g)
    model = RadarMixer()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    board = JsonBoard(Path("runs") / f"{args.name}.jsonl")
    for step in range(args.steps):
        rows = torch.randint(len(x), (args.batch,), generator=g)
        logits = model(x[rows])
        loss = F.cross_entropy(logits, y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % args.board_every == 0:
            board.add_scalar("loss", loss, step)
            board.add_scalar("accuracy", (logits.argmax(1) == y[rows]).float().mean(), step)
            for name, p in model.named_parameters():
                board.add_histogram(f"weights/{name}", p, step)
                board.add_histogram(f"grads/{name}", p.grad, step)
        if step % 100 == 0:
            print(f"{step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
