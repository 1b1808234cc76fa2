"""Next-chord model for four-part chorales: a decoder over chord symbols, trained with Accelerate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    chords: int = 192
    beats: int = 48
    pieces: int = 1600
    width: int = 320
    depth: int = 5
    heads: int = 5
    batch: int = 8
    epochs: int = 6
    lr: float = 4e-4
    warmup: int = 100
    report_every: int = 50
    save_every: int = 2
    keep: int = 2
    project: Path = Path("chorales")
    seed: int = 11


def compose(settings: Settings) -> torch.Tensor:
    """Pieces drawn from a sparse second-order chain that repeats its opening phrase at the end."""
    draw = torch.Generator().manual_seed(settings.seed)
    follow = torch.randint(settings.chords, (settings.chords, 7, 4), generator=draw)
    pieces = torch.empty(settings.pieces, settings.beats + 1, dtype=torch.long)
    pieces[:, 0] = torch.randint(settings.chords, (settings.pieces,), generator=draw)
    pieces[:, 1] = torch.randint(settings.chords, (settings.pieces,), generator=draw)
    for beat in range(2, settings.beats + 1):
        choice = torch.multinomial(torch.tensor([0.6, 0.25, 0.1, 0.05]), settings.pieces, True, generator=draw)
        pieces[:, beat] = follow[pieces[:, beat - 1], pieces[:, beat - 2] % 7, choice]
    pieces[:, -8:] = pieces[:, :8]
    return pieces


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(count, length, width))
        return x + self.mlp(self.before_mlp(x))


class ChordModel(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.chord = nn.Embedding(settings.chords, settings.width)
        self.beat = nn.Embedding(settings.beats, settings.width)
        self.blocks = nn.Sequential(*(Block(settings.width, settings.heads) for _ in range(settings.depth)))
        self.norm = nn.LayerNorm(settings.width)
        self.score = nn.Linear(settings.width, settings.chords, bias=False)

    def forward(self, chords: torch.Tensor) -> torch.Tensor:
        places = torch.arange(chords.shape[1], device=chords.device)
        return self.score(self.norm(self.blocks(self.chord(chords) + self.beat(places))))


class Checkpoints:
    """Writes the whole training state beside the older ones, so that a stopped run goes on where it was."""

    def __init__(self, accelerator: Accelerator, every: int) -> None:
        self.accelerator = accelerator
        self.every = every

    def after(self, update: int) -> None:
        if update % self.every == 0:
            self.accelerator.save_state()


def train(settings: Settings) -> None:
    project = ProjectConfiguration(
        project_dir=str(settings.project), automatic_checkpoint_naming=True, total_limit=settings.keep
    )
    accelerator = Accelerator(project_config=project)
    set_seed(settings.seed)
    loader = DataLoader(TensorDataset(compose(settings)), batch_size=settings.batch, shuffle=True, drop_last=True)
    model = ChordModel(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / settings.warmup))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    checkpoints = Checkpoints(accelerator, settings.save_every)

    update, total = 0, torch.zeros((), device=accelerator.device)
    for epoch in range(settings.epochs):
        model.train()
        for (pieces,) in loader:
            scores = model(pieces[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.detach()
            update += 1
            if update % settings.report_every == 0:
                accelerator.print(f"epoch {epoch} update {update}: loss {total.item() / settings.report_every:.3f}")
                total.zero_()
            checkpoints.after(update)
    accelerator.wait_for_everyone()
    accelerator.save_model(model, str(settings.project / "final"))


if __name__ == "__main__":
    train(Settings())
