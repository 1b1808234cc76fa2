"""Pretrain a small residue-infilling encoder on windows cut from synthetic protein families."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
MASK_ID = len(RESIDUES)
IGNORED = -100


@dataclass(frozen=True)
class EncoderConfig:
    width: int = 256
    heads: int = 4
    depth: int = 6
    window: int = 128
    expansion: int = 4
    remat: bool = True


@dataclass(frozen=True)
class Recipe:
    windows: int = 12_000
    families: int = 40
    batch_size: int = 16
    epochs: int = 3
    peak_lr: float = 4e-4
    warmup_steps: int = 100
    masked_share: float = 0.15
    report_every: int = 50
    seed: int = 11


class Block(nn.Module):
    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.heads = cfg.heads
        self.norm_in = nn.LayerNorm(cfg.width)
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.mix = nn.Linear(cfg.width, cfg.width, bias=False)
        self.norm_mid = nn.LayerNorm(cfg.width)
        self.up = nn.Linear(cfg.width, cfg.expansion * cfg.width)
        self.down = nn.Linear(cfg.expansion * cfg.width, cfg.width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm_in(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, length, width)
        x = x + self.mix(attended)
        return x + self.down(F.gelu(self.up(self.norm_mid(x))))


class ResidueEncoder(nn.Module):
    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.residue = nn.Embedding(len(RESIDUES) + 1, cfg.width)
        self.place = nn.Embedding(cfg.window, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.depth))
        self.norm_out = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, len(RESIDUES))
        self.register_buffer("places", torch.arange(cfg.window), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.residue(tokens) + self.place(self.places)
        for block in self.blocks:
            if self.cfg.remat and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.norm_out(x))


def family_windows(recipe: Recipe, window: int) -> Tensor:
    """Each family has a profile of residue frequencies by position; a window is a draw from one profile."""
    profiles = torch.distributions.Dirichlet(torch.full((len(RESIDUES),), 0.15)).sample((recipe.families, window))
    per_family = recipe.windows // recipe.families
    drawn = torch.multinomial(profiles.flatten(0, 1), per_family, replacement=True)
    return drawn.view(recipe.families, window, per_family).transpose(1, 2).reshape(-1, window).contiguous()


def corrupt(residues: Tensor, share: float) -> tuple[Tensor, Tensor]:
    hidden = torch.rand(residues.shape, device=residues.device) < share
    return residues.masked_fill(hidden, MASK_ID), residues.masked_fill(~hidden, IGNORED)


def schedule(recipe: Recipe, total: int):
    def factor(step: int) -> float:
        if step < recipe.warmup_steps:
            return (step + 1) / recipe.warmup_steps
        progress = (step - recipe.warmup_steps) / max(1, total - recipe.warmup_steps)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, progress)))

    return factor


def main() -> None:
    cfg, recipe = EncoderConfig(), Recipe()
    set_seed(recipe.seed)
    accelerator = Accelerator()

    dataset = TensorDataset(family_windows(recipe, cfg.window))
    loader = DataLoader(dataset, batch_size=recipe.batch_size, shuffle=True, drop_last=True)
    model = ResidueEncoder(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.peak_lr, weight_decay=0.05, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(recipe, recipe.epochs * len(loader)))

    model.train()
    step = 0
    for epoch in range(recipe.epochs):
        for (residues,) in loader:
            tokens, targets = corrupt(residues, recipe.masked_share)
            logits = model(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if step % recipe.report_every == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
